"""The row class of `runs`, the ledger, with its kinds, and its two other forms: JSON and the columns of the
table. What a row means is the run protocol's business.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from slackwater.tables import schemas
from slackwater.tables.errors import EarlierFormat, NewerFormat
from slackwater.tables.ledger.erasures import ErasedRows
from slackwater.tables.ledger.spans import Span, Spans, seqs_of


class RowKind(StrEnum):
    """What a row of `runs` is.

    Attributes:
        RUN, CLOSE: a slice, and the end of a lineage. They have panes and a snapshot, and continue their
            branch; the other kinds have none.
        PUBLISH: the runs of a branch become live on main, or `published` was corrected.
        RESTORE: the runs are live on main that were live after an earlier row.
        FORK, DROP: a branch begins; a branch is given up.
        ERASE: rows are taken out of the tables and count as never written. The row's inputs are the versions
            of the source that deleted these rows there: readers of the source take the rows as never written,
            too.
    """

    RUN = "run"
    CLOSE = "close"
    PUBLISH = "publish"
    RESTORE = "restore"
    FORK = "fork"
    DROP = "drop"
    ERASE = "erase"


# What a row is called, where its kind is no noun.
_NOUNS = {RowKind.PUBLISH: "publication", RowKind.ERASE: "erasure"}


def noun_of(kind: str) -> str:
    return _NOUNS.get(RowKind(kind), kind)


RUN_KINDS = frozenset({RowKind.RUN, RowKind.CLOSE})


MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a run read of one source table: the table's own id (None in ledgers of format 1), the pinned
    version, and how many files, rows and bytes were read.
    """

    table: str
    table_id: str | None = None
    version: int
    files: int
    rows: int
    bytes: int


class StoredColumns(Protocol):
    """Columns of ledger rows in storage."""

    def value(self, name: str, place: int) -> Any:
        """The value of a column in the row at `place`, as `LedgerRow.from_values` takes it."""

    def last_live_seq(self, place: int) -> int | None:
        """The last seq of the row's column `live`; None where no run is live."""


class _ReadWhenAsked:
    """A record whose fields may lie in storage until they are asked for. A ledger of 100,000 rows is read in
    seconds because most readers ask for a few of the columns.
    """

    __slots__ = ("_columns", "_place")

    _columns: StoredColumns
    _place: int

    if not TYPE_CHECKING:  # a type checker would take any name for a field

        def __getattr__(self, name: str) -> Any:
            if name not in _NAMES:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)
            value = _field_value(name, self._columns.value(name, self._place))
            object.__setattr__(self, name, value)
            return value


def _set(cls: type, rows: Sequence[Any], name: str, values: Iterable[Any]) -> None:
    """Set one field of many rows: by its slot, in a third of the time of as many calls of `setattr`."""
    deque(map(getattr(cls, name).__set__, rows, values), maxlen=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerRow(_ReadWhenAsked):
    """One row of `runs`, columns in the documented order (`slackwater.tables.schemas.RUNS`)."""

    seq: int
    run_id: str
    kind: str
    branch: str
    parent_seq: int | None
    live: Spans
    slice_start: datetime | None = None
    slice_end: datetime | None = None
    attempt: int = 1
    engine: str | None = None
    watermark_in: datetime | None = None
    watermark_out: datetime | None = None
    inputs: tuple[Input, ...] = ()
    config_hash: str | None = None
    code_hash: str | None = None
    format_version: int = schemas.FORMAT_VERSION
    rows_read: int = 0
    rows_filtered: int = 0
    rows_accepted: int = 0
    rows_late: int = 0
    rows_unassigned: int = 0
    rows_quarantined: int = 0
    rows_folded: int = 0
    assignments_missed: int = 0
    elements_never_fired: int = 0
    windows_opened: int = 0
    windows_fired: int = 0
    windows_refired: int = 0
    windows_merged: int = 0
    windows_cleaned: int = 0
    windows_open: int = 0
    timers_pending: int = 0
    verdict: str | None = None
    state_hash: str | None = None
    output_hash: str | None = None
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    started_at: datetime | None = None
    committed_at: datetime | None = None
    phase_seconds: dict[str, float] = field(default_factory=dict)
    version: str | None = None
    table_versions: dict[str, int] = field(default_factory=dict)
    erased: tuple[ErasedRows, ...] = ()
    rows_emitted: int | None = None
    side_rows: int | None = None
    rows_duplicate: int | None = None
    place: str | None = None
    place_reason: str | None = None
    rows_exploded: int | None = None

    def is_live_in(self, head: "LedgerRow") -> bool:
        return any(span.first_seq <= self.seq <= span.last_seq for span in head.live)

    @property
    def last_live_seq(self) -> int | None:
        """The seq of the last live run, whose snapshot the row continues; None without live runs. Of a stored
        row no other span is read."""
        columns: StoredColumns | None = getattr(self, "_columns", None)
        if columns is not None:
            return columns.last_live_seq(self._place)
        return self.live[-1].last_seq if self.live else None

    def to_json(self) -> str:
        """Every column as JSON; times as ISO 8601."""
        return json.dumps(self.values(), default=lambda value: value.isoformat(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "LedgerRow":
        """The inverse of `to_json`. Raises NewerFormat: a newer version of the product wrote it."""
        values = json.loads(text)
        refuse_other_formats(values)
        for name, kind in schemas.RUNS:
            if pa.types.is_timestamp(kind) and values[name] is not None:
                values[name] = datetime.fromisoformat(values[name])
        return cls.from_values(values)

    def values(self) -> dict[str, Any]:
        """Every column as plain values, for `pyarrow.Table.from_pylist`."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        values["live"] = [span._asdict() for span in self.live]
        values["inputs"] = [vars(item) for item in self.inputs]
        values["files"] = {table: list(paths) for table, paths in self.files.items()}
        values["erased"] = [item.values() for item in self.erased]
        return values

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        """The inverse of `values`, for a row of `pyarrow.Table.to_pylist`. Raises NewerFormat, EarlierFormat:
        another version of the product wrote it.
        """
        refuse_other_formats(values)
        return cls(**{name: _field_value(name, value) for name, value in values.items()})

    @classmethod
    def all_stored(cls, columns: StoredColumns, places: Sequence[int]) -> list[Self]:
        """The rows at `places` of columns, each of which is read when it is asked for."""
        rows = [object.__new__(cls) for _ in places]
        _set(cls, rows, "_columns", repeat(columns, len(rows)))
        _set(cls, rows, "_place", places)
        return rows

    @classmethod
    def fill(cls, rows: "Sequence[LedgerRow]", name: str, values: Iterable[Any]) -> None:
        """Give stored rows the values of a column whose fields are plain values."""
        _set(cls, rows, name, values)


EARLIER_VERSIONS = "0.1."  # nothing of theirs is read
_NAMES = frozenset(column.name for column in fields(LedgerRow))
# How fields come from plain values, where they are not the same.
_FIELDS: dict[str, Callable[[Any], Any]] = {
    "live": lambda spans: tuple(span if isinstance(span, Span) else Span(**span) for span in spans or ()),
    "inputs": lambda items: tuple(Input(**item) for item in items or ()),
    "files": lambda files: {table: tuple(paths) for table, paths in dict(files or {}).items()},
    "phase_seconds": lambda seconds: dict(seconds or {}),
    "table_versions": lambda versions: dict(versions or {}),
    "erased": lambda items: tuple(map(ErasedRows.from_values, items or ())),
}


def _field_value(name: str, value: Any) -> Any:
    convert = _FIELDS.get(name)
    return value if convert is None else convert(value)


def refuse_other_formats(values: dict[str, Any]) -> None:
    """Raise NewerFormat (with the version to install) or EarlierFormat for a row's values."""
    if (values["version"] or "").startswith(EARLIER_VERSIONS):
        raise EarlierFormat(
            f"run {values['seq'] or values['run_id']} was written by slackwater {values['version']}; formats "
            "from before 0.2.0 are not read. Move the pipeline's folder out of the warehouse and run it from "
            "the start.",
            seq=values["seq"],
            version=values["version"],
        )
    if values["format_version"] > schemas.FORMAT_VERSION:
        raise NewerFormat(
            f"run {values['seq'] or values['run_id']} was written in format {values['format_version']} by "
            f"slackwater {values['version']}; this one reads up to {schemas.FORMAT_VERSION}. Install that "
            "version or a newer one.",
            seq=values["seq"],
            format_version=values["format_version"],
        )


@dataclass(frozen=True)
class Branch:
    """A branch: the row `fork` made it, with the live runs that it began with; `head` is its newest row."""

    fork: LedgerRow
    head: LedgerRow

    @property
    def name(self) -> str:
        return self.head.branch

    @property
    def own_seqs(self) -> tuple[int, ...]:
        """Seqs of the runs that were made on the branch, in slice order."""
        return seqs_of(self.head.live)[len(seqs_of(self.fork.live)) :]
