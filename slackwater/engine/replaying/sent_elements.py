"""The tables that a map task sends to the ranges. They wait for each other, packed or as they are, so that
many batches and many ranges do not make many more tables, of few rows each:

    batch 1   cells  late   --.
    batch 2   cells         --+-- wait -- cells of all batches -- range 0, range 1, … range n
    batch 3   cells  late   --'           late rows of all     -- range 0, range 1, … range n

A table that is large enough to be divided among all ranges alone waits for nobody. Where a map task
aggregates nothing, elements go row by row to the range of their key, which has them in processing order and,
under `distinct_by`, without duplicates.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.replaying.distinct_rows import first_rows
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.replaying.results import (
    PassingRows,
    collect,
    counts_table,
    folded_count,
    mark_table,
    name_of,
    rows_of_source,
    spread_quarantine_rows,
)
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, KEY_GROUP, SOURCE_FILE
from slackwater.engine.rows.element_order import in_order
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.keys import Keys
from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.scan import Batches
from slackwater.engine.transport.in_process import RangeTask, Transport
from slackwater.engine.transport.packing import concat_packed, is_packed

# To send and to receive a table takes as long as to bring so many bytes of small ones together.
_BYTES_WORTH_A_TABLE = 256 << 10
MOST_WAITING_BYTES = 64 << 20
_SHARE_OF_MEMORY = 16

Route = Callable[[pa.Table], Iterator[tuple[int, pa.Table]]]


class SentTables:
    """What one map task sends to `ranges` ranges.

    Args:
        memory_mb: what the task may take; a small part of it may wait.
        route: divides a table, marked with its name, among the ranges: (range number, rows).
    """

    def __init__(self, ranges: int, memory_mb: int, route: Route) -> None:
        self._route = route
        self._large_bytes = ranges * _BYTES_WORTH_A_TABLE
        self._most_bytes = min(MOST_WAITING_BYTES, (memory_mb << 20) // _SHARE_OF_MEMORY)
        self._waiting_tables: dict[str, list[pa.Table]] = {}
        self._waiting_bytes = 0

    def send(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """What goes out after one more table: its rows, the rows of all tables that wait, or nothing."""
        size = table.nbytes
        if size >= self._large_bytes:
            yield from self._route(table)
            return
        self._waiting_tables.setdefault(name_of(table), []).append(table)
        self._waiting_bytes += size
        if self._waiting_bytes >= self._most_bytes:
            yield from self.send_the_rest()

    def send_the_rest(self) -> Iterator[tuple[int, pa.Table]]:
        waiting_tables, self._waiting_tables, self._waiting_bytes = self._waiting_tables, {}, 0
        for name, tables in waiting_tables.items():
            yield from self._route(_as_one(name, tables))


def _as_one(name: str, tables: list[pa.Table]) -> pa.Table:
    """Tables of the same columns as one, in one chunk; they are let go."""
    if len(tables) == 1:
        return tables.pop()
    if is_packed(tables[0]):
        rows = concat_packed(tables)
    else:
        rows = mark_table(name, pa.concat_tables([table.replace_schema_metadata(None) for table in tables]))
    tables.clear()
    return rows.unify_dictionaries().combine_chunks()


def divide(rows: pa.Table, numbers: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, pa.Table]]:
    """(range number, its rows, in their order), of rows with these range numbers."""
    if bool(np.any(numbers[1:] < numbers[:-1])):
        # Short integers are sorted by radix.
        order = np.argsort(numbers.astype(np.min_scalar_type(numbers.max())), kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for start, end in itertools.pairwise([*starts, len(numbers)]):
        yield int(numbers[start]), rows.slice(start, end - start)


_ELEMENTS: Final = "elements"
_QUARANTINE: Final = "quarantine"


@dataclass(frozen=True)
class MapElements:
    """Map task: judge the rows, and send elements to the ranges of their keys, counts to range 0."""

    judge: Judge
    keys: Keys
    ranges: int
    memory_mb: int

    def __call__(self, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        sent_tables, counts = SentTables(self.ranges, self.memory_mb, self._route), Counter[str]()
        for batch in batches:
            for table in self._judge_batch(batch, counts):
                yield from sent_tables.send(table)
        yield from sent_tables.send_the_rest()
        yield 0, counts_table(counts)

    def _judge_batch(self, batch: SourceBatch, counts: Counter[str]) -> Iterator[pa.Table]:
        judged_batch = self.judge.judge_batch(batch)
        counts.update(rows_of_source(batch.source, judged_batch.rows_read))
        counts["rows_read"] += judged_batch.filtered_count
        counts["rows_filtered"] += judged_batch.filtered_count
        counts["rows_exploded"] += judged_batch.exploded_count
        counts["rows_folded"] += judged_batch.filtered_folded_count
        if judged_batch.quarantine_rows.num_rows:
            yield mark_table(_QUARANTINE, judged_batch.quarantine_rows)
        elements = judged_batch.elements
        if not elements.num_rows:
            return
        elements = elements.append_column(KEY_GROUP, pa.array(self.keys.groups(elements), pa.int32()))
        if self.judge.pipeline.on_error == "quarantine":
            elements = elements.append_column(
                SOURCE_FILE, pa.repeat(pa.scalar(batch.path, pa.string()), elements.num_rows)
            )
        yield mark_table(_ELEMENTS, elements)

    def _route(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if name_of(table) == _QUARANTINE:
            yield from spread_quarantine_rows(table, self.ranges)
        else:
            yield from divide(
                table, self.keys.range_numbers(table, table.column(KEY_GROUP).to_numpy(), self.ranges)
            )


def replay_elements(replay: Replay, keys: Keys, transport: Transport, task: RangeTask) -> Outcome:
    """Send the elements of the slice to the ranges of their keys, and run `task` in each range."""
    judge = Judge.of(replay.pipeline, replay.scan)
    send = MapElements(judge, keys, replay.ranges, replay.state_memory_mb)
    return collect(transport.shuffle(replay.scan, send, replay.ranges, task))


class ReceivedElements:
    """The elements that map tasks have sent to range `number`. `rows`, which has those that count in
    processing order, is complete when `receive` is exhausted.
    """

    def __init__(self, replay: Replay, keys: Keys, number: int) -> None:
        self.rows = self._empty_elements(replay)
        self._replay = replay
        self._keys = keys
        self._number = number

    def receive(self, tables_of_range: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Collect the range's elements; hand over quarantined rows, counts and deduplication's memory."""
        passing_rows, elements = PassingRows(self._replay, self._number), [self.rows]
        quarantined_count = rows_folded = 0
        for table in tables_of_range:
            if passing_rows.takes(table):
                quarantined_count += table.num_rows
                rows_folded += folded_count(table, self._replay.scan.from_ms)
                yield from passing_rows.take(table)
            elif name_of(table) == _ELEMENTS:
                elements.append(table.replace_schema_metadata(None))
            else:
                yield table
        yield from passing_rows.hand_over_the_rest()
        yield counts_table(
            {
                "rows_read": quarantined_count,
                "rows_quarantined": quarantined_count,
                "rows_folded": rows_folded,
            }
        )
        rows = pa.concat_tables(elements)
        elements.clear()  # so that they are not held twice while they are sorted
        self.rows = in_order(self._replay.pipeline, rows)
        del rows
        if self._replay.pipeline.distinct_by is not None:
            firsts = first_rows(self._replay, self._keys, self._number, self.rows)
            self.rows = firsts.rows
            yield from firsts.tables

    def take_rows(self) -> pa.Table:
        """The `rows`, which are let go here."""
        rows, self.rows = self.rows, self.rows.slice(0, 0)
        return rows

    @staticmethod
    def _empty_elements(replay: Replay) -> pa.Table:
        extra_columns = [
            pa.field(ARRIVAL, pa.int64()),
            pa.field(EVENT, pa.int64()),
            pa.field(KEY_GROUP, pa.int32()),
        ]
        if replay.pipeline.on_error == "quarantine":
            extra_columns.append(pa.field(SOURCE_FILE, pa.string()))
        return pa.schema([*replay.element_fields, *extra_columns]).empty_table()
