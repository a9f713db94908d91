"""Plays recorded cases of Flink's window operator through an engine: each case becomes a slice of a pipeline,
or several where it restores a snapshot or moves the clock that its windows pass with; rows in, panes and late
rows out.

The columnar engine works on a slice at once, so there are no steps to watch. The rows that it leaves say when
they were caused, and steps happen one after the other (see `recorded_slices`), so each row is assigned to its
step:

    step      0: element    1: element    2: watermark 9
    ms        1             2             3                → slice [0, 4), ticks of 1 ms
    rows                    late row      pane             → compared with what Flink did in that step
"""

import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.cli.recorded_functions import (
    EMISSION,
    FACTS_OF_VALUE,
    SIDE,
    StepResult,
    assigner_of_elements,
    declarations_of,
    evictor_of_elements,
    recorded_result,
    trigger_of_elements,
    value_as_json,
)
from slackwater.cli.recorded_slices import RecordedSlice, RecordedSlices, declared_duration
from slackwater.conformance.declarations import (
    assigner_from_json,
    evictor_from_json,
    trigger_from_json,
)
from slackwater.conformance.player import Mismatch, PlayReport
from slackwater.conformance.trace import Case, Json, read_cases
from slackwater.engine.planner import choose, why_not_columnar
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.staging.shapes import shape_of
from slackwater.tables.delta.written_files import write_file
from slackwater.tables.run_files.staging import stack
from slackwater.tables.schemas import SNAPSHOT_TABLES, TIME, side_table, table_schemas
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimeEvictor,
    Trigger,
    WatermarkStrategy,
)
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.errors import StateAccessError, TraceError, WindowingError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.times import to_ms

_SELECT = {
    "n": agg.count(),
    "total": agg.sum("value"),
    "average": agg.mean("value"),
    "least": agg.min("value"),
    "greatest": agg.max("value"),
}
_BY_CLOCK = (ContinuousProcessingTimeTrigger, ProcessingTimeTrigger, ProcessingTimeoutTrigger)
_BY_BOUNDS = (EventTimeTrigger, ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)
_SHOW_ORDER_OF_MERGES = ("reduce_concat", "aggregate_concat", "reduce_null_on_zero")
_KEYS = {
    "string": (pa.string(),),
    "long": (pa.int64(),),
    "int": (pa.int32(),),
    "tuple(string,long)": (pa.string(), pa.int64()),
}


def play(files: Iterable[Path], engine: str) -> PlayReport:
    """Play every case of the files with the engine called `engine`. Prints each failure, each reason why
    cases can't be played with the number of cases, and last the counts.
    """
    report, reasons = PlayReport(), Counter[str]()
    for path in files:
        for case in read_cases(path):
            try:
                mismatch = play_case(case, engine)
            except TraceError as error:
                report.unplayable_cases += 1
                reasons[str(error)] += 1
                continue
            if mismatch is None:
                report.passed_cases += 1
            else:
                report.failed_cases += 1
                print(mismatch)
    for reason, cases in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        print(f"{cases} unplayable: {reason}")
    print(report)
    return report


def play_case(case: Case, engine: str) -> Mismatch | None:
    """Play one case with the engine called `engine`: as a pipeline with the recorded function, and as one
    with built-in aggregates, where the recorded function tells the same as these. It passes if it passes as
    each of the two that can be played.

    Of each step the emitted rows and the late elements, in any order, and the number of dropped elements are
    compared; at the end of the case the numbers of pending timers and of windows with contents. What a
    function writes while its window is cleared is not.

    Returns:
        The first difference; None when there is none.

    Raises:
        TraceError: the case can't be played as rows, or not by the columnar engine; the message says why.
    """
    if case.family != "window":
        raise TraceError(f"family {case.family!r} is not of windows")
    reasons = []
    for calls_function in (True, False):
        try:
            mismatch = _play_as(case, engine, calls_function)
        except TraceError as error:
            reasons.append(error)
            continue
        if mismatch is not None:
            return mismatch
    if len(reasons) == 2:
        raise reasons[0]
    return None


def _play_as(case: Case, engine: str, calls_function: bool) -> Mismatch | None:
    """Play a case with its function, or with built-in aggregates."""
    facts = value_as_json if calls_function else FACTS_OF_VALUE.get(case.config["function"]["type"])
    if facts is None:
        raise TraceError("what the function emits depends on more than the elements of a window")
    with tempfile.TemporaryDirectory() as folder:
        replayed_case = _ReplayedCase(case, engine, Path(folder), calls_function)
        flink_steps = [recorded_result(step, facts) for step in case.expected]
        our_steps, our_end = replayed_case.play()
    names = {name for step in flink_steps for row in step.rows for name in row}
    last = case.expected[-1]
    # What is left when no session is open is of a session that Flink lost; nothing parks it here.
    is_lost = replayed_case.merges and "merging-window-set" not in last["state"]
    flink_end = {
        "timers": last["event_timers"] + last["processing_timers"],
        "contents": 0 if is_lost else last["state"].get("window-contents", 0),
    }
    for number, step in enumerate(flink_steps):
        ours = our_steps.get(number, StepResult([], [], 0)).with_facts(names)
        if ours.comparable() != step.comparable():
            return Mismatch(case.id, number, step.comparable(), ours.comparable())
    return None if our_end == flink_end else Mismatch(case.id, len(flink_steps) - 1, flink_end, our_end)


class _ReplayedCase:
    """One case as slices of a pipeline; its rows, tables and files are below `folder`."""

    def __init__(self, case: Case, engine: str, folder: Path, calls_function: bool) -> None:
        self.config, self.steps, self.folder = case.config, case.steps, folder
        self.recorded = RecordedSlices.of(case.config, case.steps)
        self.step_at = {moment: number for number, moment in enumerate(self.recorded.moments)}
        self.calls_function = calls_function
        self.keys = [f"key{number}" for number in range(len(_KEYS[self.config["key_type"]]))]
        kinds = zip(self.keys, _KEYS[self.config["key_type"]], strict=True)
        self.schema = pa.schema([*kinds, ("value", pa.int64()), ("event_time", TIME), ("arrival_time", TIME)])
        try:
            self.pipeline = self._pipeline()
            self.shape = shape_of(self.pipeline, self.schema)
        except (WindowingError, PipelineError) as error:
            raise TraceError(str(error)) from error
        if isinstance(self.pipeline.windows, DynamicProcessingTimeSessionWindows):
            self.recorded.refuse_equal_windows(case.steps)
        reason = why_not_columnar(self.pipeline, self.schema) if engine == "columnar" else None
        if reason is not None:
            raise TraceError(reason)
        self.engine = choose(self.pipeline, self.schema, engine).make()
        self.merges = isinstance(self.pipeline.windows, MergingWindowAssigner)

    def play(self) -> tuple[dict[int, StepResult], Json]:
        """The results by step, without steps that caused nothing; and the numbers of pending timers and of
        windows with contents at the end.
        """
        results: dict[int, StepResult] = {}
        state: dict[str, tuple[str, ...]] = {}
        watermark = INITIAL_WATERMARK
        for number, slice_ in enumerate(self.recorded.slices):
            if slice_.begins_anew:
                watermark = INITIAL_WATERMARK
            timeline = self._timeline(slice_, watermark)
            watermark = timeline.final
            rows_by_table = self._replay(number, slice_, timeline, state)
            self._add_results(results, rows_by_table, slice_)
            self._check_restorable(number, watermark, rows_by_table)
        # Accumulators of a select have columns of their own.
        contents = [
            row
            for row in rows_by_table["window_state"]
            if (row["contents"] is not None) == self.calls_function
        ]
        return results, {"timers": len(rows_by_table["timers"]), "contents": len(contents)}

    def _replay(
        self, number: int, slice_: RecordedSlice, timeline: Timeline, state: dict[str, tuple[str, ...]]
    ) -> dict[str, list[Json]]:
        """The rows that slice `number` leaves, by table; `state` has the files of the snapshot before it, and
        afterwards those of the one that it leaves.
        """
        rows = pa.Table.from_pylist(self._elements(slice_), schema=self.schema)
        path = f"{number}.parquet"
        pq.write_table(rows, self.folder / path)
        scan = SliceScan(
            source=PinnedSource(str(self.folder), 0, self.schema, None),
            files=(InputFile(path, (), rows.num_rows, 1, False),),
            columns=tuple(self.schema.names),
            arrival="arrival_time",
            from_ms=slice_.from_ms,
            to_ms=slice_.to_ms,
            start_ms=0,
        )
        schemas = table_schemas(self.shape)
        replay = Replay(
            pipeline=self.pipeline,
            shape=self.shape,
            scan=scan,
            timeline=timeline,
            state=dict(state),
            folders={name: str(self.folder / name) for name in schemas},
            run_id="r",
            ranges=min(2, self.config["max_parallelism"]),
            file_rows=1 << 40,  # so that all rows come back as Arrow
            order_mode=self._order_mode(slice_),
        )
        try:
            outcome = self.engine.replay(replay, InProcess())
        except StateAccessError as error:
            raise TraceError("its function and its trigger share a state by name") from error
        if outcome.counts["rows_quarantined"]:
            raise TraceError("an element has no timestamp, or one that no table can hold")
        tables = {name: stack(outcome.rows.get(name, []), schemas[name], "r") for name in schemas}
        for name in SNAPSHOT_TABLES:
            parked_rows = tables[name].drop_columns(["run_id"])
            state[name] = (write_file(replay.folders[name], path, parked_rows, {}).path,)
        return {name: table.to_pylist() for name, table in tables.items()}

    def _check_restorable(self, number: int, watermark: int, rows_by_table: dict[str, list[Json]]) -> None:
        """Whether the snapshot that slice `number` leaves means the same in a replay.

        Raises:
            TraceError: it does not.
        """
        due_ms = self.recorded.slices[number].unplayable_until
        if any(
            to_ms(timer["time"]) < due_ms for timer in rows_by_table["timers"] if timer["time"] is not None
        ):
            raise TraceError("Flink's harness fires a timer of the clock before its millisecond is over")
        begins_anew = any(slice_.begins_anew for slice_ in self.recorded.slices[number + 1 : number + 2])
        if begins_anew and any(
            row["window_end"] is not None and to_ms(row["window_end"]) - 1 <= watermark
            for row in rows_by_table["window_state"]
        ):
            raise TraceError("Flink forgets the watermark at a restore, which has passed an open window")

    def _pipeline(self) -> Pipeline:
        config, recorded = self.config, self.recorded
        assigner, trigger = config["assigner"], config["trigger"]
        trigger = None if trigger is None else trigger_from_json(recorded.lengths(trigger))
        evictor = None if config["evictor"] is None else evictor_from_json(config["evictor"])
        self._refuse_times(trigger, assigner.get("time") == "processing")
        windows = recorded.sessions(assigner_of_elements(assigner_from_json(recorded.lengths(assigner))))
        default_evictor = windows.get_default_evictor()
        if isinstance(windows, CountWindows) and (trigger or evictor):
            trigger, evictor = trigger or windows.get_default_trigger(), evictor or default_evictor
            windows = GlobalWindows.create()
        if self.calls_function:
            declarations = declarations_of(config["function"])
        elif evictor is not None or default_evictor is not None:
            raise TraceError("built-in aggregates see no single element, as an evictor does")
        else:
            declarations = {"select": _SELECT}
        return Pipeline(
            name="recorded",
            source=DeltaSource("steps", event_time="event_time", arrival_time="arrival_time"),
            watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)).with_interval(
                timedelta(milliseconds=1)
            ),
            key_by=self.keys,
            window=windows,
            trigger=trigger_of_elements(trigger),
            evictor=evictor_of_elements(evictor),
            allowed_lateness=declared_duration(config["allowed_lateness"]),
            flink_exact=True,
            **declarations,
            start="1970-01-01",
            max_ahead=timedelta(days=366_000),
            max_parallelism=config["max_parallelism"],
        )

    def _refuse_times(self, trigger: Trigger | None, windows_by_clock: bool) -> None:
        """Refuse a trigger whose timers the steps of a replay don't keep."""
        if not windows_by_clock and trigger is not None and type(trigger.firing_trigger) in _BY_CLOCK:
            raise TraceError("its trigger runs by a clock, which moves otherwise in a table of its steps")
        while isinstance(trigger, PurgingTrigger | ProcessingTimeoutTrigger):
            trigger = trigger.trigger
        if windows_by_clock and isinstance(trigger, _BY_BOUNDS):
            raise TraceError("its trigger looks at bounds of windows, which the clock makes others here")

    def _order_mode(self, slice_: RecordedSlice) -> OrderMode:
        """Flink's two kinds of state merge folded values in different orders. Of sessions of processing time
        one is open at most, so that none merge.
        """
        merges = self.merges and self.pipeline.windows.is_event_time
        shows_order = self.calls_function and self.config["function"]["type"] in _SHOW_ORDER_OF_MERGES
        is_heap = merges and shows_order and self.pipeline.evictor is None and slice_.back_end == "hashmap"
        return OrderMode.HEAP if is_heap else OrderMode.ROCKSDB

    def _elements(self, slice_: RecordedSlice) -> list[Json]:
        # Global windows and those of processing time take elements without a timestamp, and of the triggers
        # and evictors that are played few look at one.
        parts = (self.pipeline.effective_trigger.firing_trigger, self.pipeline.evictor)
        is_timeless = not self.pipeline.windows.is_event_time and not any(
            isinstance(part, ContinuousEventTimeTrigger | TimeEvictor) for part in parts
        )
        elements = []
        for number in range(slice_.first, slice_.beyond):
            [(kind, question), *_] = self.steps[number].items()
            if kind == "element":
                key = question["key"] if len(self.keys) > 1 else [question["key"]]
                time = 0 if is_timeless else question.get("timestamp")
                values = {
                    "value": question["value"],
                    "event_time": _moment(time),
                    "arrival_time": _moment(self.recorded.moments[number]),
                }
                elements.append({**dict(zip(self.keys, key, strict=True)), **values})
        return elements

    def _timeline(self, slice_: RecordedSlice, initial: int) -> Timeline:
        rises = [
            (self.recorded.moments[number], self.steps[number]["watermark"])
            for number in range(slice_.first, slice_.beyond)
            if "watermark" in self.steps[number]
        ]
        ends, watermarks = np.array(rises, np.int64).reshape(-1, 2).T
        return Timeline(
            from_ms=slice_.from_ms,
            to_ms=slice_.to_ms,
            interval_ms=1,
            initial=initial,
            tick_ends=ends,
            watermarks=watermarks,
        )

    def _add_results(
        self,
        results: dict[int, StepResult],
        rows_by_table: dict[str, list[Json]],
        slice_: RecordedSlice,
    ) -> None:
        """Add what the rows of a slice show of its steps."""
        names = [EMISSION] if self.calls_function else list(_SELECT)
        firings: dict[tuple[Any, ...], tuple[StepResult, Json]] = {}
        for pane in rows_by_table["panes"]:
            if pane["kind"] == "withdrawn":  # ours alone: Flink emits nothing when a session is merged away
                continue
            start, end = pane["window_start"], pane["window_end"]
            window = None if start is None else self.recorded.window(to_ms(start), to_ms(end))
            # Timers of the clock tell no moment: they fire on the way to the end of their slice.
            moment = pane["cause_arrival"] or pane["tick_end"]
            number = slice_.beyond - 1 if moment is None else self.step_at[to_ms(moment)]
            times = {
                "window": window or "global",
                "timestamp": LONG_MAX if window is None else window[1] - 1,
                "watermark": self._watermark(pane, number),
            }
            row = {"key": self._key(pane), **times, **{name: pane[name] for name in names}}
            result = results.setdefault(number, StepResult([], [], 0))
            result.rows.append(row)
            firings[self._firing(pane)] = (result, {**row, EMISSION: None})
        for side_row in rows_by_table.get(side_table(SIDE), []):
            result, row_of_firing = firings[self._firing(side_row)]
            result.rows.append({**row_of_firing, "side": SIDE, EMISSION: side_row[EMISSION]})
        for late in rows_by_table["late_events"]:
            number = self.step_at[to_ms(late["arrival_time"])]
            result = results.setdefault(number, StepResult([], [], 0))
            if self.config["side_output_late"]:
                result.late.append(
                    {"key": self._key(late), "value": late["value"], "timestamp": to_ms(late["event_time"])}
                )
            else:
                results[number] = result._replace(dropped_elements=result.dropped_elements + 1)

    def _watermark(self, pane: Json, step: int) -> int:
        """The watermark at which the pane fired, in this step. The table holds null for the initial
        watermark and for the final one.
        """
        if pane["watermark"] is not None:
            return to_ms(pane["watermark"])
        watermark = INITIAL_WATERMARK
        for earlier in self.steps[: step + 1]:
            if "snapshot_restore" in earlier:
                watermark = INITIAL_WATERMARK
            watermark = max(watermark, earlier.get("watermark", INITIAL_WATERMARK))
        return watermark

    def _firing(self, row: Json) -> tuple[Any, ...]:
        """Which firing a row of panes or of a side output is of."""
        names = (*self.keys, "window_start", "window_end", "firing")
        return tuple(row[name] for name in names)

    def _key(self, row: Json) -> Any:
        values = [row[name] for name in self.keys]
        return values if len(values) > 1 else values[0]


def _moment(ms: int | None) -> int | None:
    """Milliseconds as a timestamp column takes them; None for what it can't hold, which is quarantined."""
    return None if ms is None or abs(ms) >= 2**63 // 1000 else ms * 1000
