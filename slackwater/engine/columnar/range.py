"""One key-group range of one slice: the parts from the map tasks and the parked windows of the parent's
snapshot go through the family's kernel, and the rows that come out are handed over.
"""

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import ArrowAccumulators, UnknowableAggregate, none_unknown
from slackwater.engine.columnar.families import (
    DOUBTFUL,
    BatchElements,
    Family,
    LateRows,
    Part,
    RangeInput,
    accumulator_names,
)
from slackwater.engine.columnar.firing import FailedFiring, late_table, pane_tables
from slackwater.engine.columnar.snapshot import read_windows, timer_table, window_table
from slackwater.engine.columnar.windows import family_of
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import (
    PassingRows,
    conform,
    drop_replaced_refires,
    hand_over,
    hashes_table,
    name_of,
    range_counts,
)
from slackwater.engine.replaying.sent_elements import divide
from slackwater.engine.replaying.snapshot_rows import restored_rows, unknown_results
from slackwater.engine.replaying.task_memory import parts_of, rows_merged
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.key_numbers import (
    KEY_GROUP,
    KeyNumbers,
    keys_of,
    numbers_between,
    plain,
    split_keys,
    with_keys,
)
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.rows.keys import Keys
from slackwater.engine.transport.packing import unpack_all
from slackwater.tables.schemas import table_schemas
from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.kernels import SliceResult
from slackwater.windowing.columnar.window_columns import OpenWindows, PaneKind
from slackwater.windowing.snapshot import ContentHash

A = TypeVar("A", bound=Accumulators)

# Columns of `window_state` that follow from others, or that no built-in window has.
_NOT_RESTORED = (
    "run_id",
    "state_window_start",
    "state_window_end",
    "next_firing",
    "cleanup_time",
    "user_state",
)


@dataclass(frozen=True)
class RangeMerge:
    """The work of range `number`: merge the map tasks' parts into the parked windows, fire and park."""

    replay: Replay
    keys: Keys
    family: Family
    number: int

    def run(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The rows, hashes and counts, each table marked with its name. A range too large for one task's
        memory is merged in parts, each of some keys.
        """
        packed_tables: dict[str, list[pa.Table]] = {}
        passing_rows = PassingRows(self.replay, self.number)
        for table in tables:
            if passing_rows.takes(table):
                yield from passing_rows.take(table)
            else:
                packed_tables.setdefault(name_of(table), []).append(table)
        yield from passing_rows.hand_over_the_rest()
        yield from packed_tables.pop("counts", [])
        replay = self.replay
        rows_sent = sum(
            table.num_rows for tables_of_name in packed_tables.values() for table in tables_of_name
        )
        rows = rows_merged(replay.pipeline, rows_sent) + replay.parked_windows // replay.ranges
        parts = parts_of(self.keys.range(self.number, replay.ranges), rows, replay.state_memory_mb)
        # A range whose rows would become files leaves files of its parts, too: the driver's memory holds only
        # what is small.
        replay = dataclasses.replace(replay, file_rows=max(1, replay.file_rows // len(parts)))
        tables_of_parts = self._divide(packed_tables, parts)
        for part, (key_range, tables_of_part) in enumerate(zip(parts, tables_of_parts, strict=True)):
            merge = _PartMerge(
                replay=replay,
                keys=self.keys,
                family=self.family,
                number=self.number,
                part=part,
                key_range=key_range,
            )
            yield from merge.run(
                {name: unpack_all(tables_of_part.pop(name)) for name in list(tables_of_part)}
            )

    def _divide(
        self, packed_tables: dict[str, list[pa.Table]], parts: Sequence[KeyRange]
    ) -> list[dict[str, list[pa.Table]]]:
        """For each part its rows of the packed tables, by name. Each table is divided once, and let go."""
        if len(parts) == 1:
            return [packed_tables]
        cuts = KeyRange.cuts(parts)
        tables_of_parts: list[dict[str, list[pa.Table]]] = [defaultdict(list) for _ in parts]
        for name, tables in packed_tables.items():
            tables.reverse()
            while tables:
                table = tables.pop()
                for part, rows in divide(table, numbers_between(cuts, table, self.keys)):
                    tables_of_parts[part][name].append(rows)
        return tables_of_parts


class _PartMerge:
    """The merge of part `part` of range `number`: the windows of the keys in `key_range`."""

    def __init__(
        self,
        *,
        replay: Replay,
        keys: Keys,
        family: Family,
        number: int,
        part: int,
        key_range: KeyRange,
    ) -> None:
        self.replay = replay
        self.keys = keys
        self.family = family
        self.number = number
        self.part = part
        self.key_range = key_range
        self.schemas = table_schemas(replay.shape)
        self._state_s = 0.0

    def run(self, tables: dict[str, pa.Table]) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the part, from what the map tasks have sent, by name."""
        numbers, parts_by_name, parked_part = self._number_keys(tables)
        unknown = unknown_results(self.replay, parked_part.rows)
        if unknown:
            parts_by_name = self._let_be_unknown(unknown, parts_by_name)
        range_input = self.family.receive(parts_by_name)
        initial_state = read_windows(
            parked_part, self.family.setting, self.family.trigger_state, self.replay.added_results
        )
        slice_result = self.family.replay(range_input.slice_input, initial_state)
        late_rows = self._late_rows(slice_result, range_input, parts_by_name, numbers.distinct)
        yield from self._hand_over(slice_result, late_rows, numbers.distinct)
        doubtful_count = parts_by_name[DOUBTFUL].rows.num_rows if DOUBTFUL in parts_by_name else 0
        counts = counts_of_slice(slice_result, initial_state.windows, doubtful_count)
        yield range_counts(counts, self._state_s)

    def _number_keys(self, tables: dict[str, pa.Table]) -> tuple[KeyNumbers, dict[str, Part], Part]:
        """(key numbers, the parts by name, the rows of parked windows), all numbered together."""
        split = {name: split_keys(tables.get(name, empty)) for name, empty in self._empty_parts().items()}
        with self._timing_state():
            parked_rows = self._read_parked_rows()
        numbers = KeyNumbers.from_range(
            pa.concat_tables([*(keys for keys, _ in split.values()), keys_of(parked_rows, self.keys)]),
            self.keys,
        )
        ends = np.cumsum([*(rows.num_rows for _, rows in split.values()), parked_rows.num_rows])
        pieces = np.split(numbers.numbers, ends[:-1])
        parts_by_name = {
            name: Part(piece, rows) for (name, (_, rows)), piece in zip(split.items(), pieces, strict=False)
        }
        schema = pa.schema([field for field in self.schemas["window_state"] if field.name != "run_id"])
        distinct = numbers.distinct.select([KEY_GROUP, *self.keys.names])
        distinct = distinct.cast(pa.schema([schema.field(name) for name in distinct.column_names]))
        return KeyNumbers(numbers.numbers, distinct), parts_by_name, Part(pieces[-1], parked_rows)

    def _let_be_unknown(self, results: frozenset[str], parts_by_name: dict[str, Part]) -> dict[str, Part]:
        """Wrap the aggregates of `results`, which are unknown in some of the parked windows."""
        setting, no_rows = self.family.setting, self._no_elements()
        sent_names = accumulator_names(setting)
        aggregates = tuple(
            UnknowableAggregate(aggregate, no_rows) if name in results else aggregate
            for name, aggregate in zip(setting.pipeline.select, setting.aggregates, strict=True)
        )
        setting = dataclasses.replace(setting, aggregates=aggregates)
        self.family = family_of(setting)
        added_names = [
            names[-1]
            for names, names_sent in zip(accumulator_names(setting), sent_names, strict=True)
            if len(names) > len(names_sent)
        ]
        first_names = {names[0] for names in sent_names}
        return {
            part_name: Part(keys, rows)
            if first_names.isdisjoint(rows.column_names)
            else Part(keys, _with_columns(rows, added_names, none_unknown(rows.num_rows)))
            for part_name, (keys, rows) in parts_by_name.items()
        }

    def _no_elements(self) -> pa.Table:
        times_of_element = [pa.field(ARRIVAL, pa.int64()), pa.field(EVENT, pa.int64())]
        return pa.schema([*self.replay.element_fields, *times_of_element]).empty_table()

    def _empty_parts(self) -> dict[str, pa.Table]:
        """Every part of the family without rows, for a range to which no map task has sent any."""
        rows = self._no_elements()
        nobody = keys_of(self.schemas["window_state"].empty_table(), self.keys)
        nobody = pa.table(
            {name: plain(column) for name, column in zip(nobody.column_names, nobody.columns, strict=True)}
        )
        split = self.family.split(BatchElements.of(rows, np.zeros(0, np.int64), self.family.setting))
        return {name: with_keys(part.rows, part.keys, nobody) for name, part in split.parts.items()}

    def _read_parked_rows(self) -> pa.Table:
        schema = pa.schema(
            [field for field in self.schemas["window_state"] if field.name not in _NOT_RESTORED]
        )
        return restored_rows(self.replay, "window_state", schema, self.keys, self.key_range)

    def _panes(self, slice_result: SliceResult[ArrowAccumulators], distinct: pa.Table) -> list[pa.Table]:
        try:
            panes = pane_tables(
                slice_result.firings, slice_result.accumulators, distinct, self.family.setting
            )
        except FailedFiring as failure:
            key = [column[failure.key].as_py() for column in distinct.select(self.keys.names).columns]
            raise failure.error_of_key(key[0] if len(key) == 1 else tuple(key)) from failure.error
        return [drop_replaced_refires(pa.concat_tables(panes), self.replay.pipeline)] if panes else []

    def _hand_over(
        self,
        slice_result: SliceResult[ArrowAccumulators],
        late_rows: list[pa.Table],
        distinct: pa.Table,
    ) -> Iterator[pa.Table]:
        output, state = ContentHash(), ContentHash()
        yield from self._table_handed_over("panes", self._panes(slice_result, distinct), output)
        yield from self._table_handed_over("late_events", late_rows, None)
        with self._timing_state():
            setting, trigger_state = self.family.setting, self.family.trigger_state
            windows = [window_table(slice_result, distinct, setting, trigger_state)]
            timers = [timer_table(timers, distinct, self.family.setting) for timers in slice_result.timers]
            snapshot_parts = [
                *self._table_handed_over("window_state", windows, state),
                *self._table_handed_over("timers", timers, state),
            ]
        yield from snapshot_parts
        yield hashes_table(output, state)

    def _table_handed_over(
        self, name: str, pieces: list[pa.Table], content_hash: ContentHash | None
    ) -> Iterator[pa.Table]:
        rows = pa.concat_tables(pieces) if pieces else None
        if rows is None or not rows.num_rows:
            return
        rows = conform(rows, self.schemas[name])
        if content_hash is not None:
            content_hash.add(name, rows, without=())
        part = f"{self.part}{self.key_range.label}"
        yield from hand_over(self.replay, self.number, name, rows, self.schemas[name], part=part)

    @contextmanager
    def _timing_state(self) -> Iterator[None]:
        """Adds the CPU seconds of the block, which reads or writes the snapshot, to `_state_s`."""
        began = time.thread_time()
        yield
        self._state_s += time.thread_time() - began

    def _late_rows(
        self,
        slice_result: SliceResult[ArrowAccumulators],
        range_input: RangeInput,
        parts_by_name: dict[str, Part],
        distinct: pa.Table,
    ) -> list[pa.Table]:
        """The doubtful elements that no window took, as rows of `late_events`."""
        rows, starts, ends = slice_result.late
        if not len(rows):
            return []
        late = LateRows(
            positions=range_input.doubtful_places[rows],
            watermarks=range_input.slice_input.elements.watermarks[rows],
            owners=np.arange(len(rows)),
            starts=starts,
            ends=ends,
        )
        keys, full_rows = parts_by_name[DOUBTFUL]
        positions = pa.array(late.positions)
        groups = distinct.column(KEY_GROUP).take(pa.array(keys[late.positions]))
        schema = self.schemas["late_events"]
        return [late_table(late, full_rows.take(positions), groups, schema, self.replay.shape)]


def counts_of_slice(
    slice_result: SliceResult[A], windows_at_start: OpenWindows, doubtful_count: int = 0
) -> dict[str, int]:
    """The ledger's counts of one part, without elements judged before; `doubtful_count` were not."""
    kinds = np.concatenate([firings.kinds for firings in slice_result.firings])
    counts = slice_result.counts
    late_count = len(slice_result.late.positions)
    accepted_count = doubtful_count - late_count
    return {
        "rows_accepted": accepted_count,
        "rows_late": late_count,
        "assignments_made": accepted_count,
        "assignments_missed": counts.assignments_missed,
        "assignments_before": int(windows_at_start.elements.sum()),
        "assignments_open": int(slice_result.windows.elements.sum()),
        "assignments_cleaned": counts.elements_cleaned,
        "elements_never_fired": counts.elements_never_fired,
        "windows_opened": counts.windows_opened,
        "windows_merged": counts.windows_merged,
        "windows_fired": int(np.count_nonzero(kinds < PaneKind.LATE)),
        "windows_refired": int(np.count_nonzero(kinds == PaneKind.LATE)),
        "windows_cleaned": counts.windows_cleaned,
        "windows_open": len(slice_result.windows.keys),
        "timers_pending": sum(len(timers.keys) for timers in slice_result.timers),
    }


def _with_columns(rows: pa.Table, names: list[str], column: pa.Array) -> pa.Table:
    for name in names:
        rows = rows.append_column(name, column)
    return rows
