"""What tasks write of a roll-forward is what one process writes, also where they are tried again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater.engine.transport.in_process import InProcess, NumberedTask
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.engine.transport.small_slices import SparkWhereNeeded
from slackwater.runs.publishing.corrections import Identity
from slackwater.runs.publishing.portion_tasks import PortionTasks
from slackwater.runs.publishing.portions import Portion
from slackwater.runtime.settings import SparkPlace
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.lineage_rows import restore_row
from slackwater.tables.ledger.rows import MAIN
from slackwater.tables.ledger.writer import LedgerWriter
from tests.runs.lineages import GROUPS, HOUR, LATE_EVENING
from tests.runs.rolling import commit_run, pane, roll_forward, with_file_rows
from tests.runs.tables_of_panes import corrections_of, in_any_order, published_of
from tests.runs.task_bytes import AsOnACluster
from tests.tables.ledger.ledger_rows import clock, day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_that_must_start_first_gets_more_portions_at_least() -> None:
    for place, least in ((SparkPlace.HERE, 8), (SparkPlace.ELSEWHERE, 8), (SparkPlace.NOT_STARTED, 32)):
        tasks = PortionTasks(SparkWhereNeeded(InProcess, 2, place=lambda place=place: place))
        assert not tasks.are_for([Portion()] * (least - 1))
        assert tasks.are_for([Portion()] * least)


class TriedTwice(AsOnACluster):
    """Threads that do each task twice, as if the first try had died when all was written. Each task is tried
    once more when `try_again` is called, as by an executor that nobody hears of any more.
    """

    def __init__(self) -> None:
        super().__init__(2)
        self.tasks: list[tuple[NumberedTask, int]] = []

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        self.tasks.append((task, count))
        super().each(task, count)
        return super().each(task, count)

    def try_again(self) -> None:
        for task, count in self.tasks:
            super().each(task, count)
        self.tasks.clear()


@pytest.mark.slow
@pytest.mark.parametrize("identity", Identity)
def test_a_second_try_of_a_task_leaves_nothing_that_no_commit_names(
    tmp_path: Path, identity: Identity
) -> None:
    first = [pane(1, n=n, key=key, start=LATE_EVENING + n * HOUR) for n in range(3) for key in GROUPS]
    late = [replace(one, firing=2, kind="late", results=(9, 0.5)) for one in first[::2]]
    one_process = replace(roll_forward(tmp_path / "here", identity), portion_rows=1)
    transport = TriedTwice()
    by_tasks = replace(with_file_rows(roll_forward(tmp_path / "there", identity), 1), portion_rows=1)
    by_tasks = replace(by_tasks, tasks=PortionTasks(transport, least=1))
    for panes in (first, late, late):
        for rolling in (one_process, by_tasks):
            commit_run(rolling.tables, panes)
            rolling.finish()
        assert transport.tasks
        transport.try_again()
    assert {
        name: files_that_no_commit_names(by_tasks.tables[name]) for name in ("published", "corrections")
    } == {
        "published": set(),
        "corrections": set(),
    }
    rows_here, rows_there = (
        (
            in_any_order(published_of(rolling.tables["published"].read())),
            in_any_order(corrections_of(rolling.tables["corrections"].read().to_pylist())),
        )
        for rolling in (one_process, by_tasks)
    )
    assert rows_here == rows_there


def files_that_no_commit_names(folder: Folder) -> set[str]:
    """Of the table's folder, without its log."""
    root = Path(folder.uri)
    named_paths = {
        action["add"]["path"]
        for commit in (root / "_delta_log").glob("*.json")
        for action in map(json.loads, commit.read_text().splitlines())
        if "add" in action
    }
    paths = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in paths if not path.startswith("_delta_log")} - named_paths


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("identity", Identity)
def test_tasks_of_spark_write_what_one_process_writes(
    tmp_path: Path, identity: Identity, spark: "SparkSession"
) -> None:
    """A run, late firings, a run of nothing, more late firings, and a restore of the first run. Each portion
    has a task of its own.
    """
    first = [pane(1, n=n, key=key, start=LATE_EVENING + n * HOUR) for n in range(3) for key in GROUPS]
    late = [replace(one, firing=2, kind="late", results=(9, 0.5)) for one in first[::2]]
    one_process = replace(roll_forward(tmp_path / "here", identity), portion_rows=1)
    by_tasks = replace(with_file_rows(roll_forward(tmp_path / "there", identity), 1), portion_rows=1)
    by_tasks = replace(by_tasks, tasks=PortionTasks(OnSpark(spark), least=1))
    rows = []
    for rolling in (one_process, by_tasks):
        for panes in (first, late, [], late):
            commit_run(rolling.tables, panes)
            rolling.finish()
        ledger = LedgerWriter(rolling.tables["runs"])
        ledger.commit(MAIN, 4, [restore_row(ledger.row(4), ledger.row(1), ledger.row(1), day(0))], clock)
        rolling.finish()
        tables = (
            published_of(rolling.tables["published"].read()),
            corrections_of(rolling.tables["corrections"].read().to_pylist()),
        )
        rows.append([in_any_order(table) for table in tables])
    assert rows[0] == rows[1]
    published, corrections = rows[0]
    assert len(published) == len(first) and len(corrections) > len(first) + 2 * len(late) - 1
