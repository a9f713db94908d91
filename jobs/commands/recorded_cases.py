"""Recorded cases of Flink's window operator, played as one slice of a pipeline through a whole engine: rows
in, panes and late rows out.

An engine of columns has no steps to look at one by one: each row of its tables is put back to the step that
caused it.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.jobs.engines.planner import choose, why_not_columnar
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.scan import SliceScan
from slackwater.jobs.engines.transport.in_process import InProcess
from slackwater.jobs.pipelines import DeltaSource, Pipeline, agg
from slackwater.jobs.pipelines.errors import PipelineError
from slackwater.jobs.protocol.staging.shapes import shape_of
from slackwater.jobs.tables.run_files.staging import stack
from slackwater.jobs.tables.schemas import TIME, table_schemas
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    GlobalWindows,
    PurgingTrigger,
    WatermarkStrategy,
)
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.conformance.declarations import assigner_from_json, trigger_from_json
from slackwater.windowing.conformance.player import Mismatch, PlayReport
from slackwater.windowing.conformance.trace import Case, Json, read_cases
from slackwater.windowing.errors import TraceError, WindowingError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.times import to_ms

_SELECT = {
    "n": agg.count(),
    "total": agg.sum("value"),
    "average": agg.mean("value"),
    "least": agg.min("value"),
    "greatest": agg.max("value"),
}
_KEYS = {
    "string": (pa.string(),),
    "long": (pa.int64(),),
    "int": (pa.int32(),),
    "tuple(string,long)": (pa.string(), pa.int64()),
}


def _of_numbers(numbers: list[int]) -> Json:
    return {"n": len(numbers), "total": int(np.sum(numbers)), "least": min(numbers), "greatest": max(numbers)}


def _of_text(text: str) -> Json:
    return _of_numbers([int(number) for number in re.findall(r"-?\d+", text)])


# What a value that a recorded function emitted says of the elements of its window, whatever their order.
_FACTS: Mapping[str, Callable[[Any], Json]] = {
    "reduce_sum": lambda value: {"total": value},
    "reduce_concat": _of_text,
    "reduce_then_process": lambda value: {"total": value["result"], "watermark": value["watermark"]},
    "aggregate_avg": lambda value: {"total": value["sum"], "n": value["count"], "average": value["avg"]},
    "aggregate_concat": _of_text,
    "aggregate_then_process": lambda value: {"total": value["result"], "watermark": value["watermark"]},
    "process_list": _of_numbers,
    "apply_list": _of_numbers,
    "process_global_state": lambda value: _of_numbers(value["values"]),
}


def play(files: Iterable[Path], engine: str) -> PlayReport:
    """Play every case of the files with the engine of that name; print what fails, why how many can't be
    played, and last the counts.
    """
    report, reasons = PlayReport(), Counter[str]()
    for path in files:
        for case in read_cases(path):
            try:
                mismatch = play_case(case, engine)
            except TraceError as error:
                report.unplayable += 1
                reasons[str(error)] += 1
                continue
            if mismatch is None:
                report.passed += 1
            else:
                report.failed += 1
                print(mismatch)
    for reason, cases in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        print(f"{cases} unplayable: {reason}")
    print(report)
    return report


def play_case(case: Case, engine: str) -> Mismatch | None:
    """Play one case with the engine of that name. Compared are, step by step and in no order, what is
    emitted, what is late, and how many elements are dropped; and at the end how many timers and windows with
    contents there are.

    Returns:
        The first difference.

    Raises:
        TraceError: the case can't be played as rows, or not by the columnar engine; the message says why.
    """
    if case.family != "window":
        raise TraceError(f"family {case.family!r} is not of windows")
    with tempfile.TemporaryDirectory() as folder:
        replaying = _Replaying(case, engine, Path(folder))
        wanted = [_recorded(expected, case.config) for expected in case.expected]
        played, left = replaying.play()
    names = {name for step in wanted for row in step.rows for name in row}
    last = case.expected[-1]
    ends = {"timers": last["event_timers"], "contents": last["state"].get("window-contents", 0)}
    for number, expected in enumerate(wanted):
        got = played.get(number, Step([], [], 0)).showing(names)
        if got != expected.plain():
            return Mismatch(case.id, number, expected.plain(), got)
    return None if left == ends else Mismatch(case.id, len(wanted) - 1, ends, left)


class Step(NamedTuple):
    """What one step caused: emitted rows, late elements, and how many were dropped."""

    rows: list[Json]
    late: list[Json]
    dropped: int

    def showing(self, names: Set[str]) -> Json:
        """As `plain`, with those facts of the rows alone."""
        return self._replace(
            rows=[{name: row[name] for name in row if name in names} for row in self.rows]
        ).plain()

    def plain(self) -> Json:
        """As JSON that is equal where steps are."""
        return {
            "rows": sorted(json.dumps(row, sort_keys=True) for row in self.rows),
            "late": sorted(json.dumps(row, sort_keys=True) for row in self.late),
            "dropped": self.dropped,
        }


def _recorded(expected: Json, config: Json) -> Step:
    """A step as Flink played it."""
    facts = _FACTS.get(config["function"]["type"])
    if facts is None:
        raise TraceError(
            f"what the function {config['function']['type']!r} emits depends on more than the elements of a "
            "window"
        )
    rows, late = [], []
    for entry in expected["out"]:
        if "error" in entry:
            raise TraceError("Flink refuses a step of it")
        if "late" in entry:
            late.append({name: entry["late"][name] for name in ("key", "value", "timestamp")})
        elif "value" in entry and "side" not in entry:
            rows.append(
                {
                    "key": entry["key"],
                    "window": entry["window"],
                    "timestamp": entry["timestamp"],
                    **facts(entry["value"]),
                }
            )
    return Step(rows, late, expected["late_dropped"])


class _Replaying:
    """One case as one slice: step i happens at i + 1 milliseconds, and ticks are as short."""

    def __init__(self, case: Case, engine: str, folder: Path) -> None:
        self.config, self.steps, self.folder = case.config, case.steps, folder
        self.keys = [f"key{number}" for number in range(len(_KEYS[self.config["key_type"]]))]
        kinds = zip(self.keys, _KEYS[self.config["key_type"]], strict=True)
        self.schema = pa.schema([*kinds, ("value", pa.int64()), ("event_time", TIME), ("arrival_time", TIME)])
        try:
            self.pipeline = self._pipeline()
            self.shape = shape_of(self.pipeline, self.schema)
        except (WindowingError, PipelineError) as error:
            raise TraceError(str(error)) from error
        reason = why_not_columnar(
            self.pipeline, self.schema
        )  # the operator engine plays the same cases, to be compared
        if reason is not None:
            raise TraceError(reason)
        self.engine = choose(self.pipeline, self.schema, engine).make()

    def play(self) -> tuple[dict[int, Step], Json]:
        """What each step that caused anything has caused; and what is left at the end."""
        rows = pa.Table.from_pylist(self._elements(), schema=self.schema)
        pq.write_table(rows, self.folder / "steps.parquet")
        source = PinnedSource(str(self.folder), 0, self.schema, None)
        file = InputFile("steps.parquet", (), rows.num_rows, 1, False)
        beyond = len(self.steps) + 1
        scan = SliceScan(source, (file,), tuple(self.schema.names), "arrival_time", 0, beyond, 0)
        schemas = table_schemas(self.shape)
        folders = {name: str(self.folder / name) for name in schemas}
        ranges = min(2, self.config["max_parallelism"])
        replay = Replay(
            self.pipeline,
            self.shape,
            scan,
            self._timeline(beyond),
            {},
            folders,
            "r",
            ranges,
            file_rows=1 << 40,
        )
        outcome = self.engine.replay(replay, InProcess())
        if outcome.counts["rows_quarantined"]:
            raise TraceError("an element has no timestamp, or one that no table can hold")
        left = {name: stack(outcome.rows.get(name, []), schemas[name], "r").to_pylist() for name in schemas}
        contents = [row for row in left["window_state"] if row["contents"] is None]
        return self._by_step(left), {"timers": len(left["timers"]), "contents": len(contents)}

    def _pipeline(self) -> Pipeline:
        config, assigner = self.config, self.config["assigner"]
        if config["evictor"] is not None or assigner["type"] == "sliding_count":
            raise TraceError("an evictor sees elements one by one")
        trigger = None if config["trigger"] is None else trigger_from_json(config["trigger"])
        if trigger is None and assigner["type"] == "count":
            trigger = PurgingTrigger.of(CountTrigger.of(assigner["size"]))
        return Pipeline(
            name="recorded",
            source=DeltaSource("steps", event_time="event_time", arrival_time="arrival_time"),
            watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)).with_interval(
                timedelta(milliseconds=1)
            ),
            key_by=self.keys,
            window=assigner_from_json(assigner),
            trigger=trigger,
            allowed_lateness=_duration(config["allowed_lateness"]),
            select=_SELECT,
            start="1970-01-01",
            max_ahead=timedelta(days=366_000),
            max_parallelism=config["max_parallelism"],
        )

    def _elements(self) -> list[Json]:
        # The global window takes elements without a timestamp; only one trigger of those that are played
        # looks at it.
        is_timeless = isinstance(self.pipeline.window, GlobalWindows) and not isinstance(
            self.pipeline.effective_trigger.firing_trigger, ContinuousEventTimeTrigger
        )
        elements = []
        for number, step in enumerate(self.steps):
            [(kind, question), *_] = step.items()
            if kind == "snapshot_restore":
                raise TraceError("Flink forgets the watermark at a restore")
            if kind == "element":
                key = question["key"] if len(self.keys) > 1 else [question["key"]]
                time = 0 if is_timeless else question.get("timestamp")
                values = {
                    "value": question["value"],
                    "event_time": _moment(time),
                    "arrival_time": _moment(number + 1),
                }
                elements.append({**dict(zip(self.keys, key, strict=True)), **values})
        return elements

    def _timeline(self, to_ms: int) -> Timeline:
        rises = [
            (number + 1, step["watermark"]) for number, step in enumerate(self.steps) if "watermark" in step
        ]
        ends, watermarks = np.array(rises, np.int64).reshape(-1, 2).T
        return Timeline(0, to_ms, 1, INITIAL_WATERMARK, ends, watermarks)

    def _by_step(self, left: dict[str, list[Json]]) -> dict[int, Step]:
        steps: dict[int, Step] = {}
        for pane in left["panes"]:
            if pane["kind"] == "withdrawn":  # Flink leaves it to those downstream that the session is gone
                continue
            start, end = pane["window_start"], pane["window_end"]
            window = "global" if start is None else [to_ms(start), to_ms(end)]
            times = {
                "window": window,
                "timestamp": LONG_MAX if end is None else to_ms(end) - 1,
                "watermark": self._watermark(pane),
            }
            row = {"key": self._key(pane), **times, **{name: pane[name] for name in _SELECT}}
            self._step(steps, pane["cause_arrival"] or pane["tick_end"]).rows.append(row)
        for late in left["late_events"]:
            number = to_ms(late["arrival_time"]) - 1
            step = self._step(steps, late["arrival_time"])
            if self.config["side_output_late"]:
                step.late.append(
                    {"key": self._key(late), "value": late["value"], "timestamp": to_ms(late["event_time"])}
                )
            else:
                steps[number] = step._replace(dropped=step.dropped + 1)
        return steps

    def _step(self, steps: dict[int, Step], at: datetime) -> Step:
        return steps.setdefault(to_ms(at) - 1, Step([], [], 0))

    def _watermark(self, pane: Json) -> int:
        """In force; a table has none for the first one and the last one, of which one is before every tick
        end.
        """
        if pane["watermark"] is not None:
            return to_ms(pane["watermark"])
        return INITIAL_WATERMARK if pane["tick_end"] is None else LONG_MAX

    def _key(self, row: Json) -> Any:
        values = [row[name] for name in self.keys]
        return values if len(values) > 1 else values[0]


def _duration(ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ms)
    except OverflowError as error:
        raise TraceError(f"{ms} ms are more than a pipeline can declare") from error


def _moment(ms: int | None) -> int | None:
    """Milliseconds as a timestamp column takes them; None for what it can't hold, which is quarantined."""
    return None if ms is None or abs(ms) >= 2**63 // 1000 else ms * 1000
