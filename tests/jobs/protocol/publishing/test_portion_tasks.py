"""What tasks of Spark write of a roll-forward is what one process writes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.jobs.engines.transport.in_process import InProcess
from slackwater.jobs.engines.transport.on_spark import OnSpark
from slackwater.jobs.engines.transport.small_slices import SparkWhereNeeded
from slackwater.jobs.protocol.publishing.corrections import Identity
from slackwater.jobs.protocol.publishing.portion_tasks import PortionTasks
from slackwater.jobs.protocol.publishing.portions import Portion
from slackwater.jobs.tables.ledger.lineage_rows import restore_row
from slackwater.jobs.tables.ledger.rows import MAIN
from slackwater.jobs.tables.ledger.writer import LedgerWriter
from tests.jobs.protocol.lineages import GROUPS, HOUR, LATE_EVENING
from tests.jobs.protocol.rolling import commit_run, pane, roll_forward, with_file_rows
from tests.jobs.protocol.tables_of_panes import corrections_of, in_any_order, published_of
from tests.jobs.tables.ledger.ledger_rows import clock, day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_that_must_start_first_gets_more_portions_at_least() -> None:
    for must_start, least in ((False, 8), (True, 32)):
        tasks = PortionTasks(SparkWhereNeeded(InProcess, 2, must_start=lambda must=must_start: must))
        assert not tasks.are_for([Portion()] * (least - 1))
        assert tasks.are_for([Portion()] * least)


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
