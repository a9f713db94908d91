"""The checks of single declarations of a pipeline: names, types, choices, durations, counts and the names of
columns; and of functions, which go together. `Pipeline` checks what else does.

Each check raises PipelineError, which names `subject` and the rule. `declarations` are a pipeline's arguments
by name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from slackwater.errors import did_you_mean
from slackwater.pipelines.aggregates import Aggregate
from slackwater.pipelines.cron import PRESETS, Cron, NotACron
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expectations import InputExpectation
from slackwater.pipelines.health import Health
from slackwater.pipelines.sources import Source
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.pipelines.windows import ProcessFunction
from slackwater.stored_columns import RESERVED_NAMES
from slackwater.windowing import (
    AggregateFunction,
    Evictor,
    Trigger,
    WatermarkStrategy,
    WindowAssigner,
)
from slackwater.windowing.calendars import zone_named
from slackwater.windowing.durations import LONGEST
from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.times import MILLISECOND, duration_ms

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DAY = timedelta(days=1)

# Declaration, its type, and how an error describes it.
_TYPES = (
    ("source", Source | list | tuple, "a DeltaSource or ParquetSource, or a list of such"),
    ("watermarks", WatermarkStrategy, "a WatermarkStrategy"),
    ("window", WindowAssigner | None, "a WindowAssigner"),
    ("trigger", Trigger | None, "a windowing Trigger"),
    (
        "key_by",
        Sequence | Mapping | None,
        "one column, several different ones, a mapping from keys to expressions, or None for all rows",
    ),
    ("evictor", Evictor | None, "a windowing Evictor"),
    ("derive", Mapping, "a mapping from derived columns to expressions"),
    ("select", Mapping, "a mapping from result columns to aggregates"),
    ("results", Mapping, "a mapping from published columns to expressions"),
    ("hidden", Sequence, "a list of result columns"),
    (
        "process",
        ProcessFunction | None,
        "a KeyedProcessFunction, a ProcessWindowFunction or a WindowFunction; for windows of all rows a "
        "ProcessAllWindowFunction or an AllWindowFunction; or a vectorized function",
    ),
    ("aggregate", AggregateFunction | None, "an AggregateFunction"),
    ("side_outputs", Mapping, "a mapping from tags to columns such as 'n long'"),
    ("columns", Sequence | None, "a list of source columns"),
    ("records", Sequence, "a list of named tuple classes"),
    ("pickled_state", bool, "True or False"),
    ("flink_exact", bool, "True or False"),
    ("expect", Sequence, "a list of expectations"),
    ("schedule", str | None, "a cron expression, a preset such as '@daily', or None"),
    ("approve_warnings", bool, "True or False"),
    ("sinks", Sequence, "a list of sinks"),
    ("health", Health, "a Health(...) with its thresholds"),
)
_CHOICES = {
    "stragglers": ("fold", "restate"),
    "late_refires": ("element", "tick", "run"),
    "on_error": ("fail", "quarantine"),
    "on": ("auto", "here", "spark"),
}
# The strategies whose watermarks follow the event times at a bounded distance.
_BOUNDED_STRATEGIES = ("bounded_out_of_orderness", "monotonous")
# Each duration and its least value in milliseconds.
_DURATIONS = {
    "allowed_lateness": 0,
    "slice": 1,
    "max_ahead": 0,
    "max_behind": 0,
    "settle": 0,
    "keep_snapshot_every": 1,
    "keep_history": 1,
}
# The durations of windowing's own objects.
_PARTS = (
    "out_of_orderness_ms",
    "idle_timeout_ms",
    "interval_ms",
    "size_ms",
    "slide_ms",
    "gap_ms",
    "longest_ms",
    "timeout_ms",
)
_OPTIONAL_DURATIONS = {"max_behind", "keep_history"}
# Each count and its greatest value.
_COUNTS = {"max_parallelism": 32768, "max_catch_up": 1_000_000, "keep_snapshots": 1_000_000}


def check_name(name: object) -> None:
    """The name of a pipeline can be the name of its folder in the warehouse."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == "sources":
        raise PipelineError(
            f"Pipeline {name!r}",
            "a name is [a-z][a-z0-9_]{0,62} and not 'sources' (it becomes a folder)",
        )


def check_types(subject: str, declarations: Mapping[str, object]) -> None:
    for name, kind, description in _TYPES:
        if not isinstance(declarations[name], kind):
            raise PipelineError(subject, f"{name} is {declarations[name]!r}; it is {description}")


def check_choices(subject: str, declarations: Mapping[str, object]) -> None:
    for name, choices in _CHOICES.items():
        if declarations[name] not in choices:
            *others, last = map(repr, choices)
            raise PipelineError(
                subject, f"{name} is {declarations[name]!r}; it is {', '.join(others)} or {last}"
            )


def check_durations(subject: str, declarations: Mapping[str, object]) -> None:
    """Each duration is a timedelta of whole milliseconds, within its bounds; some may be None."""
    for name, least_ms in _DURATIONS.items():
        duration = declarations[name]
        if name in _OPTIONAL_DURATIONS and duration is None:
            continue
        if not isinstance(duration, timedelta):
            raise PipelineError(
                subject,
                f"{name} is {duration!r}; durations are datetime.timedelta, bare numbers have no unit",
            )
        if duration % MILLISECOND:
            raise PipelineError(subject, f"{name} is {duration}; durations are whole milliseconds")
        if duration_ms(duration) < least_ms:
            raise PipelineError(subject, f"{name} is {duration}; it is at least {least_ms} ms")
        if duration > LONGEST:
            raise PipelineError(subject, f"{name} is {duration}; it is at most {LONGEST.days:,} days")
    for name in ("watermarks", "window", "trigger", "evictor"):
        for part, length_ms in _lengths(declarations[name]):
            if length_ms > duration_ms(LONGEST):
                raise PipelineError(
                    subject,
                    f"the {part.removesuffix('_ms')} of {name} is {length_ms // duration_ms(_DAY):,} days; "
                    f"it is at most {LONGEST.days:,} days",
                )


def _lengths(part_of_windowing: object) -> Iterator[tuple[str, int]]:
    """(name, milliseconds) of each duration of a part of windowing, nested parts included."""
    for part in _PARTS:
        length_ms = getattr(part_of_windowing, part, None)
        if isinstance(length_ms, int):
            yield part, length_ms
    for value in getattr(part_of_windowing, "__dict__", {}).values():
        if isinstance(value, Trigger | WindowAssigner | Evictor):
            yield from _lengths(value)


def check_counts(subject: str, declarations: Mapping[str, object]) -> None:
    for name, greatest in _COUNTS.items():
        count = declarations[name]
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= greatest:
            raise PipelineError(subject, f"{name} is {count!r}; it is 1 to {greatest}")


def checked_element_columns(subject: str, columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that elements have for the user's functions; None for all of them."""
    if columns is None:
        return None
    if isinstance(columns, str) or not columns or not all(isinstance(name, str) for name in columns):
        raise PipelineError(subject, f"columns is {columns!r}; it is a list of source columns")
    return tuple(columns)


def checked_distinct_columns(subject: str, columns: object) -> tuple[str, ...] | None:
    """The columns of `distinct_by`, one column or several, as a tuple; None where there are none."""
    if columns is None:
        return None
    names = (columns,) if isinstance(columns, str) else columns
    if (
        not isinstance(names, Sequence)
        or not names
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) != len(names)
    ):
        raise PipelineError(
            subject, f"distinct_by is {columns!r}; it is one column of the source or several different ones"
        )
    return tuple(names)


def check_forgetting(subject: str, declarations: Mapping[str, object]) -> None:
    """`distinct_by` needs watermarks with a bound: it forgets rows as the watermark passes them."""
    watermarks = declarations["watermarks"]
    assert isinstance(watermarks, WatermarkStrategy)
    if declarations["distinct_by"] is not None and watermarks.kind not in _BOUNDED_STRATEGIES:
        raise PipelineError(
            subject,
            f"distinct_by remembers rows for the bound of the watermarks, and {watermarks.kind} watermarks "
            "have none; choose WatermarkStrategy.bounded_out_of_orderness(...)",
        )


def check_aggregates(subject: str, select: Mapping[str, object]) -> None:
    for name, aggregate in select.items():
        if isinstance(aggregate, Aggregate):
            continue
        way = "write an aggregate there"
        if isinstance(aggregate, str):
            way = f"write a formula of other results as results={{{name!r}: {aggregate!r}}}"
        raise PipelineError(
            subject,
            f"select[{name!r}] is {aggregate!r}, and select takes aggregates such as agg.count(); {way}",
        )


def check_keys(subject: str, keys: Sequence[str]) -> None:
    """Key columns have names that our tables can use; else the error says a declaration that works."""
    names = {name: _plain_name(name) for name in keys}
    derived_names = {name: plain for name, plain in names.items() if name and plain != name}
    if derived_names:
        first = next(iter(derived_names))
        key_by = {
            plain: '"' + name.replace('"', '""') + '"' if name in derived_names else name
            for name, plain in names.items()
        }
        field_declaration = f"key_by={dict(key_by, **{derived_names[first]: first})!r}"
        beginning = "Give"
        if _is_path(first):
            beginning = f"Is it a field of a struct, write {field_declaration}. Else give"
        raise PipelineError(
            subject,
            f"key_by has {first!r}; the name of a key is letters, digits and single underscores. "
            f"{beginning} the column such a name: key_by={key_by!r}",
        )


def _is_path(name: str) -> bool:
    """Whether a name may be that of a field, e.g. ``payload.user.id``."""
    return "." in name and all(COLUMN.fullmatch(part) for part in name.split("."))


def _plain_name(name: str) -> str:
    """The name itself if our tables can use it, else one like it that they can."""
    if COLUMN.fullmatch(name) and "__" not in name:
        return name
    plain_name = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return plain_name if COLUMN.fullmatch(plain_name) else f"key_{plain_name}".strip("_")


def check_column_names(subject: str, names: Sequence[str]) -> None:
    """One of our tables can have columns of all these names."""
    for name in names:
        if not isinstance(name, str) or not COLUMN.fullmatch(name) or "__" in name:
            raise PipelineError(
                subject,
                f"column {name!r} must be letters, digits and single underscores (double ones are ours)",
            )
        if name.lower() in RESERVED_NAMES:
            raise PipelineError(
                subject, f"column {name!r} is a column of our own tables; give it another name"
            )
    if len({name.lower() for name in names}) != len(names):
        raise PipelineError(subject, "columns of keys, windows and results must differ, also in lower case")


def checked_hidden_columns(subject: str, hidden: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of `hidden`, one or several, as a tuple."""
    names = (hidden,) if isinstance(hidden, str) else tuple(hidden)
    if not all(isinstance(name, str) for name in names):
        raise PipelineError(subject, f"hidden is {hidden!r}; it is a list of result columns")
    return names


def check_hidden_columns(
    subject: str, hidden: Sequence[str], results: Sequence[str], published: Sequence[str]
) -> None:
    """What is hidden is there, and something is published."""
    for name in hidden:
        if name not in results:
            raise PipelineError(
                subject, f"hidden has {name!r}, which is no result; results are {', '.join(results)}"
            )
    if not published:
        raise PipelineError(subject, "hidden leaves nothing to be published; leave one result out of it")


def check_functions(subject: str, declarations: Mapping[str, Any]) -> None:
    """Results are computed in one way, and a function's output columns are declared."""
    if declarations["reduce"] is not None and declarations["aggregate"] is not None:
        raise PipelineError(subject, "reduce and aggregate both fold a window's elements; name one of them")
    has_function = any(declarations[name] is not None for name in ("process", "reduce", "aggregate"))
    if not declarations["select"] and not has_function:
        raise PipelineError(
            subject,
            "select is empty; name at least one aggregate, or a function of your own: process, reduce or "
            "aggregate",
        )
    if declarations["select"] and has_function:
        raise PipelineError(
            subject,
            "select computes the results already; leave it out, or process, reduce and aggregate",
        )
    if has_function != (declarations["output"] is not None):
        raise PipelineError(
            subject,
            "output names the columns of what process, reduce or aggregate emit; give both or none",
        )


def check_side_outputs_and_records(subject: str, declarations: Mapping[str, Any]) -> None:
    """Side outputs have names and a function that writes them; records are named tuples."""
    for tag in declarations["side_outputs"]:
        if not isinstance(tag, str) or not NAME.fullmatch(tag):
            raise PipelineError(
                subject,
                f"the side output {tag!r} becomes the table side_<tag>; a tag is [a-z][a-z0-9_]{{0,62}}",
            )
    if isinstance(declarations["process"], VectorizedFunction) and (
        declarations["side_outputs"]
        or declarations["reduce"] is not None
        or declarations["aggregate"] is not None
    ):
        raise PipelineError(
            subject,
            "a vectorized function gets the elements of windows and returns results; leave out reduce, "
            "aggregate and side_outputs",
        )
    if declarations["side_outputs"] and declarations["process"] is None:
        raise PipelineError(subject, "side outputs are written by a process function, and there is none")
    for record in declarations["records"]:
        if not (isinstance(record, type) and issubclass(record, tuple) and hasattr(record, "_fields")):
            raise PipelineError(subject, f"records has {record!r}; it is a list of named tuple classes")


def check_timezone(subject: str, name: str) -> tzinfo:
    try:
        return zone_named(name)
    except ConfigurationError as error:
        raise PipelineError(subject, f"timezone: {error}") from error


def check_schedule(subject: str, schedule: str | None, zone: tzinfo, start: datetime) -> None:
    """Airflow takes the schedule, and it has a time after the pipeline's start."""
    if schedule is None or schedule in PRESETS:
        return
    try:
        first = Cron(schedule, zone).next_after(start)
    except NotACron as error:
        preset = did_you_mean(f"@{schedule.lstrip('@')}", PRESETS, "schedule='{}'")
        raise PipelineError(
            subject,
            f"schedule: {error}. It is a cron expression such as '30 2 * * *', or one of "
            f"{', '.join(PRESETS)}{preset and '; '}{preset}",
        ) from error
    if first is None:
        raise PipelineError(subject, f"schedule: {schedule!r} never comes after {start.isoformat()}")


def start_in_utc(subject: str, value: object, zone: tzinfo) -> datetime:
    """The declared start, a date, a datetime or ISO 8601 text, in UTC. A naive value is a time of `zone`."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PipelineError(
                subject, f"start is {value!r}; it is an ISO 8601 date or time, e.g. '2013-01-01'"
            ) from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the zone is set below
    if not isinstance(value, datetime):
        raise PipelineError(subject, f"start is {value!r}; it is a date, a datetime or ISO 8601 text")
    value = (value.replace(tzinfo=zone) if value.tzinfo is None else value).astimezone(UTC)
    if value.microsecond % 1000:
        raise PipelineError(
            subject, f"start is {value.isoformat()}; slices begin and end at whole milliseconds"
        )
    return value


def check_input_expectation(subject: str, expectation: InputExpectation, *, has_late_rows: bool) -> None:
    """A share of late rows is expected only if rows can be late."""
    if expectation.kind == "late_share" and not has_late_rows:
        raise PipelineError(
            subject, "expect.late_share, but no row is ever too late: there are no windows of event time"
        )
