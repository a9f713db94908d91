"""Real flights through the whole way, on Spark: however a range is cut and spread, the tables hold what the
brute-force model says.

Command lines run in this process and share one Spark session.
"""

import itertools
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published, iso
from tests.integration.stored import Row, StoredTables
from tests.model.flights import ms

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FROM, TO = "2013-01-01", "2013-01-05"
NOT_PROMISED = {
    "panes": {"run_id"},
    "late_events": {"run_id"},
    "quarantine": {"run_id"},
    "published": {"revision", "run_seq"},
}


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the flights that arrived in the first days of January, some of them after every range
    that is replayed.
    """
    warehouse = tmp_path_factory.mktemp("flights")
    assert (
        here("examples", "load", "departures", "--from", FROM, "--to", "2013-01-06", "--warehouse", warehouse)
        == 0
    )
    return warehouse


def copied(flights: Path, to: Path) -> Path:
    """A warehouse of its own with the same source, file by file."""
    shutil.copytree(flights / "sources", to / "sources")
    return to


def replayed(warehouse: Path, bounds: list[str], partitions: list[int]) -> StoredTables:
    """Replay slice after slice, slice i in partitions[i % n] key-group ranges."""
    for number, (start, to) in enumerate(itertools.pairwise(bounds)):
        count = partitions[number % len(partitions)]
        command = (
            "run",
            "departures",
            "--from",
            start,
            "--to",
            to,
            "--partitions",
            count,
            "--warehouse",
            warehouse,
        )
        assert here(*command) == 0, command
    return StoredTables(warehouse, "departures")


def cuts(seed: int) -> list[str]:
    """A few cuts anywhere in the range, to the millisecond: hardly ever at a tick's end."""
    chosen = sorted(random.Random(seed).sample(range(ms(FROM) + 1, ms(TO)), 3))
    return [FROM, *map(iso, chosen), TO]


def promised(stored: StoredTables) -> dict[str, list[Row]]:
    """All that must not depend on cuts and partitions, in an order of its own."""
    tables = {name: stored.rows(name) if name == "published" else stored.live(name) for name in NOT_PROMISED}
    kept = {
        table: sorted(
            ({name: value for name, value in row.items() if name not in NOT_PROMISED[table]} for row in rows),
            key=repr,
        )
        for table, rows in tables.items()
    }
    return {**kept, "state_hash": [stored.ledger()[-1]["state_hash"]]}


@pytest.fixture(scope="module")
def daily(spark: "SparkSession", flights: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredTables:
    """Four days, one slice a day, by catching up."""
    warehouse = copied(flights, tmp_path_factory.mktemp("daily"))
    assert here("run", "departures", "--to", TO, "--warehouse", warehouse) == 0
    return StoredTables(warehouse, "departures")


def test_four_daily_slices_leave_what_the_model_says(daily: StoredTables) -> None:
    assert_as_model(daily, TO)
    assert_corrections_make_published(daily)


def test_four_daily_slices_have_the_known_figures(daily: StoredTables) -> None:
    ledger = daily.ledger()
    assert [row["seq"] for row in ledger] == [1, 2, 3, 4]
    assert sum(row["rows_read"] for row in ledger) == 3308
    assert len(daily.rows("published")) == 203
    assert len(daily.parked("window_state")) == ledger[-1]["windows_open"] == 24
    assert iso(ledger[-1]["watermark_out"]) == "2013-01-04T20:45:59.999000"


def test_the_snapshot_says_where_the_clock_stands(daily: StoredTables) -> None:
    [whole] = [row for row in daily.parked("source_progress") if row["source_partition"] is None]
    assert whole["clock"] == ms(TO)
    assert daily.ledger()[-1]["timers_pending"] == len(daily.parked("timers"))


@pytest.mark.parametrize(
    ("seed", "partitions"),
    [(1, [1]), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, [2, 5]), (3, [5, 1, 2])))],
)
def test_other_cuts_and_partitions_do_not_show(
    daily: StoredTables, flights: Path, tmp_path: Path, seed: int, partitions: list[int]
) -> None:
    other = replayed(copied(flights, tmp_path), cuts(seed), partitions)
    assert len(other.ledger()) == 4
    assert_as_model(other, TO)
    assert_corrections_make_published(other)
    assert promised(other) == promised(daily)


def test_one_slice_over_everything_is_the_same(daily: StoredTables, flights: Path, tmp_path: Path) -> None:
    other = replayed(copied(flights, tmp_path), [FROM, TO], [2])
    assert_as_model(other, TO)
    assert promised(other) == promised(daily)
    assert all(row["op"] == "insert" for row in other.rows("corrections")), (
        "nothing was published before to be changed"
    )


def test_a_cut_inside_a_tick_parks_the_unfinished_tick(
    spark: "SparkSession", flights: Path, tmp_path: Path
) -> None:
    to = "2013-01-02T10:02:17.345"
    stored = replayed(copied(flights, tmp_path), [FROM, "2013-01-01T15:03", to], [1])
    assert_as_model(stored, to)
    [whole] = [row for row in stored.parked("source_progress") if row["source_partition"] is None]
    assert (whole["unfinished_tick_start"], whole["clock"]) == (ms("2013-01-02T10:00"), ms(to))


def test_january_is_what_the_model_says(spark: "SparkSession", tmp_path: Path) -> None:
    assert (
        here("examples", "load", "departures", "--from", FROM, "--to", "2013-02-01", "--warehouse", tmp_path)
        == 0
    )
    assert here("run", "departures", "--to", "2013-02-01", "--warehouse", tmp_path) == 0
    january = StoredTables(tmp_path, "departures")
    assert_as_model(january, "2013-02-01")
    assert_corrections_make_published(january)
    ledger = january.ledger()
    figures = {
        name: sum(row[name] for row in ledger)
        for name in ("rows_read", "rows_quarantined", "windows_fired", "windows_refired", "rows_late")
    }
    assert figures == {
        "rows_read": 26677,
        "rows_quarantined": 512,
        "windows_fired": 1732,
        "windows_refired": 3959,
        "rows_late": 60,
    }
    assert len(january.rows("published")) == 1734
    assert len(january.parked("window_state")) == ledger[-1]["windows_open"] == 22
    assert iso(ledger[-1]["watermark_out"]) == "2013-01-31T20:24:59.999000"
    assert len(ledger) == 31
