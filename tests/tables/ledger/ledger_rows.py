"""Ledger rows for tests: rows that say who they are, and little else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.rows import LedgerRow

START = datetime(2013, 1, 1, tzinfo=UTC)


def ledger_folder(root: Path) -> Folder:
    return Folder(f"{root}/runs", pa.schema(list(schemas.RUNS)))


def day(number: int) -> datetime:
    """The start of the n-th day, counted from 0."""
    return START + timedelta(days=number)


def run_row(run_id: str, *, day_number: int = 0, **changes: object) -> LedgerRow:
    """A staged row of a run of one day, not yet bound to a seq."""
    row = LedgerRow(
        seq=0,
        run_id=run_id,
        kind="run",
        branch="main",
        parent_seq=None,
        live=(),
        slice_start=day(day_number),
        slice_end=day(day_number + 1),
        version="0.2.0",
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)
