"""Where a run does not repeat, its rows are compared by ranges of key groups, however small, and the
differences are those of all rows.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage import verify
from slackwater.runs.lineage.verify import TableDifference, Verifier
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.windowing import ProcessWindowFunction
from tests.integration.conftest import great_expectations as great_expectations
from tests.runs.world import DAILY, World, every_hour


class Total(ProcessWindowFunction):
    """The sum of a window's x, times a factor that a test changes behind the run's back."""

    factor = 1

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[tuple[int]]:
        total = sum(element.x for element in elements)
        yield (total * (self.factor if key in ("a", "c") else 1),)


@pytest.fixture
def world(tmp_path: Path, great_expectations: None) -> World:
    """A day of four keys, each of which has 9 windows that have fired."""
    pipeline = replace(DAILY, select={}, process=Total(), output="total long")
    world = World(tmp_path / "world", pipeline)
    world.append([event for key in "abcd" for event in every_hour(0, 24, key=key)])
    world.run(24)
    return world


def differences(world: World) -> tuple[TableDifference, ...]:
    verifier = Verifier(world.warehouse, world.pipeline, world.code, None, InProcess())
    return verifier.verify(1).tables


@pytest.mark.slow
def test_rows_are_compared_portion_by_portion(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = world.table("panes").read().to_pylist()
    changed_rows = Counter(row["k"] for row in rows)["a"] + Counter(row["k"] for row in rows)["c"]
    assert differences(world) == () and changed_rows > 2
    monkeypatch.setattr(Total, "factor", 10)
    [whole] = differences(world)
    assert (whole.table, whole.only_recorded, whole.only_replayed) == ("panes", changed_rows, changed_rows)
    assert whole.example["k"] in ("a", "c")
    monkeypatch.setattr(verify, "ROWS_AT_ONCE", 1)
    reads: list[int] = []
    read = StoredFiles.read

    def read_and_count(*arguments: Any) -> Any:
        table = read(*arguments)
        reads.append(table.num_rows)
        return table

    monkeypatch.setattr(StoredFiles, "read", read_and_count)
    [in_portions] = differences(world)
    assert replace(in_portions, example={}) == replace(whole, example={})
    assert 0 < max(reads) < len(rows), "never all rows at once"
