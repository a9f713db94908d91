"""The options that several verbs share, their types, and how verbs log. Every option is accepted after the
verb.
"""

import functools
import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slackwater.pipelines.cron import instant_of
from slackwater.pipelines.registry import VARIABLE as PIPELINES_VARIABLE
from slackwater.pipelines.registry import split_pipelines
from slackwater.readable import range_of_slice
from slackwater.runtime.settings import cache
from slackwater.windowing.times import to_datetime, to_ms

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.inspection.inspection import Inspection
    from slackwater.pipelines import Pipeline
    from slackwater.runs.opened_pipeline import OpenedPipeline

Function = TypeVar("Function", bound=Callable[..., Any])
PIPELINES = f"{__name__}.pipelines"  # under which click's `Context.meta` has what --pipelines says


class Time(click.ParamType):
    """An ISO 8601 date or time; a naive one is UTC. Becomes milliseconds of UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is not an ISO 8601 date or time, e.g. 2013-01-02 or 2013-01-02T06:00:00Z",
                param,
                ctx,
            )
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        if moment.microsecond % 1000:
            self.fail(f"{value!r}: slice bounds are whole milliseconds", param, ctx)
        return to_ms(moment)


class ClockTime(int):
    """A time that was given without an offset, in milliseconds as if it were UTC."""

    def in_zone(self, zone: tzinfo) -> int:
        """The instant at which clocks of `zone` show the time, as in a schedule; see `instant_of`."""
        return to_ms(instant_of(to_datetime(self).replace(tzinfo=None), zone))


class ArrivalTime(Time):
    """A bound of a range of arrivals: a naive one is a `ClockTime`, of the pipeline's time zone."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        time_ms = super().convert(value, param, ctx)
        has_offset = isinstance(value, int) or datetime.fromisoformat(value).tzinfo is not None
        return time_ms if has_offset else ClockTime(time_ms)


def in_zone(time_ms: int, zone: tzinfo) -> int:
    """The instant of a bound that was given on the command line, in milliseconds of UTC."""
    if not isinstance(time_ms, ClockTime):
        return time_ms
    try:
        return time_ms.in_zone(zone)
    except OverflowError:
        moment = to_datetime(time_ms).date().isoformat()
        raise click.UsageError(f"{moment} is too near to the ends of the years 1 to 9999") from None


class Length(click.ParamType):
    """A length of time such as 90s, 15m, 6h or 1d. Becomes milliseconds."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        number, unit = value[:-1], _UNITS.get(value[-1:])
        if unit is None or not number.isdecimal() or int(number) == 0:
            self.fail(
                f"{value!r} is no length of time; write a whole number of seconds, minutes, hours or days: "
                "90s, 15m, 6h, 1d",
                param,
                ctx,
            )
        return int(number) * unit


# A ledger row's seq: the column is a signed 64-bit integer, and seqs begin at 1.
SEQ = click.IntRange(1, 2**63 - 1)


class SeqOrRunId(click.ParamType):
    """A seq of the ledger; or the run id of a run or of an attempt at one, which has a hyphen."""

    name = "seq"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text.removeprefix("-").isdecimal():
            return int(SEQ.convert(value, param, ctx))
        if "-" not in text[1:]:
            self.fail(
                f"{text!r} is neither a seq nor a run id; `runs PIPELINE --wide` lists both", param, ctx
            )
        return text


_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


warehouse = click.option(
    "--warehouse",
    metavar="DIR-or-URI",
    help="where the tables are (default: SLACKWATER_WAREHOUSE, else ./warehouse)",
)


def pipelines(function: Function) -> Function:
    """--pipelines"""
    return click.option(
        "--pipelines",
        metavar="FILES",
        callback=_pipelines_here,
        help="your own pipelines: a file, a module, a folder of files, or several with commas between; files "
        "and folders may be given by URI (default: SLACKWATER_PIPELINES)",
    )(function)


@dataclass(frozen=True)
class NamedPipeline:
    """The pipeline that a command is about, as PIPELINE, --warehouse and --pipelines name it."""

    name: str
    warehouse: str | None
    files: str | None

    def __str__(self) -> str:
        return self.name

    def inspection(self) -> "Inspection":
        """Its stored tables, for reading; raises NoRuns."""
        from slackwater.inspection.inspection import Inspection

        return Inspection.of(self.name, self.warehouse)

    def declaration(self) -> "Pipeline":
        """Raises UnknownPipeline."""
        from slackwater.pipelines import registry

        return registry.load(self.files)[self.name]

    def open(self, on: "On | None" = None) -> "OpenedPipeline":
        """Declaration and tables together, for verbs that work."""
        from slackwater.runs.opened_pipeline import OpenedPipeline

        return OpenedPipeline(self.name, self.warehouse, self.files, on)


def place(function: Function) -> Function:
    """--warehouse and --pipelines; `function`, which has an argument PIPELINE, takes the three as one
    `pipeline: NamedPipeline`.
    """

    @functools.wraps(function)
    def with_place(*args: Any, pipeline: str, warehouse: str | None, pipelines: str | None, **kw: Any) -> Any:
        return function(*args, pipeline=NamedPipeline(pipeline, warehouse, pipelines), **kw)

    return warehouse(pipelines(with_place))  # type: ignore[return-value]


def _pipelines_here(context: click.Context, option: click.Parameter, pipelines: str | None) -> str | None:
    """The pipelines, with copies in place of those that are given by URI, as to a driver in a cluster."""
    text = pipelines or os.environ.get(PIPELINES_VARIABLE) or ""
    if ":/" in text:
        from slackwater.tables.files_by_uri import fetch_python_files, is_uri

        folder = cache() / "pipelines"
        parts = split_pipelines(text)
        pipelines = ",".join(
            str(fetch_python_files(part, folder)) if is_uri(part) else part for part in parts
        )
    context.meta[PIPELINES] = pipelines
    return pipelines


def together(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several decorators as one, as if they were written in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


key = click.option(
    "--key",
    metavar="K",
    help="only this key; several columns: values separated by commas, or a JSON list where a value holds "
    "a comma: '[\"a,b\", 7]'",
)


def run(help_text: str) -> Callable[[Function], Function]:
    """--run, which names a row of the ledger"""
    return click.option("--run", "seq", type=SEQ, metavar="SEQ", help=help_text)


on = click.option(
    "--on",
    type=click.Choice(["auto", "here", "spark"]),
    help="where slices are replayed: by Spark's tasks (spark), on this machine without Spark (here), or "
    "small ones here and others by Spark (auto) (default: as the pipeline declares)",
)

# For verbs that replay slices.
replaying = together(
    on,
    click.option(
        "--engine", type=click.Choice(["columnar", "operator"]), help="override the planner's choice"
    ),
    click.option(
        "--partitions",
        type=click.IntRange(1),
        metavar="N",
        help="key-group ranges per slice (default: by input size)",
    ),
    click.option("--manifest", metavar="FILE-or-URI", help="write the outcome here as JSON (for Airflow)"),
)


def log_format(function: Function) -> Function:
    """--log-format: logging has begun when `function` is called."""

    @functools.wraps(function)
    def with_log(*args: Any, log_format: str | None, **kw: Any) -> Any:
        log_to_stderr(log_format)
        return function(*args, **kw)

    option = click.option(
        "--log-format",
        type=click.Choice(["progress", "text", "json"]),
        help="how stderr shows the steps of the work: one line that changes, or a log (default: progress on "
        "a terminal, else text)",
    )
    return option(with_log)  # type: ignore[return-value]


no_deliver = click.option(
    "--no-deliver", is_flag=True, help="leave the pipeline's sinks to `slackwater sinks deliver`"
)


def warn(line: str) -> None:
    """Print a warning where it does not mix with results."""
    click.echo(line, err=True)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"at": _moment(record), "step": record.getMessage(), **_facts(record)}, default=str)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_moment(record)} {record.getMessage()} " + " ".join(
            f"{name}={value}" for name, value in _facts(record).items()
        )
        return text + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


class _ShortLines(logging.Formatter):
    """Without the time, which whoever keeps the lines adds."""

    def format(self, record: logging.LogRecord) -> str:
        slice_text = getattr(record, "slice", None)
        zone = getattr(record, "zone", UTC)
        place = f"{range_of_slice(str(slice_text), zone)}  " if slice_text else ""
        text = f"{place}{record.getMessage()}"
        return text + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


_FACTS = ("pipeline", "seq", "run_id", "attempt", "slice", "seconds")


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _FACTS if hasattr(record, name)}


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def log_to_stderr(kind: str | None, level: int = logging.INFO) -> None:
    """Show on stderr what the protocol does, until the verb ends.

    Args:
        kind: progress, a line on a terminal that changes, and elsewhere a line for each step that goes on for
            seconds; text or json, a line for each step. None: progress on a terminal, else text.
    """
    logger = logging.getLogger("slackwater")
    is_progress = kind == "progress" or (kind is None and sys.stderr.isatty())
    if is_progress and sys.stderr.isatty():
        from rich.console import Console

        from slackwater.cli.progress import ProgressLine

        logger.handlers = [ProgressLine(Console(stderr=True))]
        logger.setLevel(logging.DEBUG)
    else:
        from slackwater.cli.progress import LongSteps

        lines = logging.StreamHandler(sys.stderr)
        lines.setLevel(logging.WARNING if is_progress else level)
        lines.setFormatter(_JsonLines() if kind == "json" else _ShortLines() if is_progress else _TextLines())
        logger.handlers = [lines] if kind == "json" else [LongSteps(lines), lines]
        logger.setLevel(level if kind == "json" else logging.DEBUG)
    logger.propagate = False
    context = click.get_current_context(silent=True)
    for handler in logger.handlers:
        if context is not None:
            context.call_on_close(handler.close)
