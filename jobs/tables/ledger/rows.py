"""The row class of `runs`, the ledger, and its two other forms: JSON and the columns of the table. What a row
means is the run protocol's business.
"""

import json
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from slackwater.jobs.tables import schemas
from slackwater.jobs.tables.errors import NewerFormat
from slackwater.jobs.tables.ledger.erasures import ErasedRows
from slackwater.jobs.tables.ledger.spans import Span, Spans, seqs_of

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


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """One row of `runs`, columns in the documented order (`slackwater.jobs.tables.schemas.RUNS`)."""

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

    def is_live_in(self, head: "LedgerRow") -> bool:
        """Whether this row's run is part of the branch that `head` ends."""
        return any(span.first_seq <= self.seq <= span.last_seq for span in head.live)

    def to_json(self) -> str:
        """Every column as JSON; times as ISO 8601."""
        return json.dumps(self.values(), default=lambda value: value.isoformat(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "LedgerRow":
        """The inverse of `to_json`.

        Raises:
            NewerFormat: a newer version of the product wrote it.
        """
        values = json.loads(text)
        refuse_newer(values)
        for name, kind in schemas.RUNS:
            if pa.types.is_timestamp(kind) and values[name] is not None:
                values[name] = datetime.fromisoformat(values[name])
        return cls.of_values(values)

    def values(self) -> dict[str, Any]:
        """Every column as plain values, for `pyarrow.Table.from_pylist`."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        values["live"] = [vars(span) for span in self.live]
        values["inputs"] = [vars(item) for item in self.inputs]
        values["files"] = {table: list(paths) for table, paths in self.files.items()}
        values["erased"] = [vars(item) for item in self.erased]
        return values

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Self:
        """The inverse of `values`, for a row of `pyarrow.Table.to_pylist`.

        Raises:
            NewerFormat: a newer version of the product wrote it.
        """
        refuse_newer(values)
        return cls(
            **{
                **values,
                "live": tuple(Span(**span) for span in values["live"] or ()),
                "inputs": tuple(Input(**item) for item in values["inputs"] or ()),
                "files": {table: tuple(paths) for table, paths in dict(values["files"] or {}).items()},
                "phase_seconds": dict(values["phase_seconds"] or {}),
                "table_versions": dict(values.get("table_versions") or {}),
                "erased": tuple(map(ErasedRows.of_values, values.get("erased") or ())),
                # None, not 0, in rows of versions that did not count them.
                "rows_emitted": values.get("rows_emitted"),
                "side_rows": values.get("side_rows"),
                "rows_duplicate": values.get("rows_duplicate"),
            }
        )


def refuse_newer(values: dict[str, Any]) -> None:
    """Refuse a row, given by its columns, of a format that this version does not know.

    Raises:
        NewerFormat: with the version to install.
    """
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
    """A branch beside main.

    Attributes:
        fork: the row that made the branch; its live runs are those that the branch began with.
        head: the newest row of the branch.
    """

    fork: LedgerRow
    head: LedgerRow

    @property
    def name(self) -> str:
        return self.head.branch

    @property
    def own_seqs(self) -> tuple[int, ...]:
        """Seqs of the runs that were made on the branch, in slice order."""
        return seqs_of(self.head.live)[len(seqs_of(self.fork.live)) :]
