"""The text of a pipeline file to start from: Python that declares an hourly count, with its reasons."""

import json
import keyword
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from slackwater.inspection.sources.disorder import Disorder
from slackwater.readable import share_text

_WIDTH = 80
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDENT = " " * 4


@dataclass(frozen=True, kw_only=True)
class DeclaredRole:
    """A column with a role. `expression` computes it, where it is no column of the source (None: it is one);
    `reason` is a comment.
    """

    column: str
    expression: str | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class PipelineFile:
    """What the file declares.

    Attributes:
        name: of the pipeline.
        table: of the source, as declared.
        arrival: None: `COMMIT_TIME`.
        key: None: one window for all rows.
        start: the first day of the arrivals.
        looked_at: what the user has named, for the comment.
        is_folder: whether the source is a folder of Parquet files.
        notes: comments above the pipeline.
        commands: the next ones to type.
    """

    name: str
    table: str
    looked_at: str
    is_folder: bool
    event: DeclaredRole
    arrival: DeclaredRole | None
    arrival_reason: str
    partition: DeclaredRole | None
    order: DeclaredRole | None
    key: DeclaredRole | None
    disorder: Disorder | None
    start: date
    commands: Sequence[str]
    notes: Sequence[str] = field(default=())

    @property
    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f'"""Hourly counts of {self.table}: a start, to be changed.'
        yield ""
        yield f"Written by `slackwater sources look {self.looked_at}`. Next:"
        yield ""
        yield from (f"  {command}" for command in self.commands)
        yield '"""'
        yield ""
        yield "from datetime import timedelta"
        yield ""
        source = "ParquetSource" if self.is_folder else "DeltaSource"
        names = ["Pipeline", source, "TumblingEventTimeWindows", "WatermarkStrategy", "agg"]
        if self.arrival is None:
            names.append("COMMIT_TIME")
        yield from _import(sorted(names, key=_order_of_names))
        yield ""
        for note in self.notes:
            yield from _comment(note, "")
        yield f"{self.name} = Pipeline("
        yield f"{_INDENT}name={_text(self.name)},"
        yield from (_INDENT + line if line else line for line in self._source(source))
        yield from (_INDENT + line if line else line for line in self._windows())
        yield ")"

    def _source(self, source: str) -> Iterator[str]:
        yield f"source={source}("
        yield f"{_INDENT}{_text(self.table)},"
        derived_columns = {
            role.column: role.expression
            for role in (self.event, self.arrival, self.partition, self.order, self.key)
            if role is not None and role.expression is not None
        }
        yield from (_INDENT + line for line in _derive(derived_columns))
        for name, role in (
            ("event_time", self.event),
            ("arrival_time", self.arrival),
            ("source_partition", self.partition),
            ("order_by", self.order),
        ):
            if role is not None:
                yield from _comment(role.reason, _INDENT)
                yield f"{_INDENT}{name}={_text(role.column)},"
            elif name == "arrival_time":
                yield from _comment(self.arrival_reason, _INDENT)
                yield f"{_INDENT}arrival_time=COMMIT_TIME,"
        yield "),"

    def _windows(self) -> Iterator[str]:
        bound_ms = 60_000 if self.disorder is None else self.disorder.bound_ms
        lateness_ms = 0 if self.disorder is None else self.disorder.lateness_ms
        if self.disorder is not None:
            yield from _comment(_bound_reason(self.disorder), "")
        if self.partition is None:
            yield f"watermarks=WatermarkStrategy.bounded_out_of_orderness({_timedelta(bound_ms)}),"
        else:
            yield from _comment("a source partition without rows for an hour holds no window back", "")
            yield "watermarks=WatermarkStrategy.bounded_out_of_orderness("
            yield f"{_INDENT}{_timedelta(bound_ms)}"
            yield ").with_idleness(timedelta(hours=1)),"
        if self.key is not None:
            yield from _comment(self.key.reason, "")
        else:
            yield from _comment("no column looks like a key: one window for all rows", "")
        yield f"key_by={'None' if self.key is None else _text(self.key.column)},"
        yield "window=TumblingEventTimeWindows.of(timedelta(hours=1)),"
        if lateness_ms:
            if self.disorder is not None:
                yield from _comment(_lateness_reason(self.disorder), "")
            yield f"allowed_lateness={_timedelta(lateness_ms)},"
        result = "events" if self.key is None or self.key.column != "events" else "number_of_events"
        yield f'select={{"{result}": agg.count()}},'
        yield f"start={_text(self.start.isoformat())},  # the first day of the data"


def _derive(expressions: Mapping[str, str]) -> Iterator[str]:
    if not expressions:
        return
    yield "derive={"
    yield from (f"{_INDENT}{_text(name)}: {_text(text)}," for name, text in expressions.items())
    yield "},"


def _bound_reason(disorder: Disorder) -> str:
    share = disorder.rows_beyond_bound / disorder.rows
    return f"{_share_within(share)} of the sample's rows are behind by no more than this bound"


def _lateness_reason(disorder: Disorder) -> str:
    late = share_text(disorder.late_rows / disorder.rows) if disorder.late_rows else "none"
    return f"leaves {late} of the sample's rows too late"


def _share_within(share_beyond: float) -> str:
    return "all" if share_beyond == 0 else share_text(1 - share_beyond)


def _comment(text: str, indent: str) -> Iterator[str]:
    plain = " ".join(text.split())
    yield from textwrap.wrap(
        plain,
        _WIDTH - len(_INDENT),
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _import(names: Sequence[str]) -> Iterator[str]:
    line = f"from slackwater import {', '.join(names)}"
    if len(line) <= _WIDTH:
        yield line
        return
    yield "from slackwater import ("
    yield from (f"{_INDENT}{name}," for name in names)
    yield ")"


def _order_of_names(name: str) -> tuple[int, str]:
    """Constants, classes, functions, as sorters of imports have them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def _timedelta(duration_ms: int) -> str:
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000)):
        if duration_ms and duration_ms % size == 0:
            return f"timedelta({unit}={duration_ms // size})"
    return f"timedelta(milliseconds={duration_ms})"


def _text(value: str) -> str:
    """A Python literal in double quotes where that needs no more escapes than in single ones."""
    if '"' in value and "'" not in value and "\\" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=not value.isprintable())


def is_plain_name(name: str) -> bool:
    """Whether a column of the name may be a key, and a field of elements."""
    return bool(_PLAIN.fullmatch(name)) and not keyword.iskeyword(name) and "__" not in name


def column_name(name: str, columns: Sequence[str], suffix: str) -> str:
    """A name for a derived column after `name`, of letters, digits and single underscores, that none of
    `columns` has.
    """
    words = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]+", "_", name)).strip("_").lower()
    words = words if _PLAIN.fullmatch(words) else f"c_{words}".strip("_")
    lower_names = {column.lower() for column in columns}
    for candidate in (words, f"{words}_{suffix}", *(f"{words}_{number}" for number in range(2, 1000))):
        if candidate not in lower_names:
            return candidate
    raise AssertionError("a thousand columns of one name")


def pipeline_name(location: str) -> str:
    """A name for a pipeline over what is at a path or URI."""
    last = location.rstrip("/").rpartition("/")[2].split(".")[0]
    words = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]+", "_", last.lower())).strip("_")
    words = re.sub(r"^[^a-z]+", "", words) or "source"
    return f"{words[:50].rstrip('_')}_per_hour"
