"""One range of a pipeline with a function of the user's: a kernel decides its windows on lists of element
numbers, and the function is called for each firing.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.calls.element_texts import ElementColumns, ElementTexts, RowMaker
from slackwater.engine.calls.firing_tables import FiringTables
from slackwater.engine.calls.function_calls import FunctionStores, ResultRows, call_function, elements_of
from slackwater.engine.calls.garbage import objects_set_aside
from slackwater.engine.columnar.arrow_columns import times
from slackwater.engine.columnar.families import BatchElements, Family, Part, Setting
from slackwater.engine.columnar.firing import late_table
from slackwater.engine.columnar.fixed import (
    Verdict,
    fixed_windows,
    verdict_of,
    verdict_of_taken,
)
from slackwater.engine.columnar.range import counts_of_slice
from slackwater.engine.columnar.snapshot import (
    columns_of_open_windows,
    read_open_windows,
    read_trigger_texts,
    timer_table,
    trigger_texts,
)
from slackwater.engine.columnar.windows import family_of
from slackwater.engine.functions.fired_windows import (
    FiredWindows,
    calls_of,
    in_order_of_calls,
    pane_table,
    windows_of,
)
from slackwater.engine.functions.function_state import FunctionState
from slackwater.engine.functions.parked_lists import ParkedLists, park_lists
from slackwater.engine.operator.elements import element_class
from slackwater.engine.operator.emitted_rows import output_of
from slackwater.engine.operator.firing import Owners, side_tables
from slackwater.engine.replaying import spilling
from slackwater.engine.replaying.distinct_rows import parked_rows
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import conform, hand_over, hashes_table, range_counts, read_counts
from slackwater.engine.replaying.snapshot_codecs import codec_of_windows
from slackwater.engine.replaying.snapshot_rows import restored_bytes
from slackwater.engine.replaying.vectorized_calls import VectorizedCalls
from slackwater.engine.rows import columns_read
from slackwater.engine.rows.key_numbers import KEY_GROUP, KeyNumbers
from slackwater.engine.rows.keys import Keys
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.pipelines.windows import window_config
from slackwater.tables.schemas import side_table, table_schemas
from slackwater.windowing import AggregateFunction
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import SliceInput, WindowState
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    Elements,
    Firings,
    OpenWindows,
    Pieces,
    columns_of,
    concatenate,
    rows_of,
)
from slackwater.windowing.key_groups import KeyGroupIndex
from slackwater.windowing.snapshot import ContentHash
from slackwater.windowing.windows import Window

# Estimates: so many copies of the columns of its rows, and of the parked texts.
_COPIES_OF_ROWS: Final = 3
_COPIES_OF_TEXTS: Final = 8


class FunctionRange:
    """The work of range `number` on `rows`, the elements of its keys in processing order."""

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        self.replay = replay
        self.pipeline = replay.pipeline
        self.keys = keys
        self.number = number
        self.rows = rows
        self.key_range = keys.range(number, replay.ranges)
        self.schemas = table_schemas(replay.shape)
        self.setting = Setting(
            pipeline=self.pipeline,
            shape=replay.shape,
            aggregates=(),
            timeline=replay.timeline,
            source_columns=columns_read.columns_read(self.pipeline, replay.schema.names),
        )
        self.windows = fixed_windows(self.setting)
        self.config = window_config(self.pipeline, keys.type, AggregateFunction())
        self.family: Family = family_of(self.setting)
        record: Any = element_class(self.pipeline, replay.schema)
        assert record is not None, "the planner gave it to the operator engine"
        self.record = record
        names = [name for name in record._fields if name in replay.schema.names]
        self.element_columns = names
        schema = pa.schema([replay.schema.field(name) for name in names])
        self.texts = ElementTexts(record, schema)
        codec = codec_of_windows(self.pipeline, keys, None, config=self.config, element_class=record)
        key_groups = KeyGroupIndex(keys.type, self.key_range.key_groups, keys.max_parallelism)
        self.function_state = FunctionState(codec, key_groups, replay.order_mode)

    def fits_memory(self) -> bool:
        """Whether the range's rows and what its parent has parked fit the memory of a task."""
        tables = ("window_state", "keyed_state")
        parked_bytes = sum(restored_bytes(self.replay, name, self.key_range) for name in tables)
        needed_bytes = _COPIES_OF_ROWS * self.rows.nbytes + _COPIES_OF_TEXTS * parked_bytes
        return needed_bytes <= self.replay.state_memory_mb * spilling.BYTES_PER_MB

    def run(self) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range."""
        began = time.thread_time()
        parked_rows, parked_lists = self._read_parked_lists()
        state_s = time.thread_time() - began
        numbers, distinct = self._number_keys(parked_rows)
        row_keys, parked_keys = np.split(numbers, [self.rows.num_rows])
        fired_windows = self._replay_slice(row_keys, Part(parked_keys, parked_rows), parked_lists)
        output = {
            **self._fire(fired_windows, distinct),
            "late_events": self._late_table(fired_windows.verdict, row_keys, distinct),
        }
        began = time.thread_time()
        state = self._state_tables(fired_windows, distinct)
        state_s += time.thread_time() - began
        counts = {
            **fired_windows.verdict.counts,
            **read_counts(self.rows, self.replay.scan.from_ms),
            "side_rows": sum(output[side_table(tag)].num_rows for tag in self.pipeline.side_columns),
        }
        slice_counts = counts_of_slice(fired_windows.slice_result, fired_windows.windows_at_start, 0)
        return self._hand_over(output, state, [range_counts(slice_counts, state_s), range_counts(counts)])

    def _read_parked_lists(self) -> tuple[pa.Table, ParkedLists]:
        window_rows, keyed_rows = map(self._parked_rows, ("window_state", "keyed_state"))
        self.function_state.restore(window_rows, keyed_rows)
        return window_rows, ParkedLists.read(window_rows, keyed_rows, self.keys.names, self.texts)

    def _parked_rows(self, table: str) -> pa.Table:
        return parked_rows(self.replay, self.schemas, table, self.keys, self.key_range)

    def _number_keys(self, parked_rows: pa.Table) -> tuple[Longs, pa.Table]:
        """(key numbers of the elements and then of the parked windows; key group and key of each number)."""
        schema = pa.schema(
            [self.schemas["window_state"].field(name) for name in (KEY_GROUP, *self.keys.names)]
        )
        row_keys = self.rows.select([columns_read.KEY_GROUP, *self.keys.names]).rename_columns(schema.names)
        numbers = KeyNumbers.from_range(
            pa.concat_tables([row_keys.cast(schema), parked_rows.select(schema.names)]), self.keys
        )
        return numbers.numbers, numbers.distinct.select(schema.names).cast(schema)

    def _replay_slice(self, keys: Longs, parked_part: Part, parked_lists: ParkedLists) -> FiredWindows:
        """Decide which windows fire, with which elements, and what stays; `keys` are key numbers."""
        windows_at_start = read_open_windows(parked_part, parked_lists.lengths > 0)
        elements, verdict = self._judge(keys)
        columns = ElementColumns(self.texts, parked_lists.texts, self._accepted_rows(verdict))
        initial_state = self._state_at_start(windows_at_start, parked_part.rows, parked_lists.lengths)
        parked_count = len(initial_state.accumulators.numbers)
        lists = ElementLists.from_lengths(np.ones(len(elements.keys), np.int64), first=parked_count)
        slice_input = SliceInput(columns_of(Pieces, []), lists.take(slice(0, 0)), elements, lists)
        slice_result = self.family.replay(slice_input, initial_state)
        firings, lists = in_order_of_calls(concatenate(slice_result.firings), slice_result.accumulators)
        columns.decode(lists.distinct_numbers())
        return FiredWindows(
            slice_result=slice_result._replace(firings=[firings]),
            firings=firings,
            lists=lists,
            columns=columns,
            verdict=verdict,
            windows_at_start=windows_at_start,
        )

    def _judge(self, keys: Longs) -> tuple[Elements, Verdict]:
        batch = BatchElements.of(self.rows, keys, self.setting)
        if self.windows is None:
            verdict = verdict_of_taken(len(keys))
            return Elements(batch.keys, batch.times, batch.clocks, batch.watermarks), verdict
        slices = self.windows.slices(batch.times)
        verdict = verdict_of(self.windows, batch, slices, np.arange(len(slices)))
        elements = Elements(batch.keys, batch.times, batch.clocks, batch.watermarks)
        if len(verdict.accepted_rows) < len(slices):
            elements = rows_of(elements, verdict.accepted_rows)
        return elements, verdict

    def _accepted_rows(self, verdict: Verdict) -> pa.Table:
        rows = self.rows.select(self.element_columns)
        if len(verdict.accepted_rows) < rows.num_rows:
            rows = rows.take(pa.array(verdict.accepted_rows))
        return rows.combine_chunks()

    def _state_at_start(
        self, windows: OpenWindows, parked_rows: pa.Table, lengths: Longs
    ) -> WindowState[ElementLists]:
        triggers = None
        if self.family.trigger_state is not None:
            texts = parked_rows.column("trigger_state")
            triggers = read_trigger_texts(self.family.trigger_state, texts, windows)
        return WindowState(windows, triggers, ElementLists.from_lengths(lengths))

    def _fire(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        """Call the function for all firings: rows of `panes` and of side outputs, by table."""
        firings, lists, columns = fired_windows.firings, fired_windows.lists, fired_windows.columns
        if isinstance(self.pipeline.process, VectorizedFunction):
            calls = VectorizedCalls.of(self.pipeline, self.replay.schema, self.record._fields)
            keys = {name: distinct.column(name).take(pa.array(firings.keys)) for name, _ in calls.keys}
            bounds = {"window_start": times(firings.starts), "window_end": times(firings.ends)}
            results = FiringTables(calls, columns.column).results(
                pa.table({**keys, **bounds}), lists, lambda place: self._owner(firings, place, distinct)
            )
            return {
                "panes": self._panes(firings, ResultRows.one_for_each(len(lists.starts)), results, distinct)
            }
        with objects_set_aside():
            result_rows = call_function(
                # Operators of one process must not share what a function keeps in `self`.
                copy.deepcopy(self.config.function),
                calls_of(firings, self.keys.values(distinct)),
                elements_of(lists, RowMaker(self.record, columns.column), self.replay.state_memory_mb),
                FunctionStores(self.function_state.backend, self.config),
            )
        results = output_of(self.pipeline).arrays(result_rows.results, result_rows.owners)
        return {
            "panes": self._panes(firings, result_rows, results, distinct),
            **side_tables(self.pipeline, Owners.of(self.pipeline, self.keys), result_rows.side_rows),
        }

    def _owner(self, firings: Firings, place: int, distinct: pa.Table) -> tuple[Any, Window]:
        """The key and the window of one firing."""
        firing = rows_of(firings, slice(place, place + 1))
        [key] = self.keys.values(distinct.slice(int(firing.keys[0]), 1))
        [window] = windows_of(firing)
        return key, window

    def _panes(
        self, firings: Firings, result_rows: ResultRows, results: Sequence[pa.Array], distinct: pa.Table
    ) -> pa.Table:
        return pane_table(firings, result_rows, results, distinct=distinct, setting=self.setting)

    def _late_table(self, verdict: Verdict, numbers: Longs, distinct: pa.Table) -> pa.Table:
        positions = verdict.late.positions
        groups = distinct.column(KEY_GROUP).take(pa.array(numbers[positions]))
        rows = self.rows.take(pa.array(positions))
        return late_table(verdict.late, rows, groups, self.schemas["late_events"], self.replay.shape)

    def _state_tables(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        slice_result = fired_windows.slice_result
        windows = slice_result.windows
        lists = _lists_of_windows(windows, slice_result.accumulators)
        texts = fired_windows.columns.texts(lists.explode())
        contents, pieces = park_lists(windows, lists.lengths, texts, distinct)
        user_state, keyed_tables = self._parked_state(windows, distinct)
        columns = columns_of_open_windows(slice_result, distinct, self.setting)
        columns |= {"contents": contents, "user_state": user_state}
        if self.family.trigger_state and slice_result.triggers is not None:
            columns["trigger_state"] = trigger_texts(
                self.family.trigger_state, slice_result.triggers, windows
            )
        timers = pa.concat_tables(
            [timer_table(timers, distinct, self.setting) for timers in slice_result.timers]
        )
        keyed_schema = self.schemas["keyed_state"]
        keyed_rows = [conform(rows, keyed_schema) for rows in (*pieces, *keyed_tables)]
        state = {"window_state": pa.table(columns), "timers": timers}
        return {**state, "keyed_state": pa.concat_tables(keyed_rows)} if keyed_rows else state

    def _parked_state(self, windows: OpenWindows, distinct: pa.Table) -> tuple[pa.Array, list[pa.Table]]:
        """(`user_state` of each window, tables of `keyed_state`); most functions keep no state."""
        if self.function_state.is_empty:
            return pa.nulls(len(windows.keys), pa.string()), []
        owners = distinct.take(pa.array(windows.keys))
        groups = owners.column(KEY_GROUP).to_pylist()
        return self.function_state.park(groups, self.keys.values(owners), list(windows_of(windows)))

    def _hand_over(
        self, output: dict[str, pa.Table], state: dict[str, pa.Table], counts: list[pa.Table]
    ) -> Iterator[pa.Table]:
        output_hash, state_hash = ContentHash(), ContentHash()
        for tables, content_hash in ((output, output_hash), (state, state_hash)):
            for name, table in tables.items():
                if not table.num_rows:
                    continue
                rows = conform(table, self.schemas[name])
                if name != "late_events":
                    content_hash.add(name, rows, without=())
                part = f"0{self.key_range.label}"
                yield from hand_over(self.replay, self.number, name, rows, self.schemas[name], part=part)
        yield hashes_table(output_hash, state_hash)
        yield from counts


def _lists_of_windows(windows: OpenWindows, accumulators: ElementLists) -> ElementLists:
    """The elements of each window; none of a window without contents."""
    has_contents = windows.contents != NO_CONTENTS
    bounds = np.zeros((2, len(windows.keys)), np.int64)
    lists_of_windows = accumulators.take(windows.contents[has_contents])
    bounds[:, has_contents] = lists_of_windows.starts, lists_of_windows.ends
    return ElementLists(accumulators.numbers, *bounds)
