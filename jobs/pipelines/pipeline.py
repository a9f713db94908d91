"""A pipeline: source, watermarks, key, window, aggregates, expectations and how it is scheduled.

A frozen declaration. It knows no engine and no table; what can be checked without the source is checked when it is made.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from jobs.pipelines.aggregates import Aggregate
from jobs.pipelines.errors import PipelineError
from jobs.pipelines.expectations import Expectation
from jobs.pipelines.sources import DeltaSource
from windowing import Trigger, WatermarkStrategy, WindowAssigner

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Columns that our tables add beside a pipeline's own keys and results (design of the tables: jobs.tables.schemas).
TABLE_COLUMNS = frozenset(
    "run_id key_group window_start window_end state_window_start state_window_end elements firings last_fired_at next_firing cleanup_time "
    "first_arrival last_arrival contents trigger_state user_state state_name namespace_start namespace_end map_key service domain time "
    "purpose firing ordinal timestamp kind watermark tick_end cause_arrival windows late_by_ms revision run_seq window_date seq op cause "
    "old new at".split()
)


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
        keys = (self.key_by,) if isinstance(self.key_by, str) else tuple(self.key_by)
        set_ = object.__setattr__
        set_(self, "keys", keys)
        set_(self, "key_by", self.key_by if isinstance(self.key_by, str) else keys)
        set_(self, "select", dict(self.select))
        set_(self, "expect", tuple(self.expect))
        set_(self, "start", _utc(self._subject, self.start))
        self._check_types()
        self._check_durations()
        self._check_columns()
        if not 1 <= self.max_parallelism <= 32768:
            raise PipelineError(self._subject, f"max_parallelism is {self.max_parallelism}; it is 1 to 32768")
        if self.max_catch_up < 1:
            raise PipelineError(self._subject, f"max_catch_up is {self.max_catch_up}; it is at least 1")

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
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.init}

    def _check_types(self) -> None:
        for name, kind in (("source", DeltaSource), ("watermarks", WatermarkStrategy), ("window", WindowAssigner)):
            if not isinstance(getattr(self, name), kind):
                raise PipelineError(self._subject, f"{name} is {getattr(self, name)!r}; it is a {kind.__name__}")
        if self.trigger is not None and not isinstance(self.trigger, Trigger):
            raise PipelineError(self._subject, f"trigger is {self.trigger!r}; it is a windowing Trigger")
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

    def _check_columns(self) -> None:
        if not self.keys or len(set(self.keys)) != len(self.keys):
            raise PipelineError(self._subject, f"key_by is {self.key_by!r}; it is one column or several different ones")
        if not self.select:
            raise PipelineError(self._subject, "select is empty; name at least one aggregate")
        for name, aggregate in self.select.items():
            if not isinstance(aggregate, Aggregate):
                raise PipelineError(self._subject, f"select[{name!r}] is {aggregate!r}; it is an aggregate such as count()")
        for name in (*self.keys, *self.select):
            if not COLUMN.fullmatch(name) or "__" in name:
                raise PipelineError(self._subject, f"column {name!r} must be letters, digits and single underscores (double ones are ours)")
            if name.lower() in TABLE_COLUMNS:
                raise PipelineError(self._subject, f"column {name!r} is a column of our own tables; give it another name")
        lowered = [name.lower() for name in (*self.keys, *self.select)]
        if len(set(lowered)) != len(lowered):
            raise PipelineError(self._subject, "key and result columns must differ, also in lower case")
        known = {*self.keys, *self.select}
        for expectation in self.expect:
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
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _plain(value: Any) -> Any:
    """`value` as JSON: objects become their class name and attributes, durations milliseconds, times ISO text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, timedelta):
        return {"ms": milliseconds(value)}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **getattr(value, "__dict__", {})}
    return {"class": type(value).__qualname__, **{name: _plain(item) for name, item in sorted(attributes.items())}}
