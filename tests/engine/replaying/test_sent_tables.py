"""What map tasks send is bounded by ranges and bytes, whatever the number of batches, and no result depends
on which tables went together.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying import sent_elements
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.replaying.results import mark_table, name_of
from slackwater.engine.replaying.sent_elements import SentTables, divide
from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.engine.transport.in_process import InProcess, MapTask, RangeTask
from tests.model import records as model
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import left

RULES = model.Replay(0, 400, 10, 20, model.Tumbling(100), allowed_lateness=50)
EVENTS = [
    *(model.Event(10 * n - n % 7 * 9, 10 * n, "s", n, f"key {n % 9}", {"x": n % 5}) for n in range(1, 31)),
    *(model.Event(10 * n - 390, 10 * n, "s", n, "key 1", {"x": n}) for n in range(30, 36)),
    *(model.Event(100, 200 + n, "s", 200 + n, None, {}) for n in range(8)),
]
RANGES = 2


class Counting(InProcess):
    """Counts the tables that map tasks send, by range and name."""

    def __init__(self) -> None:
        super().__init__()
        self.batches, self.tables = 0, Counter[tuple[int, str]]()

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        def batches_counted(batches: Batches) -> Batches:
            for batch in batches:
                self.batches += 1
                yield batch

        def counted(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
            for number, table in task(batches_counted(batches)):
                self.tables[number, name_of(table)] += 1
                yield number, table

        return super().shuffle(scan, counted, ranges, reduce)


@pytest.mark.parametrize("engine", [ColumnarEngine(), OperatorEngine()], ids=["columnar", "operator"])
def test_a_task_of_many_batches_sends_one_table_of_a_name_to_a_range(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> tuple[Counting, dict[str, object]]:
        transport = Counting()
        appears = [-(number // 4) for number in range(len(EVENTS))]  # every four have files of their own
        replayed = replay_pipeline(
            pipeline_of(RULES, purging=False),
            EVENTS,
            RULES,
            [],
            [RANGES],
            appears=appears,
            engines=[engine],
            transport=transport,
        )
        return transport, {**left(replayed), "hashes": replayed.hashes}

    together, rows = run()
    assert together.batches > 20 and max(together.tables.values()) == 1
    assert {number for number, _ in together.tables} == set(range(RANGES))
    monkeypatch.setattr(sent_elements, "MOST_WAITING_BYTES", 0)
    alone, rows_of_others = run()
    assert max(alone.tables.values()) > 5 and alone.batches == together.batches
    assert rows == rows_of_others


def rows_of(first: int, count: int) -> pa.Table:
    return mark_table("rows", pa.table({"n": np.arange(first, first + count)}))


def to_two_ranges(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    return divide(table, (table.column("n").to_numpy() % 2).astype(np.int32))


def sizes_sent_by(outgoing: SentTables, tables: Iterable[pa.Table]) -> list[list[int]]:
    """The sizes of what is sent after each table, and at the end."""
    sizes = [[rows.num_rows for _, rows in outgoing.send(table)] for table in tables]
    return [*sizes, [rows.num_rows for _, rows in outgoing.send_the_rest()]]


def test_tables_wait_until_they_are_many_and_a_large_one_waits_for_nobody() -> None:
    small, large = 1_000, 2 * 32_768  # of 8 bytes a row: two ranges get 256 KB each
    tables = [rows_of(0, small), rows_of(0, large), rows_of(0, small), rows_of(0, small)]
    assert sizes_sent_by(SentTables(2, 1024, to_two_ranges), tables) == [
        [],
        [32768, 32768],
        [],
        [],
        [1500, 1500],
    ]
    # Of one megabyte a sixteenth may wait: eight thousand bytes eight times, and not nine times.
    counts = sizes_sent_by(SentTables(2, 1, to_two_ranges), [rows_of(0, small)] * 12)
    assert counts == [[]] * 8 + [[4500, 4500]] + [[]] * 3 + [[1500, 1500]]


def test_rows_of_a_range_keep_their_order_and_their_mark() -> None:
    numbers = np.array([2, 0, 2, 1, 0, 2], np.int32)
    parts = list(divide(rows_of(0, 6), numbers))
    assert [(number, rows.column("n").to_pylist()) for number, rows in parts] == [
        (0, [1, 4]),
        (1, [3]),
        (2, [0, 2, 5]),
    ]
    assert {name_of(rows) for _, rows in parts} == {"rows"}
    assert list(divide(rows_of(0, 0), numbers[:0])) == []
