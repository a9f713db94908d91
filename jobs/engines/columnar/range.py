"""One key-group range of one slice: what it has received is put together, its share of the parent's snapshot
read, merged, and handed over.

Nothing is committed here, and nothing known of what windows do.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.accumulators import AccumulatorColumns
from slackwater.jobs.engines.columnar.families import (
    DOUBTFUL,
    BatchElements,
    Family,
    Late,
    Part,
    RangeInput,
)
from slackwater.jobs.engines.columnar.firing import FailedFiring, pane_tables
from slackwater.jobs.engines.columnar.packing import unpack
from slackwater.jobs.engines.columnar.snapshot import restored_windows, timer_table, window_table
from slackwater.jobs.engines.columnar.tables import late_table
from slackwater.jobs.engines.replaying.refires import drop_replaced_refires
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.replaying.results import (
    PassingRows,
    conform,
    counts_table,
    hand_over,
    hashes_table,
    name_of,
)
from slackwater.jobs.engines.replaying.snapshot_rows import restored_rows
from slackwater.jobs.engines.replaying.task_memory import parts_of, rows_merged
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.engines.rows.key_numbers import (
    KEY_GROUP,
    SENT_GROUP,
    KeyNumbers,
    bounds_of_groups,
    keys_of,
    plain,
    split_keys,
    with_keys,
)
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.tables.schemas import table_schemas
from slackwater.windowing.columnar.kernels import SliceResult, WindowState
from slackwater.windowing.columnar.window_columns import PaneKind
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.snapshot import ContentHash

# Columns of `window_state` that follow from others, or that no built-in window has.
_NOT_RESTORED = (
    "run_id",
    "state_window_start",
    "state_window_end",
    "next_firing",
    "cleanup_time",
    "user_state",
)


class RangeWork:
    """What range `number` merges and hands over."""

    def __init__(self, replay: Replay, keys: Keys, family: Family, number: int) -> None:
        self.replay = replay
        self.keys = keys
        self.family = family
        self.number = number
        self.schemas = table_schemas(replay.shape)
        self._state_s = 0.0

    def run(self, received: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range, marked with what they are. What is too much for one task
        is merged in parts.
        """
        packed: dict[str, list[pa.Table]] = {}
        passing_rows = PassingRows(self.replay, self.number)
        for table in received:
            if passing_rows.takes(table):
                yield from passing_rows.take(table)
            else:
                packed.setdefault(name_of(table), []).append(table)
        yield from passing_rows.hand_over_the_rest()
        yield from packed.pop("counts", [])
        replay, owned = self.replay, self.keys.range(self.number, self.replay.ranges)
        rows_sent = sum(table.num_rows for tables in packed.values() for table in tables)
        rows = rows_merged(replay.pipeline, rows_sent) + replay.parked // replay.ranges
        parts = parts_of(owned, rows, replay.state_memory_mb)
        # What makes files as a whole makes files in parts: the driver's memory holds only what is small.
        self.replay = dataclasses.replace(replay, file_rows=max(1, replay.file_rows // len(parts)))
        for number, key_groups in enumerate(parts):
            yield from self._merge(
                number, key_groups, {name: _unpacked(tables, key_groups) for name, tables in packed.items()}
            )

    def _merge(
        self, part: int, key_groups: KeyGroupRange, parts: dict[str, list[pa.Table]]
    ) -> Iterator[pa.Table]:
        numbers, by_name, parked = self._number(key_groups, parts)
        range_input, initial_state = self.family.receive(by_name), restored_windows(parked, self.family)
        slice_result = self.family.replay(range_input.slice_input, initial_state)
        yield from self._hand_over(
            part,
            slice_result,
            self._late(slice_result, range_input, by_name, numbers.distinct),
            numbers.distinct,
        )
        yield counts_table(_counts(slice_result, initial_state, by_name), self._state_s)
        self._state_s = 0.0

    def _number(
        self, key_groups: KeyGroupRange, parts: dict[str, list[pa.Table]]
    ) -> tuple[KeyNumbers, dict[str, Part], Part]:
        """The keys of all parts and parked windows, numbered together."""
        tables = {
            name: pa.concat_tables([empty, *parts.get(name, [])])
            for name, empty in self._empty_parts().items()
        }
        split = {name: split_keys(table) for name, table in tables.items()}
        with self._on_state():
            parked = self._parked(key_groups)
        numbers = KeyNumbers.of_range(
            pa.concat_tables([*(keys for keys, _ in split.values()), keys_of(parked, self.keys)]), self.keys
        )
        ends = np.cumsum([*(rows.num_rows for _, rows in split.values()), parked.num_rows])
        pieces = np.split(numbers.numbers, ends[:-1])
        by_name = {
            name: Part(piece, rows) for (name, (_, rows)), piece in zip(split.items(), pieces, strict=False)
        }
        schema = pa.schema([field for field in self.schemas["window_state"] if field.name != "run_id"])
        distinct = numbers.distinct.select([KEY_GROUP, *self.keys.names])
        distinct = distinct.cast(pa.schema([schema.field(name) for name in distinct.column_names]))
        return KeyNumbers(numbers.numbers, distinct), by_name, Part(pieces[-1], parked)

    def _empty_parts(self) -> dict[str, pa.Table]:
        """Every part without a row: what there is to merge when nothing came."""
        schema = self.replay.scan.source.schema
        columns = [schema.field(name) for name in self.replay.scan.columns]
        rows = pa.schema([*columns, pa.field(ARRIVAL, pa.int64()), pa.field(EVENT, pa.int64())]).empty_table()
        nobody = keys_of(self.schemas["window_state"].empty_table(), self.keys)
        nobody = pa.table(
            {name: plain(column) for name, column in zip(nobody.column_names, nobody.columns, strict=True)}
        )
        split = self.family.split(BatchElements.of(rows, np.zeros(0, np.int64), self.family.setting))
        return {name: with_keys(part.rows, part.keys, nobody) for name, part in split.parts.items()}

    def _parked(self, owned: KeyGroupRange) -> pa.Table:
        """The rows of the parent's `window_state`, without what follows from others; row groups of other key
        groups are not read.
        """
        schema = pa.schema(
            [field for field in self.schemas["window_state"] if field.name not in _NOT_RESTORED]
        )
        return restored_rows(self.replay, "window_state", schema, owned)

    def _panes(self, slice_result: SliceResult[AccumulatorColumns], distinct: pa.Table) -> list[pa.Table]:
        try:
            panes = pane_tables(
                slice_result.firings, slice_result.accumulators, distinct, self.family.setting
            )
        except FailedFiring as failure:
            key = [column[failure.key].as_py() for column in distinct.select(self.keys.names).columns]
            raise failure.located(key[0] if len(key) == 1 else tuple(key)) from failure.error
        return [drop_replaced_refires(pa.concat_tables(panes), self.replay.pipeline)] if panes else []

    def _hand_over(
        self,
        part: int,
        slice_result: SliceResult[AccumulatorColumns],
        late: list[pa.Table],
        distinct: pa.Table,
    ) -> Iterator[pa.Table]:
        output, state = ContentHash(), ContentHash()
        yield from self._handed_over(part, "panes", self._panes(slice_result, distinct), output)
        yield from self._handed_over(part, "late_events", late, None)
        with self._on_state():
            windows = [window_table(slice_result, distinct, self.family)]
            timers = [timer_table(timers, distinct) for timers in slice_result.timers]
            of_snapshot = [
                *self._handed_over(part, "window_state", windows, state),
                *self._handed_over(part, "timers", timers, state),
            ]
        yield from of_snapshot
        yield hashes_table(output, state)

    def _handed_over(
        self, part: int, name: str, pieces: list[pa.Table], to: ContentHash | None
    ) -> Iterator[pa.Table]:
        """The rows of a table, added to a hash; nothing where there are none."""
        rows = pa.concat_tables(pieces) if pieces else None
        if rows is None or not rows.num_rows:
            return
        rows = conform(rows, self.schemas[name])
        if to is not None:
            to.add(name, rows, without=())
        yield hand_over(self.replay, self.number, name, rows, self.schemas[name], part)

    @contextmanager
    def _on_state(self) -> Iterator[None]:
        """Counts the CPU seconds of what reads and writes the snapshot, which is done by this thread
        alone.
        """
        began = time.thread_time()
        yield
        self._state_s += time.thread_time() - began

    def _late(
        self,
        slice_result: SliceResult[AccumulatorColumns],
        range_input: RangeInput,
        parts: dict[str, Part],
        distinct: pa.Table,
    ) -> list[pa.Table]:
        """The doubtful elements that no window took, as rows of `late_events`."""
        rows, starts, ends = slice_result.late
        if not len(rows):
            return []
        late = Late(
            positions=range_input.doubtful_places[rows],
            watermarks=range_input.slice_input.elements.watermarks[rows],
            owners=np.arange(len(rows)),
            starts=starts,
            ends=ends,
        )
        keys, whole_rows = parts[DOUBTFUL]
        positions = pa.array(late.positions)
        groups = distinct.column(KEY_GROUP).take(pa.array(keys[late.positions]))
        schema = self.schemas["late_events"]
        return [late_table(late, whole_rows.take(positions), groups, schema, self.replay.shape)]


def _counts(
    slice_result: SliceResult[AccumulatorColumns],
    initial_state: WindowState[AccumulatorColumns],
    parts: dict[str, Part],
) -> dict[str, int]:
    """What the ledger counts of a range, under its names."""
    kinds = np.concatenate([firings.kinds for firings in slice_result.firings])
    counts = slice_result.counts
    late = len(slice_result.late.positions)
    accepted = parts[DOUBTFUL].rows.num_rows - late if DOUBTFUL in parts else 0
    return {
        "rows_accepted": accepted,
        "rows_late": late,
        "assignments_made": accepted,
        "assignments_missed": counts.assignments_missed,
        "assignments_before": int(initial_state.windows.elements.sum()),
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


def _unpacked(tables: list[pa.Table], key_groups: KeyGroupRange) -> list[pa.Table]:
    """Of what was received, the rows of some key groups."""
    of_groups = (table[bounds_of_groups(unpack(table, (SENT_GROUP,)), key_groups)] for table in tables)
    return [unpack(rows).replace_schema_metadata(None) for rows in of_groups]
