"""Replays random events slice after slice, in one process, through the engine and its codecs, and reads back
what the tables would hold.

Not a test: the part that the properties share. Parked state goes from slice to slice as Parquet files, as in
a run.
"""

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine, Outcome, Replay
from slackwater.engine.rows.carried_timeline import timeline_of_slice
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress
from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.computed_columns import schema_with_computed_columns
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess, Transport
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.runs.staging.shapes import shape_of
from slackwater.runs.staging.slice_replay import final_timeline
from slackwater.runs.staging.validation import Check, check_assignments, check_panes
from slackwater.tables.delta.written_files import write_file
from slackwater.tables.run_files.staging import stack
from slackwater.tables.schemas import Shape, side_table, table_columns, table_schemas
from slackwater.windowing import (
    CalendarEventTimeWindows,
    CumulateEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.times import EPOCH, to_datetime
from tests.model import records as model

SELECT = {
    "n": agg.count(),
    "known": agg.count("x"),
    "total": agg.sum("x"),
    "average": agg.mean("y"),
    "least": agg.min("y"),
    "greatest": agg.max("x"),
    "spread": agg.stddev("x"),
    "spread_of_doubles": agg.variance("y", where="y < 1e200"),
    "spread_of_all": agg.var_pop("y"),
    "several": agg.count_distinct("y"),
    "values": agg.collect_set("y"),
    "sum_of_several": agg.sum_distinct("x"),
    "odd_bits": agg.bit_xor("x"),
    "of_least": agg.min_by("x", "y"),
    "in_order": agg.collect_list("y"),
    "by_arrival": agg.collect_list("x", by="arrival", limit=3),
    "usual": agg.mode("y"),
    "middle": agg.median("x"),
    "positive": agg.count(where="x > 0"),
    "opening": agg.first("x"),
    "closing": agg.last("y"),
    "earliest": agg.first("y", by="arrival", where="x <= 0"),
    "newest": agg.last("x", by="arrival"),
}
# What is approximate has no brute force here: it must not depend on cuts and parallelism, and its errors are
# measured elsewhere.
APPROXIMATE = {"about": agg.approx_distinct("y", precision=4), "median": agg.approx_quantile("x", 0.5)}
_CONDITIONS = {
    None: lambda event: True,
    "x > 0": lambda event: event.values["x"] is not None and event.values["x"] > 0,
    "x <= 0": lambda event: event.values["x"] is not None and event.values["x"] <= 0,
    "y < 1e200": lambda event: event.values["y"] is not None and event.values["y"] < 1e200,
}


def _arrived(event: model.Event) -> tuple:
    """True arrival and order; of a row that was moved, the order tells both."""
    return event.order if isinstance(event.order, tuple) else (event.arrival, event.order)


_RANKS = {
    None: _arrived,
    "arrival": _arrived,
    "event_time": lambda event: (event.event_time, *_arrived(event)),
}
AGGREGATES = tuple(
    model.Aggregate(
        name=name,
        function=item.kind,
        column=item.column,
        keeps=_CONDITIONS[item.where],
        rank=_RANKS[item.by],
        limit=item.limit,
        other=item.other_column,
    )
    for name, item in SELECT.items()
)
SCHEMA = pa.schema(
    [
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("key", pa.string()),
        ("x", pa.int32()),
        ("y", pa.float64()),
        ("big", pa.int64()),
        ("amount", pa.decimal128(38, 2)),
        ("seen", pa.timestamp("us", tz="UTC")),
        ("code", pa.int32()),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("far", pa.int64()),
        ("text", pa.string()),
    ]
)


def pipeline_of(rules: model.Replay, purging: bool) -> Pipeline:
    """The declaration whose rules are the model's."""
    ms = lambda number: timedelta(milliseconds=number)  # noqa: E731
    assigner = rules.assigner
    if isinstance(assigner, model.Tumbling):
        window = TumblingEventTimeWindows.of(ms(assigner.size), ms(assigner.offset))
    elif isinstance(assigner, model.Session):
        window = EventTimeSessionWindows.with_gap(ms(assigner.gap))
    elif isinstance(assigner, model.Periods):
        window = CalendarEventTimeWindows(
            zone=assigner.zone, unit=assigner.unit, count=assigner.count, since=assigner.since
        )
    elif isinstance(assigner, model.Cumulative):
        window = CumulateEventTimeWindows.of(ms(assigner.size), ms(assigner.step), ms(assigner.offset))
    else:
        window = SlidingEventTimeWindows.of(ms(assigner.size), ms(assigner.slide), ms(assigner.offset))
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purging else None
    return declared(rules, window=window, trigger=trigger, select={**SELECT, **APPROXIMATE})


def declared(rules: model.Replay, **declarations: Any) -> Pipeline:
    """A pipeline over these events with the watermarks, lateness and bounds of the rules."""
    ms = lambda number: timedelta(milliseconds=number)  # noqa: E731
    watermarks = WatermarkStrategy.bounded_out_of_orderness(ms(rules.bound)).with_interval(ms(rules.tick))
    if rules.idle_timeout is not None:
        watermarks = watermarks.with_idleness(ms(rules.idle_timeout))
    if (carried := rules.carried) is not None:
        watermarks = replace(
            watermarks,
            kind="punctuated",
            out_of_orderness_ms=0,
            watermark_of=lambda element, timestamp: carried(element._asdict(), timestamp),
        )
    return Pipeline(
        name="random",
        source=DeltaSource(
            "events",
            event_time="event_time",
            arrival_time="arrival_time",
            source_partition="source",
            order_by="row",
        ),
        watermarks=watermarks,
        allowed_lateness=ms(rules.allowed_lateness),
        max_ahead=ms(rules.max_ahead),
        max_behind=None if rules.max_behind is None else ms(rules.max_behind),
        start=to_datetime(rules.start),
        **{"key_by": "key", **declarations},
    )


def union_of(pipeline: Pipeline, count: int) -> Pipeline:
    """The pipeline over the same events, of which every `count`-th stands in the same one of `count` sources,
    whose columns are called differently; see `own_columns`.
    """
    sources = []
    for number in range(count):
        order = "row" if number == 0 else f"rank_{number}"
        sources.append(
            DeltaSource(
                f"events_{number}",
                event_time=_own("event_time", number),
                arrival_time=_own("arrival_time", number),
                source_partition=None if number == 2 else "source",
                order_by=order,
                rename={} if number == 0 else {_own(name, number): name for name in ("key", "x", "y")},
                lacks=("amount",) if number == 1 else (),
            )
        )
    sources[2:3] = [replace(source, rename={**source.rename, "source": "part"}) for source in sources[2:3]]
    return replace(pipeline, source=sources)


def _own(name: str, number: int) -> str:
    return name if number == 0 else f"{name}_{number}"


def own_columns(rows: pa.Table, number: int) -> pa.Table:
    """Rows of these events as source `number` of several has them: others than the first call some columns
    otherwise, have wider or narrower types, and an order column of another type.
    """
    if number == 0:
        return rows
    names = {name: _own(name, number) for name in ("event_time", "arrival_time", "key", "x", "y")}
    table = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    if number == 1:
        ranks = rows.column("row").cast(pa.float64())
        table = table.drop_columns(["amount"])
        place = table.column_names.index("x_1")
        table = table.set_column(place, "x_1", table.column("x_1").cast(pa.int64()))
    else:
        ranks = pa.array([f"{row:06d}" for row in rows.column("row").to_pylist()], pa.string())
    return table.append_column(f"rank_{number}", ranks)


def events_of_union(events: Sequence[model.Event], count: int) -> list[model.Event]:
    """The events as the model takes them: source partitions are told apart by source, and of equal arrivals
    the source that stands first in the list comes first.
    """
    return [
        event._replace(
            source=f"events_{number % count}" + ("" if number % count == 2 else f"/{event.source or ''}"),
            order=(event.arrival or 0, (number % count, event.order)),
        )
        for number, event in enumerate(events)
    ]


@dataclass
class Replayed:
    """What all slices left together; rows as plain dicts, times in milliseconds. `hashes` are those of output
    and state, slice by slice, `panes_of_slices` and `windows_of_slices` the panes and the parked windows,
    `checks` those of the expectations of the panes.
    """

    panes: list[dict] = field(default_factory=list)
    sides: dict[str, list[dict]] = field(default_factory=dict)
    late: list[dict] = field(default_factory=list)
    quarantined: list[dict] = field(default_factory=list)
    windows: list[dict] = field(default_factory=list)
    keyed: list[dict] = field(default_factory=list)
    timers: list[dict] = field(default_factory=list)
    progress: list[dict] = field(default_factory=list)
    state_hash: str = ""
    hashes: list[tuple[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    panes_of_slices: list[list[dict]] = field(default_factory=list)
    windows_of_slices: list[list[dict]] = field(default_factory=list)
    checks: list[list[Check]] = field(default_factory=list)


def replay_slices(
    events: Sequence[model.Event],
    rules: model.Replay,
    cuts: Sequence[int],
    ranges: Sequence[int],
    purging: bool = False,
    file_rows: int = 1000,
    appears: Sequence[int] | None = None,
    latenesses: Sequence[int] | None = None,
) -> Replayed:
    """Replay [rules.start, rules.to) cut at `cuts`, slice i with ranges[i % n] key-group ranges.

    From `file_rows` rows on, a task writes its rows of a table as a file of its own. `appears[j]` is the
    slice whose run is the first to find event j in the source; by default all are there from the start.
    `latenesses[i]` is declared for slice i instead of the rules'.
    """
    return replay_pipeline(
        pipeline_of(rules, purging), events, rules, cuts, ranges, file_rows, appears, latenesses
    )


def replay_pipeline(
    pipeline: Pipeline,
    events: Sequence[model.Event],
    rules: model.Replay,
    cuts: Sequence[int],
    ranges: Sequence[int],
    file_rows: int = 1000,
    appears: Sequence[int] | None = None,
    latenesses: Sequence[int] | None = None,
    engines: Sequence[Engine] = (OperatorEngine(),),
    state_memory: Sequence[int] = (1024,),
    *,
    settings: Sequence[Mapping[str, Any]] | None = None,
    closes: bool = False,
    transport: Transport | None = None,
    order_mode: OrderMode = OrderMode.ROCKSDB,
    stored_as: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> Replayed:
    """As `replay_slices`, for any pipeline over these events; the rules say only where the range begins and
    ends. For slice i the declarations settings[i] stand instead of the pipeline's; a `select` there has some
    of the pipeline's results, and the tables have columns for all of them.
    Slice i runs in engines[i % n]; from state_memory[i % n] megabytes on, its state is in RocksDB. With
    `closes` the final watermark comes behind the last one. Tasks run on `transport`, by default in this
    process. The source of a pipeline with one source stores the rows as `stored_as` makes them.
    """
    with tempfile.TemporaryDirectory() as folder:
        replaying = _Replaying(
            pipeline, events, rules, file_rows, appears or [0] * len(events), Path(folder), stored_as
        )
        if latenesses is not None:
            settings = [{"allowed_lateness": timedelta(milliseconds=lateness)} for lateness in latenesses]
        replaying.settings, replaying.state_memory, replaying.closes = settings, state_memory, closes
        replaying.transport = transport or InProcess()
        replaying.order_mode = order_mode
        return replaying.run([rules.start, *cuts, rules.to], ranges, engines)


class _Replaying:
    def __init__(
        self,
        pipeline: Pipeline,
        events: Sequence[model.Event],
        rules: model.Replay,
        file_rows: int,
        appears: Sequence[int],
        folder: Path,
        stored_as: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    ) -> None:
        self.folder = folder
        self.file_rows = file_rows
        self.pipeline = pipeline
        self.settings: Sequence[Mapping[str, Any]] | None = None
        self.state_memory: Sequence[int] = (1024,)
        self.closes = False
        self.transport: Transport = InProcess()
        self.order_mode = OrderMode.ROCKSDB
        self.start = rules.start
        self.files: list[tuple[int, InputFile]] = []
        count = len(pipeline.sources)
        pinned = []
        for source, declaration in enumerate(pipeline.sources):
            place = folder / declaration.table
            place.mkdir()
            for since in sorted(set(appears)):
                for half in (0, 1):
                    rows = [
                        _row(event)
                        for number, event in enumerate(events)
                        if appears[number] == since and number % 2 == half and number % count == source
                    ]
                    path = f"since-{since}-{half}.parquet"
                    table = pa.Table.from_pylist(rows, schema=SCHEMA)
                    table = stored_as(table) if count == 1 else own_columns(table, source)
                    pq.write_table(table, place / path)
                    file = InputFile(path, (), table.num_rows, 1, True, source=source)
                    self.files.append((since, file))
            no_rows = SCHEMA.empty_table()
            schema = stored_as(no_rows).schema if count == 1 else own_columns(no_rows, source).schema
            schema = schema_with_computed_columns(declaration, schema)
            pinned.append(PinnedSource(str(place), source, schema, None))
        self.sources = PinnedSources.of(pipeline, pinned)
        self.shape = shape_of(self.pipeline, self.sources.schema)
        self.schemas = table_schemas(self.shape)
        self.folders = {name: str(folder / name) for name in self.schemas}

    def run(self, bounds: Sequence[int], ranges: Sequence[int], engines: Sequence[Engine]) -> Replayed:
        result = Replayed()
        progress, state = Progress.none(), {}
        slices = [*itertools.pairwise(bounds), *([(bounds[-1], bounds[-1])] if self.closes else [])]
        for number, (from_ms, to_ms) in enumerate(slices):
            is_close = from_ms == to_ms
            files = tuple(
                replace(file, may_hold_unread=first == number)
                for first, file in self.files
                if first <= number and not is_close
            )
            first, *others = (
                SliceScan(
                    pinned,
                    tuple(file for file in files if file.source == source),
                    tuple(self.sources.schema.names),
                    self.pipeline.roles.arrival_time,
                    from_ms,
                    to_ms,
                    self.start,
                    naming=self.sources.namings[source],
                )
                for source, pinned in enumerate(self.sources.each)
            )
            scan = replace(first, others=tuple(others))
            pipeline, before = self._declared(number), self._declared(max(number - 1, 0))
            if self.settings is not None:
                progress = replace(progress, collected_mark=progress.mark(before.allowed_lateness_ms))
            judge = Judge.of(pipeline, scan)
            if is_close:
                timeline, progress = final_timeline(to_ms, progress)
            else:
                timeline, progress = timeline_of_slice(self.transport, scan, judge, progress)
            progress = Progress.from_table(progress.to_table("r"))
            parallelism = ranges[number % len(ranges)]
            run_id = f"r{number}"
            shape = self._shape(pipeline)
            replay = Replay(
                pipeline, shape, scan, timeline, state, self.folders, run_id, parallelism, self.file_rows
            )
            replay = replace(
                replay,
                state_memory_mb=self.state_memory[number % len(self.state_memory)],
                added_results=frozenset(pipeline.select) - frozenset(before.select),
                expectations=pipeline.pane_expectations,
                order_mode=self.order_mode,
            )
            outcome = engines[number % len(engines)].replay(replay, self.transport)
            state = {
                name: self._park(name, number, outcome) for name in ("window_state", "keyed_state", "timers")
            }
            self._note(result, outcome)
        table = progress.to_table("r")
        outcome.state_hash.add("source_progress", table, without=("run_id",))
        result.state_hash = str(outcome.state_hash)
        result.progress = _plain(table)
        result.windows = _plain(self._stacked("window_state", outcome))
        result.keyed = _plain(self._stacked("keyed_state", outcome))
        result.timers = _plain(self._stacked("timers", outcome))
        return result

    def _declared(self, number: int) -> Pipeline:
        """The pipeline as slice `number` finds it declared."""
        return self.pipeline if self.settings is None else replace(self.pipeline, **self.settings[number])

    def _shape(self, pipeline: Pipeline) -> Shape:
        """The pipeline's, in tables that have columns for all results."""
        if list(pipeline.select) == list(self.pipeline.select):
            return self.shape
        stored = table_columns(self.shape)
        return replace(
            shape_of(pipeline, SCHEMA),
            stored=tuple((name, stored[name]) for name in ("panes", "window_state")),
        )

    def _stacked(self, name: str, outcome: Outcome) -> pa.Table:
        written = [pq.read_table(f"{self.folders[name]}/{file.path}") for file in outcome.files.get(name, [])]
        return stack([*outcome.rows.get(name, []), *written], self.schemas[name], "r")

    def _park(self, name: str, number: int, outcome: Outcome) -> tuple[str, ...]:
        """The files of the snapshot: those that tasks have written, and one of the rows that came back."""
        rows = stack(outcome.rows.get(name, []), self.schemas[name], "r").drop_columns(["run_id"])
        written = [file.path for file in outcome.files.get(name, [])]
        return (write_file(self.folders[name], f"{number}.parquet", rows, {}).path, *written)

    def _note(self, result: Replayed, outcome: Outcome) -> None:
        if self.pipeline.window is not None:
            balance = check_assignments(outcome.counts, outcome.assignments)
            assert balance.passed, balance.observed
        expectations = self.pipeline.pane_expectations
        result.checks.append(check_panes(expectations, self.schemas["panes"], outcome.pane_metrics))
        result.panes_of_slices.append(_plain(self._stacked("panes", outcome)))
        result.windows_of_slices.append(_plain(self._stacked("window_state", outcome)))
        result.panes += result.panes_of_slices[-1]
        for name in ("late_events", "quarantine"):
            assert self.file_rows > 1 or not outcome.rows.get(name), (
                "rows that are many do not come to the driver"
            )
        result.late += _plain(self._stacked("late_events", outcome))
        for tag in self.pipeline.side_columns:
            result.sides.setdefault(tag, []).extend(_plain(self._stacked(side_table(tag), outcome)))
        result.hashes.append((str(outcome.output_hash), str(outcome.state_hash)))
        result.quarantined += _plain(self._stacked("quarantine", outcome))
        for name, value in outcome.counts.items():
            result.counts[name] = (
                value if name in ("windows_open", "timers_pending") else result.counts.get(name, 0) + value
            )


def _row(event: model.Event) -> dict:
    return {
        "event_time": None if event.event_time is None else to_datetime(event.event_time),
        "arrival_time": None if event.arrival is None else to_datetime(event.arrival),
        "source": event.source,
        "row": event.order,
        "key": event.key,
        **event.values,
    }


def _plain(table: pa.Table) -> list[dict]:
    return [_milliseconds(row) for row in table.to_pylist()]


def _milliseconds(value):
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, dict):
        return {name: _milliseconds(item) for name, item in value.items()}
    return [_milliseconds(item) for item in value] if isinstance(value, list) else value
