"""The figures of a lineage run by run, on ledgers written by hand and on the flights of three days."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.inspection.runs.run_series import run_series, snapshot_bytes
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files.staging import write_staged
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import Tables, Warehouse
from tests.tables.ledger.ledger_rows import clock, day, run_row

SHAPE = Shape(
    keys=(("origin", pa.string()),), results=(("n", pa.int64()),), parts=(), source=(("origin", pa.string()),)
)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Warehouse(str(tmp_path)).tables("flights", SHAPE)
    tables.ensure()
    return tables


def park(tables: Tables, run_id: str, table: str, rows: int) -> int:
    """Write rows of a snapshot table as a run does; returns the size of the file, as the disk has it."""
    folder = tables[table]
    schema = pa.schema([field for field in folder.schema if field.name != "run_id"])
    part = pa.Table.from_pylist([dict.fromkeys(schema.names)] * rows, schema=schema)
    written = write_staged(folder.uri, run_id, "driver", part)
    folder.commit_files([written])
    return Path(folder.uri, written.path).stat().st_size


def commit(tables: Tables, run_id: str, day_number: int, **values: object) -> None:
    ledger = LedgerWriter(tables["runs"])
    head = ledger.head()
    row = run_row(run_id, day_number=day_number, **values)
    ledger.commit("main", None if head is None else head.seq, [row], clock)


def test_a_lineage_without_runs_has_no_figures(tables: Tables) -> None:
    assert run_series(tables, tables.ledger.head()) == ()
    assert snapshot_bytes(tables) == {}


def test_figures_are_those_of_the_ledger_and_of_the_snapshots_files(tables: Tables) -> None:
    sizes = [
        park(tables, "one", "window_state", 3),
        park(tables, "one", "window_state", 500),
        park(tables, "one", "timers", 7),
    ]
    commit(
        tables,
        "one",
        0,
        rows_read=200,
        rows_late=5,
        windows_open=3,
        watermark_out=day(1) - timedelta(hours=2),
        phase_seconds={"session": 7.0, "replay": 1.5, "stage": 0.5},
    )
    commit(tables, "two", 1, windows_open=4)

    one, two = run_series(tables, tables.ledger.head())

    assert (one.seq, one.run_id, one.slice_start, one.slice_end) == (1, "one", day(0), day(1))
    assert one.state_bytes == sum(sizes)
    assert one.late_share == 5 / 200
    assert one.watermark_lag == timedelta(hours=2)
    assert one.seconds == 2.0
    assert (two.windows_open, two.state_bytes) == (4, None)
    assert (two.late_share, two.watermark_lag) == (None, None)


def test_the_last_runs_are_the_newest_slices(tables: Tables) -> None:
    for number in range(4):
        commit(tables, f"run {number}", number)
    assert [run.run_id for run in run_series(tables, tables.ledger.head(), last=2)] == ["run 2", "run 3"]
