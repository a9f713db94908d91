"""One key-group range whose windows are walked with their trigger: sessions that fire before their end,
triggers without a kernel, and functions that keep state.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.columnar.arrow_columns import times
from slackwater.jobs.engines.columnar.families import Part
from slackwater.jobs.engines.columnar.snapshot import columns_of_open_windows, read_open_windows
from slackwater.jobs.engines.columnar.windows import GRID_ASSIGNERS, why_not, why_not_at_any_trigger
from slackwater.jobs.engines.functions.calls import ResultRows
from slackwater.jobs.engines.functions.element_columns import ElementColumns
from slackwater.jobs.engines.functions.eviction import NumberEvictor
from slackwater.jobs.engines.functions.fired_windows import FiredWindows
from slackwater.jobs.engines.functions.inline_calls import BackendStores, FunctionCalls
from slackwater.jobs.engines.functions.lazy_rows import RowMaker
from slackwater.jobs.engines.functions.left_over import leaving_errors
from slackwater.jobs.engines.functions.parked_lists import ParkedLists
from slackwater.jobs.engines.functions.range import FunctionRange
from slackwater.jobs.engines.functions.session_contents import (
    FoldsOfSessions,
    ListsOfSessions,
    SessionContents,
    WalkedFolds,
)
from slackwater.jobs.engines.functions.session_walk import (
    StateWindows,
    gaps_of,
    is_session,
    verdict_of_walk,
)
from slackwater.jobs.engines.functions.trigger_walk import (
    KeyState,
    KeyWalk,
    WalkedElement,
    WalkOutput,
    WalkRules,
)
from slackwater.jobs.engines.functions.walk_state import WalkState
from slackwater.jobs.engines.operator.garbage import objects_set_aside
from slackwater.jobs.engines.replaying.distinct_rows import without_remembered_rows
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.replaying.results import conform
from slackwater.jobs.engines.replaying.snapshot_codecs import codec_of_windows, json_of
from slackwater.jobs.engines.replaying.snapshot_rows import restored_rows
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.engines.rows.python_values import to_user_values
from slackwater.jobs.pipelines import Pipeline
from slackwater.windowing import (
    GlobalWindows,
    MergingWindowAssigner,
)
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.kernels import Counts, SliceResult
from slackwater.windowing.columnar.parking import Timers
from slackwater.windowing.columnar.window_columns import (
    NO_TIME,
    Elements,
    Firings,
    LateElements,
    OpenWindows,
    columns_of,
)
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.key_group_index import KeyGroupIndex
from slackwater.windowing.runtime.operator_storage import heap_backend
from slackwater.windowing.runtime.window_operator_builder import CONTENTS
from slackwater.windowing.snapshot import SnapshotTables
from slackwater.windowing.snapshot.columns import STATE_WINDOW
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window


def why_not_walked(pipeline: Pipeline, keeps_state: bool) -> str | None:
    """Why the windows of a pipeline can't be walked with their trigger, in one line; None when they can.
    `keeps_state`: whether its function has state, which shows the order of timers of one time.
    """
    if not is_session(pipeline) and type(pipeline.window) not in (*GRID_ASSIGNERS, GlobalWindows):
        return why_not(pipeline) or f"a function keeps state on {type(pipeline.window).__name__}"
    if keeps_state and pipeline.order_mode != "rocksdb":
        return f"order_mode={pipeline.order_mode!r} keeps the history of a heap"
    if pipeline.watermarks.kind == "punctuated":
        return "windows are walked from tick to tick, and punctuated watermarks rise inside one"
    return why_not_at_any_trigger(pipeline)


class TriggerRange(FunctionRange):
    """The work of range `number`; arguments as those of FunctionRange.

    Args:
        keeps_state: whether the function has state, and is called during the walk.
    """

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table, keeps_state: bool) -> None:
        super().__init__(replay, keys, number, rows)
        self._keeps_state = keeps_state
        self._merges = isinstance(self.config.assigner, MergingWindowAssigner)
        self._backend = heap_backend(
            KeyGroupIndex(keys.type, self.key_range.key_groups, keys.max_parallelism),
            OrderMode(self.pipeline.order_mode),
            None,
        )
        self._result_rows: ResultRows | None = None

    def _read_parked_lists(self) -> tuple[pa.Table, ParkedLists]:
        rows = []
        for name in SnapshotTables._fields:
            schema = pa.schema([field for field in self.schemas[name] if field.name != "run_id"])
            rows.append(restored_rows(self.replay, name, schema, self.keys, self.key_range))
        tables = SnapshotTables(*rows)
        if self.pipeline.distinct_by is not None:
            tables = tables._replace(keyed_state=without_remembered_rows(tables.keyed_state))
        codec = codec_of_windows(
            self.pipeline,
            self.keys,
            self.replay.shape,
            {},
            config=self.config,
            element_class=self.record,
            keeps_lists_whole=self.replay.keeps_lists_whole,
        )
        self._parked_tables, self._state = tables, WalkState(codec, tables, self._backend)
        of_windows = pc.equal(tables.keyed_state.column("state_name"), CONTENTS)
        window_rows, keyed_rows = tables.window_state, tables.keyed_state.filter(of_windows)
        if self.fold is not None:
            return window_rows, ParkedLists.of_values(window_rows, keyed_rows)
        owner = STATE_WINDOW if self._merges else "window"
        return window_rows, ParkedLists.read(
            window_rows, keyed_rows, self.keys.names, self.texts, owner=owner
        )

    def _number_keys(self, parked_rows: pa.Table) -> tuple[Longs, pa.Table]:
        """As of FunctionRange; keys that have nothing but timers or state have a number, too."""
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
        columns = ElementColumns(self.texts, parked_lists.texts, rows, elements.times)
        parked_count = len(parked_lists.texts)
        self._new_columns = ElementColumns(self.texts, pa.array([], pa.string()), rows, elements.times)
        contents, folds = self._contents(columns, parked_count, len(elements.keys))
        with objects_set_aside(), leaving_errors("a trigger, a fold or the function"):
            output = self._walk(elements, columns, contents, parked_lists)
        late = LateElements(*np.array(sorted(output.late), np.int64).reshape(-1, 3).T)
        if self._merges:
            verdict = verdict_of_walk(late, elements)
        firings, withdrawals = (
            columns_of(Firings, events) for events in (output.firings, output.withdrawals)
        )
        windows = columns_of(OpenWindows, output.windows)
        lists = contents.lists()
        slice_result = SliceResult(
            firings=[firings, withdrawals],
            windows=windows,
            triggers=None,
            next_firings=np.full(len(windows.keys), NO_TIME),
            timers=[_counted_timers(output)],
            accumulators=lists,
            late=late,
            counts=Counts(
                windows_opened=output.windows_opened,
                windows_cleaned=output.windows_cleaned,
                windows_merged=output.windows_merged,
                assignments_missed=output.assignments_missed,
                elements_cleaned=output.elements_cleaned,
                elements_never_fired=output.elements_never_fired,
            ),
        )
        lists_of_firings = lists.take(firings.contents)
        self.memory.require_elements(int(lists_of_firings.lengths.max(initial=0)))
        if folds is None and not self._keeps_state and self.pipeline.evictor is None:
            columns.decode(lists_of_firings.distinct_numbers())
        self._output = output
        return FiredWindows(
            slice_result=slice_result,
            firings=firings,
            lists=lists_of_firings,
            columns=columns,
            verdict=verdict,
            windows_at_start=windows_at_start,
            folding=None if folds is None else WalkedFolds(folds, firings, windows),
            withdrawals=withdrawals if self._merges else None,
            unjudged_count=len(elements.keys) if self._merges else 0,
            firing_clocks=np.array(output.clocks, np.int64),
        )

    def _contents(
        self, columns: ElementColumns, parked_count: int, count: int
    ) -> tuple[SessionContents, FoldsOfSessions | None]:
        """What windows hold, and the same again where that is folded."""
        evictor = self.pipeline.evictor
        if evictor is not None:
            columns.decode(np.arange(parked_count))
            rows = RowMaker(self.record, columns.column)
            return ListsOfSessions(NumberEvictor(evictor, columns.times(), rows)), None
        if self.fold is None:
            return ListsOfSessions(None), None
        elements = dict(enumerate(self._objects(self._new_columns, count), start=parked_count))
        json = json_of(self.pipeline, self.record)
        folds = FoldsOfSessions(
            self.fold,
            columns.parked_texts,
            json,
            elements,
            merges_target_first=OrderMode(self.pipeline.order_mode).merges_target_first,
        )
        return folds, folds

    def _objects(self, columns: ElementColumns, count: int) -> list[Any]:
        """All elements of these columns as named tuples."""
        self.memory.require_elements(count)
        values = (to_user_values(pa.chunked_array([columns.column(name)])) for name in self.record._fields)
        return list(map(self.record._make, zip(*values, strict=True)))

    def _walk(
        self,
        elements: Elements,
        columns: ElementColumns,
        contents: SessionContents,
        parked_lists: ParkedLists,
    ) -> WalkOutput:
        """Walk all keys, those without elements first."""
        parked_count, count = len(parked_lists.texts), len(elements.keys)
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
            looks_at_elements = self.config.trigger.looks_at_elements
            objects = self._objects(self._new_columns, count) if looks_at_elements else None
            rules = WalkRules(
                self.config,
                self.replay.timeline,
                windows_of=self._windows_of(elements),
                element_of=_nothing if objects is None else objects.__getitem__,
                contents=contents,
                backend=self._backend,
                calls=calls,
                first_number=parked_count,
            )
            states = self._state.restore(contents, parked_lists)
            to_ms = self.replay.scan.to_ms
            elements_of_keys = _elements_by_key(elements, self.replay.timeline.tick_ends)
            for number, key in enumerate(self._key_values):
                state = states.get(key) or KeyState()
                KeyWalk(rules, number, key, state).run(elements_of_keys(number), to_ms)
        if calls is not None:
            self._result_rows = calls.result_rows
        return rules.output

    def _contents_maker(self, columns: ElementColumns, count: int) -> Callable[[Any], Any]:
        """Makes what a function is handed of what a firing shows."""
        if self.pipeline.evictor is None and self.fold is not None:
            return _itself
        columns.decode(np.arange(len(columns.parked_texts)))
        objects = self._objects(columns, count)
        return lambda numbers: [objects[number] for number in numbers]

    def _windows_of(self, elements: Elements) -> Callable[[int, int], Sequence[Window]]:
        """(place of an element, its timestamp) → its windows."""
        if not self._merges:
            assign = self.config.assigner.bind(None)  # type: ignore[arg-type]  # it asks for no clock
            return lambda _, time: assign(None, time)
        rows = RowMaker(self.record, self._new_columns.column)
        gaps: list[int] = gaps_of(self.pipeline, elements, rows).tolist()
        return lambda place, time: (TimeWindow(time, time + gaps[place]),)

    def _call(self, fired_windows: FiredWindows, distinct: pa.Table) -> ResultRows:
        return self._result_rows or super()._call(fired_windows, distinct)

    def _state_tables(self, fired_windows: FiredWindows, distinct: pa.Table) -> dict[str, pa.Table]:
        parked_state = self._state.park(self._output, self._key_values, self._groups)
        slice_result = fired_windows.slice_result
        moments = [NO_TIME if moment is None else moment for moment in parked_state.next_firings]
        slice_result = slice_result._replace(next_firings=np.array(moments, np.int64))
        bounds = [
            (NO_TIME, NO_TIME) if window is GLOBAL_WINDOW else (window.start, window.end)
            for window in self._output.state_windows
        ]
        state_windows = StateWindows(*np.array(bounds, np.int64).reshape(-1, 2).T)
        contents, pieces = self.parked_contents(fired_windows, state_windows, distinct)
        of_windows = {
            **columns_of_open_windows(slice_result, distinct, self.setting),
            **parked_state.columns,
            "contents": contents,
        }
        if self._merges:
            of_windows[f"{STATE_WINDOW}_start"] = times(state_windows.starts)
            of_windows[f"{STATE_WINDOW}_end"] = times(state_windows.ends)
        tables = {"window_state": pa.table(of_windows), "timers": parked_state.timers}
        keyed_rows = [rows for rows in (pieces, parked_state.keyed_rows) if rows is not None]
        schema = self.schemas["keyed_state"]
        return {**tables, "keyed_state": pa.concat_tables([conform(rows, schema) for rows in keyed_rows])}


def _elements_by_key(elements: Elements, tick_ends: Longs) -> Callable[[int], Iterator[WalkedElement]]:
    """Key number → its elements, in order of arrival."""
    order = np.argsort(elements.keys, kind="stable")
    clocks = elements.clocks[order]
    columns = (order, elements.times[order], clocks, np.searchsorted(tick_ends, clocks, side="right"))
    keys = elements.keys[order]

    def of_key(number: int) -> Iterator[WalkedElement]:
        first, beyond = np.searchsorted(keys, [number, number + 1])
        return map(WalkedElement, *(column[first:beyond].tolist() for column in columns))

    return of_key


def _counted_timers(output: WalkOutput) -> Timers:
    """As many timers as are pending, for the count of them."""
    count = sum(len(list(timers)) for of_key in output.timers.values() for timers in of_key.values())
    nothing = np.zeros(count, np.int64)
    return Timers("trigger", nothing, nothing, nothing, nothing)


def _nothing(place: int) -> None:
    """For triggers that look at no element."""


def _itself(result: Any) -> Any:
    return result
