"""A pipeline: source, watermarks, key, window, aggregates, expectations and how it is scheduled.

A frozen declaration. It knows no engine and no table; what can be checked without the source is checked when it is made.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from jobs.pipelines.aggregates import Aggregate
from jobs.pipelines.canonical import Opaque, plain
from jobs.pipelines.errors import PipelineError
from jobs.pipelines.expectations import Expectation
from jobs.pipelines.sources import DeltaSource
from windowing import Trigger, WatermarkStrategy, WindowAssigner

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Columns that our tables add beside a pipeline's own keys and results (the tables: jobs.tables.schemas).
# fmt: off
TABLE_COLUMNS = frozenset({
    "arrival_time", "at", "cause", "cause_arrival", "cleanup_time", "contents", "domain", "elements", "event_time", "firing",
    "firings", "first_arrival", "key_group", "kind", "last_arrival", "last_fired_at", "late_by_ms", "map_key", "namespace_end",
    "namespace_start", "new", "next_firing", "old", "op", "ordinal", "purpose", "revision", "run_id", "run_seq", "seq", "service",
    "state_name", "state_window_end", "state_window_start", "tick_end", "time", "timestamp", "trigger_state", "user_state",
    "value_json", "watermark", "window_date", "window_end", "window_start", "windows",
})
# fmt: on
# Beyond this a declared duration is a slip of the unit, and no time plus it could be stored.
_LONGEST = timedelta(days=366_000)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Windows over a source, replayed slice after slice into a published table. Arguments are keyword-only; durations are timedeltas.

    Args:
        name: ``[a-z][a-z0-9_]{0,62}``, not ``sources``: the folder of its tables in the warehouse.
        source: where the rows come from.
        watermarks: how far event time has come; see `WatermarkStrategy`.
        key_by: one column or several.
        window: an assigner of `windowing`.
        trigger: instead of the assigner's default trigger.
        allowed_lateness: how long after its end a window still accepts elements.
        select: result column → aggregate.
        expect: what the panes of a run must look like.
        start: where the lineage begins (arrival time; a naive value is UTC).
        schedule: cron expression or preset of the scheduled DAG; None for no schedule.
        slice: length of one run when a catch-up spans several.
        max_catch_up: a catch-up of more slices is refused unless asked for.
        max_ahead: an event time further than this after its arrival is not believed: the row goes to quarantine.
        settle: how long after a slice's end (wall clock) its source version may be pinned.
        order_mode: order of timers that are due together, see `windowing`.
        approve_warnings: the DAG waits for a human when an expectation of severity ``warn`` fails.
        max_parallelism: number of key groups, as in Flink; fixed for the life of the state.

    Raises:
        PipelineError: a declaration can't be run; the message names it and the rule.
    """

    name: str
    source: DeltaSource
    watermarks: WatermarkStrategy
    key_by: str | Sequence[str]
    window: WindowAssigner
    select: Mapping[str, Aggregate]
    start: str | date | datetime
    trigger: Trigger | None = None
    allowed_lateness: timedelta = timedelta(0)
    expect: Sequence[Expectation] = ()
    schedule: str | None = "@daily"
    slice: timedelta = timedelta(days=1)
    max_catch_up: int = 40
    max_ahead: timedelta = timedelta(days=1)
    settle: timedelta = timedelta(minutes=10)
    order_mode: Literal["rocksdb", "heap", "rocksdb_heap_timers"] = "rocksdb"
    approve_warnings: bool = False
    max_parallelism: int = 128
    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name) or self.name == "sources":
            raise PipelineError(f"Pipeline {self.name!r}", "a name is [a-z][a-z0-9_]{0,62} and not 'sources' (it becomes a folder)")
        self._check_types()
        set_ = object.__setattr__
        set_(self, "keys", (self.key_by,) if isinstance(self.key_by, str) else tuple(self.key_by))
        set_(self, "key_by", self.key_by if isinstance(self.key_by, str) else self.keys)
        set_(self, "select", dict(self.select))
        set_(self, "expect", tuple(self.expect))
        set_(self, "start", _utc(self._subject, self.start))
        self._check_durations()
        self._check_numbers()
        self._check_columns()
        try:
            self.describe()
        except Opaque as error:
            raise PipelineError(self._subject, f"{error}: a change of it could not be noticed between two runs") from error

    @property
    def _subject(self) -> str:
        return f"Pipeline {self.name!r}"

    @property
    def start_ms(self) -> int:
        """Where the lineage begins, in milliseconds of UTC."""
        assert isinstance(self.start, datetime)
        return milliseconds(self.start - datetime(1970, 1, 1, tzinfo=UTC))

    @property
    def allowed_lateness_ms(self) -> int:
        """Allowed lateness in milliseconds."""
        return milliseconds(self.allowed_lateness)

    @property
    def max_ahead_ms(self) -> int:
        """How far an event time may lie after its arrival, in milliseconds."""
        return milliseconds(self.max_ahead)

    @property
    def effective_trigger(self) -> Trigger:
        """The trigger in force: the pipeline's own, or the assigner's default."""
        return self.trigger if self.trigger is not None else self.window.get_default_trigger()

    @property
    def purges(self) -> bool:
        """Whether a firing empties its window, so that every firing is a result of its own instead of replacing the one before it."""
        return bool(getattr(self.effective_trigger, "purges", False))

    def describe(self) -> dict[str, Any]:
        """The declarations as plain JSON values, in a canonical form: what the config hash is taken of."""
        described = {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.init}
        return {**described, "key_by": list(self.keys)}

    def _check_types(self) -> None:
        expected = (
            ("source", DeltaSource, "a DeltaSource"),
            ("watermarks", WatermarkStrategy, "a WatermarkStrategy"),
            ("window", WindowAssigner, "a WindowAssigner"),
            ("trigger", Trigger | None, "a windowing Trigger"),
            ("key_by", Sequence, "one column or several different ones"),
            ("select", Mapping, "a mapping from result columns to aggregates"),
            ("expect", Sequence, "a list of expectations"),
            ("schedule", str | None, "a cron expression, a preset such as '@daily', or None"),
            ("approve_warnings", bool, "True or False"),
        )
        for name, kind, wanted in expected:
            if not isinstance(getattr(self, name), kind):
                raise PipelineError(self._subject, f"{name} is {getattr(self, name)!r}; it is {wanted}")
        if self.order_mode not in ("rocksdb", "heap", "rocksdb_heap_timers"):
            raise PipelineError(self._subject, f"order_mode is {self.order_mode!r}; it is 'rocksdb', 'heap' or 'rocksdb_heap_timers'")

    def _check_durations(self) -> None:
        for name, least in (("allowed_lateness", 0), ("slice", 1), ("max_ahead", 0), ("settle", 0)):
            value = getattr(self, name)
            if not isinstance(value, timedelta):
                raise PipelineError(self._subject, f"{name} is {value!r}; durations are datetime.timedelta, bare numbers have no unit")
            if value % timedelta(milliseconds=1):
                raise PipelineError(self._subject, f"{name} is {value}; durations are whole milliseconds")
            if milliseconds(value) < least:
                raise PipelineError(self._subject, f"{name} is {value}; it is at least {least} ms")
            if value > _LONGEST:
                raise PipelineError(self._subject, f"{name} is {value}; it is at most {_LONGEST.days:,} days")

    def _check_numbers(self) -> None:
        for name, most in (("max_parallelism", 32768), ("max_catch_up", 1_000_000)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise PipelineError(self._subject, f"{name} is {value!r}; it is 1 to {most}")

    def _check_columns(self) -> None:
        if not self.keys or not all(isinstance(key, str) for key in self.keys) or len(set(self.keys)) != len(self.keys):
            raise PipelineError(self._subject, f"key_by is {self.key_by!r}; it is one column or several different ones")
        if not self.select:
            raise PipelineError(self._subject, "select is empty; name at least one aggregate")
        for name, aggregate in self.select.items():
            if not isinstance(aggregate, Aggregate):
                raise PipelineError(self._subject, f"select[{name!r}] is {aggregate!r}; it is an aggregate such as count()")
        for name in (*self.keys, *self.select):
            if not isinstance(name, str) or not COLUMN.fullmatch(name) or "__" in name:
                raise PipelineError(self._subject, f"column {name!r} must be letters, digits and single underscores (double ones are ours)")
            if name.lower() in TABLE_COLUMNS:
                raise PipelineError(self._subject, f"column {name!r} is a column of our own tables; give it another name")
        lowered = [name.lower() for name in (*self.keys, *self.select)]
        if len(set(lowered)) != len(lowered):
            raise PipelineError(self._subject, "key and result columns must differ, also in lower case")
        known = {*self.keys, *self.select}
        for expectation in self.expect:
            if not isinstance(expectation, Expectation):
                raise PipelineError(self._subject, f"expect has {expectation!r}; it is a list of expect.between(...) and the like")
            if expectation.column not in known:
                raise PipelineError(self._subject, f"expectation on {expectation.column!r}, but the panes have {sorted(known)}")


def milliseconds(duration: timedelta) -> int:
    """A duration in whole milliseconds, rounded towards minus infinity."""
    return duration // timedelta(milliseconds=1)


def _utc(subject: str, value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PipelineError(subject, f"start is {value!r}; it is an ISO 8601 date or time, e.g. '2013-01-01'") from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the zone is set below
    if not isinstance(value, datetime):
        raise PipelineError(subject, f"start is {value!r}; it is a date, a datetime or ISO 8601 text")
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if value.microsecond % 1000:
        raise PipelineError(subject, f"start is {value.isoformat()}; slices begin and end at whole milliseconds")
    return value
