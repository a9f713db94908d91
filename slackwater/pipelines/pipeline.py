"""A pipeline: source, watermarks, key, window, aggregates, expectations and how it is scheduled.

A frozen declaration that knows no engine and no table. All checks that need no source run when it is made.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, Literal

from slackwater.pipelines import declaration_checks as checks
from slackwater.pipelines.aggregates import SETTINGS_LEFT_OUT, Aggregate
from slackwater.pipelines.canonical import OpaqueValue, plain_value
from slackwater.pipelines.columns import TypedColumn, parse_columns
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expectations import Expectation, InputExpectation
from slackwater.pipelines.expressions import Expression, parse_condition, parse_derivations
from slackwater.pipelines.health import Health
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments
from slackwater.pipelines.process_functions import check_key_of_function, check_keyed_process
from slackwater.pipelines.sinks import Sink, check_sinks
from slackwater.pipelines.sources import Roles, Source, check_sources, roles_of
from slackwater.pipelines.suites import Suite
from slackwater.pipelines.window_columns import declared_columns, names_taken, own_window_class_of
from slackwater.pipelines.windows import ProcessFunction, parts_of_count_windows, window_config
from slackwater.windowing import (
    AggregateFunction,
    CountWindows,
    Evictor,
    KeyedProcessFunction,
    ReduceFunction,
    Trigger,
    WatermarkStrategy,
    WindowAssigner,
)
from slackwater.windowing.calendars import zone_named
from slackwater.windowing.errors import WindowingError
from slackwater.windowing.key_types import STRING
from slackwater.windowing.times import duration_ms, to_ms


@refuse_unknown_arguments
@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Windows over a source, replayed slice after slice into a published table. Arguments are keyword-only;
    durations are timedeltas.

    Args:
        name: ``[a-z][a-z0-9_]{0,62}``, not ``sources``: the folder of its tables in the warehouse.
        source: where the rows come from: a source, or a list of several whose rows are read as one stream.
            Rows of several sources have three columns more: ``source`` names theirs, ``source_partition``
            tells their source partitions apart, ``source_order`` orders rows of equal arrival.
        watermarks: how far event time has come; see `WatermarkStrategy`.
        key_by: one column or several, or a mapping from names of keys to expressions, which are derived; None
            for windows of all rows, which have no key column.
        window: an assigner; none for a `KeyedProcessFunction`. Its windows may be of a class of your own, a
            named tuple with ``columns``, which every table then has beside window_start and window_end.
        derive: column → expression on the source's columns, ``{"day_part": "hour(event_time) / 6"}``, that
            may read columns derived before it; what is declared with columns may name it like one of the
            source's. A row on which it fails goes to quarantine.
        where: a condition on the source's columns, ``dep_delay > 15 AND carrier LIKE 'A%'``; other rows
            are not part of the pipeline: they are counted, and touch nothing else, no watermark either.
        distinct_by: one column or several that tell the rows of a key apart. Of rows with equal values only
            the first in processing order counts; it is remembered until the watermark is past its event time
            by the watermarks' bound and the allowed lateness. The others are counted as duplicates; they move
            the watermark, and touch nothing else. A row with a null in one of the columns is no duplicate.
        trigger: instead of the assigner's default trigger.
        evictor: thins out a window's elements at each firing; all of them are kept until then.
        allowed_lateness: how long after its end a window still accepts elements.
        select: result column → aggregate; or, instead of it, functions of your own: `process`, `reduce`,
            `aggregate`.
        results: published column → expression on the results of a firing, its key and its window's bounds,
            ``{"share": "delayed / flights"}``, that may read columns of `results` declared before it; null
            where it fails. Here ``/`` of two whole numbers is a fraction, and ``//`` a whole number. Nothing
            parked depends on it, so it may change at any time: rows published before get it by ``slackwater
            publish NAME --results``.
        hidden: results that are not published: helpers of `results` and `having`. `panes` have them.
        having: a condition on the same columns, ``flights >= 5``. A window that doesn't meet it is not
            published; it is published when late rows lift it over, and withdrawn the other way round.
        process: a `KeyedProcessFunction` with state and timers of its own, instead of a window; its attribute
            `states` may hold the descriptors of its states: one with a SQL type has a column of
            `keyed_state`. Or a function of windows, a `ProcessWindowFunction` or `WindowFunction`, of all
            elements of a window, or of the one value that `reduce` or `aggregate` folds them into. Windows of
            all rows have a `ProcessAllWindowFunction` or an `AllWindowFunction`, which get no key. Or a
            `vectorized` function of many windows at once.
        reduce: a `ReduceFunction`, or a callable of two values, that folds a window's elements as they come.
        aggregate: an `AggregateFunction` that does the same with an accumulator.
        output: columns of the rows that a function emits, ``origin string, n long``. A row is a tuple in this
            order, a dict or named tuple by these names, or the value of the only column. A column that is
            called as a key holds the key.
        side_outputs: tag → columns of the rows that a function sends there, to the table ``side_<tag>``.
        columns: the source columns that your functions are handed, as a named tuple for each element; unless
            given, all columns of the source.
        records: classes of named tuples that state may hold beside plain values.
        pickled_state: whether values of other classes may be kept, as pickles. A pickle is code: whoever
            writes the tables may run some.
        on_error: what happens when a function of yours raises on an element: ``fail`` (the run fails), or
            ``quarantine`` (all changes by the element are undone, and its row goes to quarantine). An error
            at a firing, merge or timer always fails the run.
        expect: what the input and the panes of a run must look like, and suites of Great Expectations that
            validate the rows that it would publish.
        start: where the lineage begins (arrival time; a naive value is of `timezone`).
        timezone: the time zone of the schedule and of slices of whole days: where its clocks change, a day
            has 23 or 25 hours. Results depend on it no more than on other cuts.
        schedule: cron expression or preset of the scheduled DAG; None for no schedule.
        slice: length of one run when a catch-up spans several.
        max_catch_up: a catch-up of more slices is refused unless asked for.
        max_ahead: a row whose event time lies further than this after its arrival goes to quarantine.
        max_behind: a row whose event time lies further than this before its arrival goes to quarantine; None
            for no bound. As with `max_ahead`, the row's own arrival counts, also where it is redriven or was
            not seen in the slice of its arrival; the watermark plays no part.
        settle: how long after a slice's end (wall clock) its source version may be pinned.
        stragglers: what happens to rows that appear in the source after the slice of their arrival was run:
            ``fold`` (the next run processes them first, as if they had arrived at its slice's start) or
            ``restate`` (no run processes them; runs and `plan` name the range to restate).
        late_refires: which firings for late elements are kept as panes: each (``element``, as Flink emits
            them), or only the last one of a window in each tick (``tick``) or in each run (``run``). The
            published rows are the same.
        keep_snapshots: how many of the newest snapshots `slackwater maintain` keeps; older ones can't be
            forked from, restored or verified.
        keep_snapshot_every: of older snapshots it keeps the last one in each period of this length.
        keep_history: how long before the newest run's end `slackwater maintain` keeps late rows, and the
            panes and corrections of windows that no longer accept elements; None for ever. Rows that arrived
            before that can be neither restated nor restored afterwards.
        flink_exact: lose a merged session, as Flink 2.3.0 does, when the window of a new element has exactly
            its bounds.
        approve_warnings: the DAG waits for a human when an expectation of severity ``warn`` fails.
        sinks: further targets of the published results: `SqlSink`, `RedisSink`, `ChangeFeedSink`,
            `FunctionSink` or a `Sink` of your own. They do not affect results, so they may change at any run.
        on: where slices are replayed: by Spark's tasks (``spark``), on this machine without Spark (``here``),
            or as their size says (``auto``). It does not affect results.
        health: the thresholds at which `slackwater health` calls the pipeline yellow or red, see `Health`.
            They do not affect results.
        max_parallelism: number of key groups, as in Flink; fixed for the life of the state.

    Raises:
        PipelineError: a declaration can't be run; the message names it and the rule.
    """

    name: str
    source: Source | Sequence[Source]
    watermarks: WatermarkStrategy
    key_by: str | Sequence[str] | Mapping[str, str] | None
    start: str | date | datetime
    window: WindowAssigner | None = None
    select: Mapping[str, Aggregate] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    having: str | None = None
    process: ProcessFunction | None = None
    reduce: ReduceFunction | Callable[[Any, Any], Any] | None = None
    aggregate: AggregateFunction | None = None
    output: str | None = None
    side_outputs: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    records: Sequence[type] = ()
    pickled_state: bool = False
    derive: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    distinct_by: str | Sequence[str] | None = None
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness: timedelta = timedelta(0)
    on_error: Literal["fail", "quarantine"] = "fail"
    expect: Sequence[Expectation | InputExpectation | Suite] = ()
    timezone: str = "UTC"
    schedule: str | None = "@daily"
    slice: timedelta = timedelta(days=1)
    max_catch_up: int = 40
    max_ahead: timedelta = timedelta(days=1)
    max_behind: timedelta | None = None
    settle: timedelta = timedelta(minutes=10)
    stragglers: Literal["fold", "restate"] = "fold"
    late_refires: Literal["element", "tick", "run"] = "element"
    keep_snapshots: int = 30
    keep_snapshot_every: timedelta = timedelta(days=30)
    keep_history: timedelta | None = None
    flink_exact: bool = False
    approve_warnings: bool = False
    sinks: Sequence[Sink] = ()
    on: Literal["auto", "here", "spark"] = "auto"
    health: Health = field(default_factory=Health)
    max_parallelism: int = 128
    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)
    derivations: tuple[tuple[str, Expression], ...] = field(init=False, repr=False, compare=False)
    condition: Expression | None = field(init=False, repr=False, compare=False)
    computed_results: tuple[tuple[str, Expression], ...] = field(init=False, repr=False, compare=False)
    publishing_condition: Expression | None = field(init=False, repr=False, compare=False)
    output_columns: tuple[TypedColumn, ...] = field(init=False, repr=False, compare=False)
    side_columns: Mapping[str, tuple[TypedColumn, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.check_name(self.name)
        checks.check_types(self._subject, vars(self))
        checks.check_choices(self._subject, vars(self))
        set_ = object.__setattr__
        check_sources(self._subject, self.sources)
        set_(self, "source", self.sources[0] if len(self.sources) == 1 else self.sources)
        self._set_keys()
        set_(self, "select", dict(self.select))
        set_(self, "expect", tuple(self.expect))
        set_(self, "records", tuple(self.records))
        set_(self, "sinks", tuple(self.sinks))
        if isinstance(self.window, CountWindows):
            has_own_parts = self.trigger is not None or self.evictor is not None
            for name, part in parts_of_count_windows(self._subject, self.window, has_own_parts).items():
                set_(self, name, part)
        set_(self, "columns", checks.checked_element_columns(self._subject, self.columns))
        set_(self, "derive", dict(self.derive))
        set_(self, "derivations", parse_derivations(self._subject, self.derive, self.roles.columns))
        set_(self, "distinct_by", checks.checked_distinct_columns(self._subject, self.distinct_by))
        condition = None if self.where is None else parse_condition(self._subject, self.where)
        set_(self, "condition", condition)
        self._set_what_is_published()
        zone = checks.check_timezone(self._subject, self.timezone)
        start = checks.start_in_utc(self._subject, self.start, zone)
        set_(self, "start", start)
        checks.check_schedule(self._subject, self.schedule, zone, start)
        checks.check_durations(self._subject, vars(self))
        checks.check_counts(self._subject, vars(self))
        checks.check_forgetting(self._subject, vars(self))
        checks.check_functions(self._subject, vars(self))
        checks.check_side_outputs_and_records(self._subject, vars(self))
        self._check_windows()
        output = () if self.output is None else parse_columns(self._subject, "output", self.output)
        set_(self, "output_columns", output)
        side_columns = {
            tag: parse_columns(self._subject, f"side output {tag!r}", text)
            for tag, text in self.side_outputs.items()
        }
        set_(self, "side_columns", side_columns)
        self._check_columns()
        check_sinks(self._subject, self.sinks)
        try:
            self.describe()
        except OpaqueValue as error:
            raise PipelineError(
                self._subject, f"{error}: a change of it could not be noticed between two runs"
            ) from error

    def _set_keys(self) -> None:
        """Keys by expressions are derived columns."""
        set_ = object.__setattr__
        if isinstance(self.key_by, Mapping):
            derived_keys = {name: text for name, text in self.key_by.items() if name != text}
            set_(self, "derive", {**derived_keys, **self.derive})
            set_(self, "key_by", tuple(self.key_by))
        set_(self, "keys", (self.key_by,) if isinstance(self.key_by, str) else tuple(self.key_by or ()))
        set_(
            self, "key_by", self.key_by if self.key_by is None or isinstance(self.key_by, str) else self.keys
        )

    def _set_what_is_published(self) -> None:
        """Read `results`, `hidden` and `having`. Over results `/` makes fractions."""
        set_ = object.__setattr__
        set_(self, "results", dict(self.results))
        set_(self, "hidden", checks.checked_hidden_columns(self._subject, self.hidden))
        expressions = parse_derivations(self._subject, self.results, (), "results")
        computed_results = tuple((name, replace(item, makes_fractions=True)) for name, item in expressions)
        set_(self, "computed_results", computed_results)
        having = None if self.having is None else parse_condition(self._subject, self.having, "having")
        having = None if having is None else replace(having, makes_fractions=True)
        set_(self, "publishing_condition", having)

    @property
    def _subject(self) -> str:
        return f"Pipeline {self.name!r}"

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source,) if isinstance(self.source, Source) else tuple(self.source)

    @property
    def roles(self) -> Roles:
        """The columns that have a role in the pipeline's rows."""
        return roles_of(self.sources)

    @property
    def zone(self) -> tzinfo:
        return zone_named(self.timezone)

    @property
    def start_ms(self) -> int:
        """Where the lineage begins, in milliseconds of UTC."""
        assert isinstance(self.start, datetime)
        return to_ms(self.start)

    @property
    def window_ms(self) -> int:
        """The length of a window, of sessions the least one; 0 where windows have no length."""
        return max((getattr(self.window, name, 0) for name in ("size_ms", "gap_ms", "longest_ms")), default=0)

    @property
    def allowed_lateness_ms(self) -> int:
        return duration_ms(self.allowed_lateness)

    @property
    def max_ahead_ms(self) -> int:
        return duration_ms(self.max_ahead)

    @property
    def max_behind_ms(self) -> int | None:
        return None if self.max_behind is None else duration_ms(self.max_behind)

    @property
    def distinct_columns(self) -> tuple[str, ...]:
        return () if self.distinct_by is None else tuple(self.distinct_by)

    @property
    def pane_expectations(self) -> tuple[Expectation, ...]:
        return tuple(item for item in self.expect if isinstance(item, Expectation))

    @property
    def input_expectations(self) -> tuple[InputExpectation, ...]:
        return tuple(item for item in self.expect if isinstance(item, InputExpectation))

    @property
    def suites(self) -> tuple[Suite, ...]:
        return tuple(item for item in self.expect if isinstance(item, Suite))

    @property
    def keyed_process(self) -> KeyedProcessFunction | None:
        """The function that runs instead of windows, if there is one."""
        return self.process if isinstance(self.process, KeyedProcessFunction) else None

    @property
    def windows(self) -> WindowAssigner:
        """The assigner of a pipeline that has windows."""
        assert self.window is not None, "a KeyedProcessFunction has no windows"
        return self.window

    @property
    def effective_trigger(self) -> Trigger:
        """The trigger in force where there are windows: the pipeline's own, or the assigner's default."""
        return self.trigger if self.trigger is not None else self.windows.get_default_trigger()

    @property
    def pane_results(self) -> tuple[str, ...]:
        """The results of a firing, as `panes` have them."""
        return (*self.select, *(name for name, _ in self.output_columns if name not in self.keys))

    @property
    def published_results(self) -> tuple[str, ...]:
        return (*(name for name in self.pane_results if name not in self.hidden), *self.results)

    @property
    def purges(self) -> bool:
        """Whether a firing empties its window, so that no firing replaces the one before it."""
        return self.window is not None and bool(getattr(self.effective_trigger, "purges", False))

    def describe(self) -> dict[str, Any]:
        """The declarations as plain JSON values, in the canonical form that the config hash is computed
        from. Sinks, `on` and health are left out, because they do not affect results.
        """
        declarations = {
            f.name: plain_value(getattr(self, f.name))
            for f in fields(self)
            if f.init and f.name not in ("sinks", "on", "health")
        }
        declarations["order_mode"] = "rocksdb"  # belongs to the hash; see `slackwater.windowing.order_modes`
        # Lineages from before there were such settings keep their hash.
        for name in ("keep_history", "distinct_by", "max_behind"):
            if declarations[name] is None:
                del declarations[name]
        for name in ("derive", "results", "hidden", "having"):
            if not declarations[name]:
                del declarations[name]
        for aggregate in declarations["select"].values():
            for name in SETTINGS_LEFT_OUT:
                if aggregate[name] is None:
                    del aggregate[name]
        if self.timezone == "UTC":
            del declarations["timezone"]
        window_class = own_window_class_of(self)
        if window_class is not None:
            declarations["window_columns"] = window_class.description
        sources = [source.describe() for source in self.sources]
        source = sources[0] if len(sources) == 1 else sources
        key_by = None if self.key_by is None else list(self.keys)
        return {**declarations, "source": source, "key_by": key_by}

    def _check_windows(self) -> None:
        """The parts of a window operator go together; a KeyedProcessFunction has none of them."""
        check_key_of_function(self._subject, self.process, is_keyed=self.key_by is not None)
        if self.keyed_process is not None:
            check_keyed_process(self._subject, vars(self), self.keyed_process)
            return
        if self.window is None:
            raise PipelineError(
                self._subject, "window is missing; give an assigner, or a KeyedProcessFunction as process"
            )
        if self.keep_history is not None and not self.window.is_event_time:
            raise PipelineError(
                self._subject,
                "keep_history is for windows of event time: no others are ever known to be final",
            )
        if self.late_refires != "element" and self.purges:
            raise PipelineError(
                self._subject,
                f"late_refires is {self.late_refires!r}, but with a purging trigger every firing is a result "
                "of its own; leave it out",
            )
        try:
            own_window_class_of(self)
            window_config(self, STRING, AggregateFunction())
        except WindowingError as error:
            raise PipelineError(self._subject, str(error)) from error

    def _check_columns(self) -> None:
        """Our tables can use the names of keys, results and side outputs; expectations name some."""
        if (
            (not self.keys and self.key_by is not None)
            or not all(isinstance(key, str) for key in self.keys)
            or len(set(self.keys)) != len(self.keys)
        ):
            raise PipelineError(
                self._subject,
                f"key_by is {self.key_by!r}; it is one column or several different ones, or None",
            )
        checks.check_aggregates(self._subject, self.select)
        if self.output is not None and not self.pane_results:
            raise PipelineError(
                self._subject, f"output {self.output!r} has keys alone; name at least one result"
            )
        checks.check_keys(self._subject, self.keys)
        windows = declared_columns(self)
        taken_names = [*self.keys, *windows, *names_taken(self)]
        checks.check_column_names(self._subject, [*taken_names, *self.pane_results, *self.results])
        checks.check_hidden_columns(self._subject, self.hidden, self.pane_results, self.published_results)
        for columns in self.side_columns.values():
            names = [name for name, _ in columns if name not in self.keys]
            checks.check_column_names(self._subject, [*taken_names, *names])
        self._check_expectations({*self.keys, *windows, *self.pane_results, *self.results})

    def _check_expectations(self, pane_columns: Set[str]) -> None:
        has_late_rows = self.window is not None and self.window.is_event_time
        for expectation in self.expect:
            if isinstance(expectation, InputExpectation):
                checks.check_input_expectation(self._subject, expectation, has_late_rows=has_late_rows)
            elif isinstance(expectation, Expectation):
                if expectation.column not in pane_columns:
                    raise PipelineError(
                        self._subject,
                        f"expectation on {expectation.column!r}, but the panes have {sorted(pane_columns)}",
                    )
            elif not isinstance(expectation, Suite):
                raise PipelineError(
                    self._subject,
                    f"expect has {expectation!r}; it is a list of expect.between(...) and the like",
                )
