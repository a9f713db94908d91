"""One range of a pipeline with a function of the user's: a kernel decides its windows on lists of element
numbers, and the function is called for each firing. Nothing is handed over before all is behind that may
leave the range to the operator engine.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

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
from slackwater.engine.functions.calls import (
    ResultRows,
    call_function,
    elements_of,
    in_order_of_calls,
)
from slackwater.engine.functions.element_texts import ElementColumns, ElementTexts, RowMaker
from slackwater.engine.functions.fired_windows import FiredWindows, FiringTables, pane_table
from slackwater.engine.functions.folds import Folding, Increments, contents_of, fold_of
from slackwater.engine.functions.left_over import (
    AsksForState,
    LeftToOperator,
    require_room_for_elements,
    require_room_for_range,
)
from slackwater.engine.functions.parked_lists import ParkedLists, park_lists, state_windows_in
from slackwater.engine.functions.sessions import ClockSessions, StateWindows, is_clock_session
from slackwater.engine.operator.elements import element_class
from slackwater.engine.operator.emitted_rows import EmittedRowError, output_of
from slackwater.engine.operator.firing import Owners, side_tables
from slackwater.engine.operator.garbage import objects_set_aside
from slackwater.engine.replaying.distinct_rows import parked_rows
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import conform, hand_over, hashes_table, range_counts, read_counts
from slackwater.engine.replaying.snapshot_codecs import json_of
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
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.window_columns import (
    Elements,
    OpenWindows,
    Pieces,
    columns_of,
    concatenate,
    rows_of,
)
from slackwater.windowing.snapshot import ContentHash
from slackwater.windowing.snapshot.columns import STATE_WINDOW


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
        self.fold = fold_of(self.config.contents)
        record: Any = element_class(self.pipeline, replay.schema)
        assert record is not None or self.pipeline.select, "the planner gave it to the operator engine"
        self.record = record
        fields = getattr(record, "_fields", ())
        self.element_columns = [name for name in fields if name in replay.schema.names]

    @cached_property
    def texts(self) -> ElementTexts:
        """The texts of elements in the snapshot."""
        schema = pa.schema([self.replay.schema.field(name) for name in self.element_columns])
        return ElementTexts(self.record, schema)

    @cached_property
    def family(self) -> Family:
        """The family of the windows, which a range that walks its windows does not have."""
        return family_of(self.setting)

    def run(self) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range. Raises LeftToOperator: the operator engine replays it."""
        require_room_for_range(self.replay, self.key_range, self.rows)
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
        slice_counts = counts_of_slice(
            fired_windows.slice_result, fired_windows.windows_at_start, fired_windows.unjudged_count
        )
        return self._hand_over(output, state, [range_counts(slice_counts, state_s), range_counts(counts)])

    def _read_parked_lists(self) -> tuple[pa.Table, ParkedLists]:
        window_rows, keyed_rows = map(self._parked_rows, ("window_state", "keyed_state"))
        for name in ("user_state",) if self.family.trigger_state else ("user_state", "trigger_state"):
            if window_rows.column(name).null_count < window_rows.num_rows:
                raise AsksForState(f"{name} of parked windows")
        if self.fold is not None:
            return window_rows, ParkedLists.from_values(window_rows, keyed_rows)
        prefix = STATE_WINDOW if is_clock_session(self.pipeline) else "window"
        return window_rows, ParkedLists.read(
            window_rows, keyed_rows, self.keys.names, self.texts, owner=prefix
        )

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
        rows = RowMaker(self.record, columns.slice_elements().column)
        clock_sessions = None
        if is_clock_session(self.pipeline):
            clock_sessions = ClockSessions(self.pipeline, elements, rows)
        slice_result = self._replay(elements, initial_state, clock_sessions)
        fired_windows = self._let_fire(slice_result, windows_at_start, columns, verdict, parked_lists.texts)
        if clock_sessions is not None:
            fired_windows.state_windows = clock_sessions.state_windows(
                slice_result.windows, windows_at_start, state_windows_in(parked_part.rows)
            )
        return fired_windows

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

    def _replay(
        self,
        elements: Elements,
        initial_state: WindowState[ElementLists],
        clock_sessions: ClockSessions | None,
    ) -> SliceResult[ElementLists]:
        parked_count = len(initial_state.accumulators.numbers)
        lists = ElementLists.from_lengths(np.ones(len(elements.keys), np.int64), first=parked_count)
        if clock_sessions is not None:
            return self.family.replay(clock_sessions.slice_input(lists), initial_state)
        pieces = columns_of(Pieces, [])
        slice_input = SliceInput(pieces, lists.take(slice(0, 0)), elements, lists)
        return self.family.replay(slice_input, initial_state)

    def _let_fire(
        self,
        slice_result: SliceResult[ElementLists],
        windows_at_start: OpenWindows,
        columns: ElementColumns,
        verdict: Verdict,
        parked_texts: pa.Array,
    ) -> FiredWindows:
        """Decide what each firing shows, and what its window keeps."""
        firings, lists = in_order_of_calls(concatenate(slice_result.firings), slice_result.accumulators)
        require_room_for_elements(self.replay, int(lists.lengths.max(initial=0)))
        slice_result = slice_result._replace(firings=[firings])
        fired_windows = FiredWindows(
            slice_result=slice_result,
            firings=firings,
            lists=lists,
            columns=columns,
            verdict=verdict,
            windows_at_start=windows_at_start,
        )
        if self.fold is None:
            columns.decode(lists.distinct_numbers())
            return fired_windows
        increments = Increments.of(
            firings,
            lists,
            slice_result.windows,
            slice_result.accumulators,
            accumulates=not self.setting.purges,
        )
        rows = RowMaker(self.record, columns.column)
        fired_windows.folding = Folding(
            self.fold,
            increments,
            parked_texts,
            json_of(self.pipeline, self.record),
            elements_of=lambda lists: elements_of(lists, rows),
            accumulates=not self.setting.purges,
        )
        return fired_windows

    def _fire(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        """Call the function for all firings: rows of `panes` and of side outputs, by table."""
        firings, lists, columns = fired_windows.firings, fired_windows.lists, fired_windows.columns
        if isinstance(self.pipeline.process, VectorizedFunction):
            calls = VectorizedCalls.of(self.pipeline, self.replay.schema, self.record._fields)
            results = FiringTables(calls, columns.column, distinct).results(firings, lists)
            result_rows = ResultRows.one_for_each(firings)
            return {"panes": self._panes(fired_windows, result_rows, results, distinct)}
        result_rows = self._call(fired_windows, distinct)
        try:
            results = output_of(self.pipeline).arrays(result_rows.results, result_rows.owners)
            return {
                "panes": self._panes(fired_windows, result_rows, results, distinct),
                **side_tables(self.pipeline, Owners.of(self.pipeline, self.keys), result_rows.side_rows),
            }
        except EmittedRowError as error:
            raise LeftToOperator(str(error)) from error

    def _call(self, fired_windows: FiredWindows, distinct: pa.Table) -> ResultRows:
        if fired_windows.folding is not None:
            contents = fired_windows.folding.results()
        else:
            contents = elements_of(fired_windows.lists, RowMaker(self.record, fired_windows.columns.column))
        with objects_set_aside():
            return call_function(
                # Operators of one process must not share what a function keeps in `self`.
                copy.deepcopy(self.config.function),
                fired_windows.firings,
                contents,
                keys=self.keys.values(distinct),
                clocks=fired_windows.clocks,
            )

    def _panes(
        self,
        fired_windows: FiredWindows,
        result_rows: ResultRows,
        results: Sequence[pa.Array],
        distinct: pa.Table,
    ) -> pa.Table:
        firings, withdrawals = fired_windows.firings, fired_windows.withdrawals
        return pane_table(firings, result_rows, results, withdrawals, distinct=distinct, setting=self.setting)

    def _late_table(self, verdict: Verdict, numbers: Longs, distinct: pa.Table) -> pa.Table:
        positions = verdict.late.positions
        groups = distinct.column(KEY_GROUP).take(pa.array(numbers[positions]))
        rows = self.rows.take(pa.array(positions))
        return late_table(verdict.late, rows, groups, self.schemas["late_events"], self.replay.shape)

    def parked_contents(
        self, fired_windows: FiredWindows, namespaces: StateWindows, distinct: pa.Table
    ) -> tuple[pa.Array, pa.Table | None]:
        """(the text in each window's row; rows for long lists, None where windows hold folded values)."""
        if fired_windows.folding is not None:
            return pa.array(fired_windows.folding.texts(), pa.string()), None
        windows = fired_windows.slice_result.windows
        lists = contents_of(windows, fired_windows.slice_result.accumulators)
        return park_lists(
            windows,
            lists.lengths,
            fired_windows.columns.texts(lists.explode()),
            distinct,
            namespaces=namespaces,
        )

    def _state_tables(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        slice_result, state_windows = fired_windows.slice_result, fired_windows.state_windows
        windows = slice_result.windows
        namespaces = state_windows or StateWindows(windows.starts, windows.ends)
        contents, pieces = self.parked_contents(fired_windows, namespaces, distinct)
        window_columns = {
            **columns_of_open_windows(slice_result, distinct, self.setting),
            "contents": contents,
        }
        if state_windows is not None:
            window_columns[f"{STATE_WINDOW}_start"] = times(state_windows.starts)
            window_columns[f"{STATE_WINDOW}_end"] = times(state_windows.ends)
        if self.family.trigger_state and slice_result.triggers is not None:
            window_columns["trigger_state"] = trigger_texts(
                self.family.trigger_state, slice_result.triggers, windows
            )
        timers = pa.concat_tables(
            [timer_table(timers, distinct, self.setting) for timers in slice_result.timers]
        )
        state = {"window_state": pa.table(window_columns), "timers": timers}
        return state if pieces is None else {**state, "keyed_state": pieces}

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
