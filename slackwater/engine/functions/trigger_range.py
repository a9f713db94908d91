"""A range whose windows are walked: sessions, triggers without a kernel, and functions that keep state."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.columnar.arrow_columns import times
from slackwater.engine.columnar.families import Part
from slackwater.engine.columnar.snapshot import columns_of_open_windows, read_open_windows
from slackwater.engine.columnar.windows import GRID_ASSIGNERS, why_not, why_not_at_any_trigger
from slackwater.engine.functions.calls import (
    BackendStores,
    FunctionCalls,
    ResultRows,
    rows_one_by_one,
)
from slackwater.engine.functions.element_texts import ElementColumns, RowMaker
from slackwater.engine.functions.fired_windows import FiredWindows
from slackwater.engine.functions.left_over import leaving_errors, require_room_for_elements
from slackwater.engine.functions.parked_lists import ParkedLists
from slackwater.engine.functions.range import FunctionRange
from slackwater.engine.functions.sessions import (
    StateWindows,
    gaps_of,
    is_session,
    verdict_of_sessions,
)
from slackwater.engine.functions.trigger_walk import (
    KeyState,
    KeyWalk,
    WalkOutput,
    WalkRules,
)
from slackwater.engine.functions.walk_context import looks_at_elements
from slackwater.engine.functions.walk_state import WalkState
from slackwater.engine.functions.window_contents import (
    FoldContents,
    ListContents,
    WalkedFolds,
    WindowContents,
)
from slackwater.engine.operator.garbage import (
    collector_resting,
    collector_waiting,
    objects_set_aside,
)
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import conform
from slackwater.engine.replaying.snapshot_codecs import codec_of_windows, json_of
from slackwater.engine.rows.keys import Keys
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    GlobalWindows,
    MergingWindowAssigner,
    WindowAssigner,
)
from slackwater.windowing.assigners.assigner import Grid
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.orders import stable_order
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.kernels import Counts, SliceResult
from slackwater.windowing.columnar.window_columns import (
    NO_TIME,
    Elements,
    Firings,
    LateElements,
    OpenWindows,
    Timers,
    columns_of,
)
from slackwater.windowing.key_groups import KeyGroupIndex
from slackwater.windowing.runtime.operator_storage import IN_MEMORY
from slackwater.windowing.runtime.window_operator_builder import CONTENTS
from slackwater.windowing.snapshot import SnapshotTables
from slackwater.windowing.snapshot.columns import STATE_WINDOW
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window


def why_not_walked(pipeline: Pipeline, keeps_state: bool) -> str | None:
    """Why windows can't be walked with their trigger, in one line; None: they can. A function that keeps
    state shows the order of timers of one time.
    """
    if not is_session(pipeline) and type(pipeline.window) not in (*GRID_ASSIGNERS, GlobalWindows):
        return why_not(pipeline) or f"a function keeps state on {type(pipeline.window).__name__}"
    if pipeline.watermarks.kind == "punctuated":
        return "windows are walked from tick to tick, and punctuated watermarks rise inside one"
    return why_not_at_any_trigger(pipeline)


class TriggerRange(FunctionRange):
    """The work of range `number`; `keeps_state`: the function has state, and is called during the walk."""

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table, keeps_state: bool) -> None:
        super().__init__(replay, keys, number, rows)
        self._keeps_state = keeps_state
        self._merges = isinstance(self.config.assigner, MergingWindowAssigner)
        self._backend = IN_MEMORY.make_backend(
            KeyGroupIndex(keys.type, self.key_range.key_groups, keys.max_parallelism),
            self.replay.order_mode,
            None,
        )
        self._result_rows: ResultRows | None = None

    def _read_parked_lists(self) -> tuple[pa.Table, ParkedLists]:
        tables = SnapshotTables(*map(self._parked_rows, SnapshotTables._fields))
        codec = codec_of_windows(
            self.pipeline,
            self.keys,
            None,  # contents are read and written as columns
            config=self.config,
            element_class=self.record,
        )
        self._parked_tables = tables
        with collector_resting():
            self._state = WalkState(codec, tables, self._backend)
        is_contents = pc.equal(tables.keyed_state.column("state_name"), CONTENTS)
        window_rows, keyed_rows = tables.window_state, tables.keyed_state.filter(is_contents)
        return window_rows, self._lists_in(window_rows, keyed_rows)

    def _lists_in(self, window_rows: pa.Table, keyed_rows: pa.Table) -> ParkedLists:
        if self.fold is not None:
            return ParkedLists.from_values(window_rows, keyed_rows)
        owner = STATE_WINDOW if self._merges else "window"
        return ParkedLists.read(window_rows, keyed_rows, self.keys.names, self.texts, owner=owner)

    def _number_keys(self, parked_rows: pa.Table) -> tuple[Longs, pa.Table]:
        """As of FunctionRange; keys with nothing but timers or state have a number, too."""
        names = ["key_group", *self.keys.names]
        parked_tables = [parked_rows, self._parked_tables.timers, self._parked_tables.keyed_state]
        numbers, distinct = super()._number_keys(
            pa.concat_tables([rows.select(names) for rows in parked_tables])
        )
        self._key_values = self.keys.values(distinct)
        self._groups: list[int] = distinct.column("key_group").to_pylist()
        return numbers[: self.rows.num_rows + parked_rows.num_rows], distinct

    def _replay_slice(self, keys: Longs, parked_part: Part, parked_lists: ParkedLists) -> FiredWindows:
        windows_at_start = read_open_windows(parked_part, parked_lists.lengths > 0)
        elements, verdict = self._judge(keys)
        rows = self._accepted_rows(verdict)
        texts = None if self.pipeline.select else self.texts
        columns = ElementColumns(texts, parked_lists.texts, rows)
        parked_count = int(parked_lists.lengths.sum())
        self._new_columns = columns.slice_elements()
        contents, folds = self._contents(columns, parked_count, len(elements.keys))
        leaving = leaving_errors("a trigger, a fold or the function")
        with objects_set_aside(), collector_waiting(), leaving:
            self._output = output = self._walk(elements, columns, contents, parked_lists)
        with collector_resting():
            slice_result = _slice_result(output, contents.lists())
        [firings, withdrawals], lists = slice_result.firings, slice_result.accumulators
        if self._merges:
            verdict = verdict_of_sessions(slice_result.late, elements)
        lists_of_firings = lists.take(firings.contents)
        if not self.pipeline.select:
            require_room_for_elements(self.replay, int(lists_of_firings.lengths.max(initial=0)))
            if folds is None and not self._keeps_state:
                columns.decode(lists_of_firings.distinct_numbers())
        return FiredWindows(
            slice_result=slice_result,
            firings=firings,
            lists=lists_of_firings,
            columns=columns,
            verdict=verdict,
            windows_at_start=windows_at_start,
            folding=None if folds is None else WalkedFolds(folds, firings, slice_result.windows),
            withdrawals=withdrawals if self._merges else None,
            unjudged_count=len(elements.keys) if self._merges else 0,
            firing_clocks=np.array(output.clocks, np.int64),
        )

    def _contents(
        self, columns: ElementColumns, parked_count: int, count: int
    ) -> tuple[WindowContents, FoldContents | None]:
        if self.fold is None:
            return ListContents(), None
        elements = dict(enumerate(self._objects(self._new_columns, count), start=parked_count))
        json = json_of(self.pipeline, self.record)
        folds = FoldContents(
            self.fold,
            columns.parked_texts,
            json,
            elements,
            merges_target_first=self.replay.order_mode.merges_target_first,
        )
        return folds, folds

    def _objects(self, columns: ElementColumns, count: int) -> list[Any]:
        require_room_for_elements(self.replay, count)
        return RowMaker(self.record, columns.column).rows(np.arange(count))

    def _walk(
        self,
        elements: Elements,
        columns: ElementColumns,
        contents: WindowContents,
        parked_lists: ParkedLists,
    ) -> WalkOutput:
        """Walk all keys, those without elements first."""
        parked_count, count = int(parked_lists.lengths.sum()), len(elements.keys)
        calls = None
        function = copy.deepcopy(self.config.function)
        with closing(function) if self._keeps_state else nullcontext():
            if self._keeps_state:
                calls = FunctionCalls(
                    function,
                    BackendStores(self._backend, self._merges),
                    self._key_values,
                    self._contents_maker(columns, parked_count + count),
                )
            rules = WalkRules(
                self.config,
                self.replay.timeline,
                contents=contents,
                backend=self._backend,
                calls=calls,
                first_number=parked_count,
            )
            with collector_resting():
                states = self._state.restore(contents, parked_lists)
            to_ms = self.replay.scan.to_ms
            keys = zip(self._key_values, self._elements_of_keys(elements, parked_count), strict=True)
            for number, (key, elements_of_key) in enumerate(keys):
                KeyWalk(rules, number, key, states.get(key) or KeyState()).run(elements_of_key, to_ms)
        if calls is not None:
            self._result_rows = calls.result_rows
        return rules.output

    def _contents_maker(self, columns: ElementColumns, count: int) -> Callable[[Any], Any]:
        if self.fold is not None:
            return _itself
        columns.decode(np.arange(len(columns.parked_texts)))
        objects = self._objects(columns, count)
        return lambda numbers: [objects[number] for number in numbers]

    def _elements_of_keys(self, elements: Elements, first_number: int) -> Iterator[Iterable[tuple[Any, ...]]]:
        """The elements of each key in order of arrival (see `KeyWalk.run`); take them before the next key."""
        order = stable_order(elements.keys, len(self._key_values))
        times, clocks = elements.times[order], elements.clocks[order]
        timeline = self.replay.timeline
        rises = np.searchsorted(timeline.tick_ends, clocks, side="right")
        watermarks = np.append(np.int64(timeline.initial), timeline.watermarks)[rises]
        values: Iterator[Any] = repeat(None)
        if looks_at_elements(self.config.trigger):
            values = rows_one_by_one(RowMaker(self.record, self._new_columns.column), order)
        columns = (order + first_number, times, clocks, watermarks)
        windows = self._windows_of(elements, order)
        rows = chain.from_iterable(
            # It ends with the numbers, before it takes windows or a value for which there are none.
            zip(*numbers, windows, values, strict=False)
            for numbers in _some_at_a_time(*columns)
        )
        counts = np.bincount(elements.keys, minlength=len(self._key_values)).tolist()
        return (islice(rows, count) for count in counts)

    def _windows_of(self, elements: Elements, order: Longs) -> Iterator[Sequence[Window]]:
        times = elements.times[order]
        if self._merges:
            rows = RowMaker(self.record, self._new_columns.column)
            gaps = gaps_of(self.pipeline, elements, rows)[order]
            bounds = zip(_one_by_one(times), _one_by_one(gaps), strict=True)
            return ((TimeWindow(time, time + gap),) for time, gap in bounds)
        grid = self.pipeline.windows.grid
        if isinstance(grid, Grid) and not grid.size_ms % grid.slide_ms:
            starts = times - (times - grid.offset_ms) % grid.slide_ms
            return map(_WindowsByStart(self.config.assigner).__getitem__, _one_by_one(starts))
        assign = self.config.assigner.bind(None)  # type: ignore[arg-type]  # it asks for no clock
        return map(assign, repeat(None), _one_by_one(times))

    def _call(self, fired_windows: FiredWindows, distinct: pa.Table) -> ResultRows:
        return self._result_rows or super()._call(fired_windows, distinct)

    def _state_tables(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        with collector_resting():
            parked_state = self._state.park(self._output, self._key_values, self._groups)
        moments = [NO_TIME if moment is None else moment for moment in parked_state.next_firings]
        slice_result = fired_windows.slice_result._replace(next_firings=np.array(moments, np.int64))
        windows, keyed_rows = self._window_rows(replace(fired_windows, slice_result=slice_result), distinct)
        for name, column in parked_state.columns.items():
            windows = windows.append_column(name, column)
        keyed_rows.append(parked_state.keyed_rows)
        schema = self.schemas["keyed_state"]
        return {
            "window_state": windows,
            "timers": parked_state.timers,
            "keyed_state": pa.concat_tables([conform(rows, schema) for rows in keyed_rows]),
        }

    def _window_rows(
        self, fired_windows: FiredWindows, distinct: pa.Table
    ) -> tuple[pa.Table, list[pa.Table]]:
        """(rows of `window_state` but for the state of triggers and functions, rows of `keyed_state`)."""
        bounds = [
            (NO_TIME, NO_TIME) if window is GLOBAL_WINDOW else (window.start, window.end)
            for window in self._output.state_windows
        ]
        state_windows = StateWindows(*np.array(bounds, np.int64).reshape(-1, 2).T)
        contents, pieces = self.parked_contents(fired_windows, state_windows, distinct)
        columns = columns_of_open_windows(fired_windows.slice_result, distinct, self.setting)
        columns["contents"] = contents
        if self._merges:
            columns[f"{STATE_WINDOW}_start"] = times(state_windows.starts)
            columns[f"{STATE_WINDOW}_end"] = times(state_windows.ends)
        return pa.table(columns), [] if pieces is None else [pieces]


def _one_by_one(column: Longs) -> Iterator[int]:
    return chain.from_iterable(numbers for [numbers] in _some_at_a_time(column))


def _some_at_a_time(*columns: Longs) -> Iterator[list[list[int]]]:
    """The numbers of columns of one length as Python's, some of each column at a time."""
    for first in range(0, len(columns[0]), _NUMBERS_AT_ONCE):
        yield [column[first : first + _NUMBERS_AT_ONCE].tolist() for column in columns]


_KEPT_STARTS: Final = 4096
_NUMBERS_AT_ONCE: Final = 1 << 14


class _WindowsByStart(dict[int, Sequence[Window]]):
    """Newest start → the windows of elements that have it, of a grid where it decides them."""

    def __init__(self, assigner: WindowAssigner) -> None:
        super().__init__()
        self._assign = assigner.bind(None)  # type: ignore[arg-type]  # it asks for no clock

    def __missing__(self, start: int) -> Sequence[Window]:
        if len(self) >= _KEPT_STARTS:
            self.clear()
        windows = self[start] = self._assign(None, start)
        return windows


def _slice_result(output: WalkOutput, lists: ElementLists) -> SliceResult[ElementLists]:
    """What a walk leaves, as kernels return it: the second block of firings withdraws rows."""
    windows = columns_of(OpenWindows, output.windows)
    return SliceResult(
        firings=[columns_of(Firings, output.firings), columns_of(Firings, output.withdrawals)],
        windows=windows,
        triggers=None,
        next_firings=np.full(len(windows.keys), NO_TIME),
        timers=[_counted_timers(output)],
        accumulators=lists,
        late=LateElements(*np.array(sorted(output.late), np.int64).reshape(-1, 3).T),
        counts=Counts(
            windows_opened=output.windows_opened,
            windows_cleaned=output.windows_cleaned,
            windows_merged=output.windows_merged,
            assignments_missed=output.assignments_missed,
            elements_cleaned=output.elements_cleaned,
            elements_never_fired=output.elements_never_fired,
        ),
    )


def _counted_timers(output: WalkOutput) -> Timers:
    """As many timers as are pending, for the count of them."""
    count = sum(
        len(list(timers)) for timers_of_key in output.timers.values() for timers in timers_of_key.values()
    )
    nothing = np.zeros(count, np.int64)
    return Timers("trigger", nothing, nothing, nothing, nothing)


def _itself(result: Any) -> Any:
    return result
