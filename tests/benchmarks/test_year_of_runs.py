"""The warehouse of a year that is written without its runs holds what real runs leave."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slackwater.tables.warehouse import Tables, Warehouse
from tests.benchmarks.year_of_runs import NAME, YearOfRuns

DAYS = 8
# What two runs of the same slice have not in common.
OF_ITS_OWN = frozenset(
    [
        "at",
        "files",
        "phase_seconds",
        "table_versions",
        "state_hash",
        "output_hash",
        "inputs",
        "started_at",
        "committed_at",
        "owner",
        "claimed_at",
        "expires_at",
        "ledger_row",
        "observed",
        "checked",
    ]
)


def rows(tables: Tables, table: str) -> Counter[str]:
    """The rows of a table, with seqs in the place of run ids; of snapshots those of the last two runs."""
    seqs = {row.run_id: row.seq for row in tables.ledger.rows()}
    found: list[dict[str, Any]] = []
    for row in tables[table].read().to_pylist():
        if "run_id" in row:
            row["run_id"] = seqs[row["run_id"]]
        if table not in ("window_state", "timers") or row["run_id"] > DAYS - 2:
            found.append({name: value for name, value in row.items() if name not in OF_ITS_OWN})
    return Counter(map(repr, found))


@pytest.mark.slow
def test_days_that_are_copied_equal_days_that_are_run(tmp_path: Path) -> None:
    copied = YearOfRuns(tmp_path / "copied", shops=20, days=DAYS, lateness=2)
    real = YearOfRuns(tmp_path / "real", shops=20, days=DAYS, lateness=2)
    real.write_source()
    for day in range(DAYS):
        real.run(day)
    copied_tables, real_tables = copied.write(), Warehouse.at(str(real.root)).stored_tables(NAME)
    for table in real_tables.folders:
        assert rows(copied_tables, table) == rows(real_tables, table), table
    assert copied_tables.ledger.head().windows_open == copied.open_windows == 60  # type: ignore[union-attr]
    assert sum(row.rows_late for row in copied_tables.ledger.rows()) == copied.late_rows
    next_row = copied.run(DAYS)
    assert (next_row.seq, next_row.verdict, next_row.windows_open) == (DAYS + 1, "passed", 60)
