"""Days of flights, run day by day and restated twice, end as one run over the flights as they are; only
touched windows are rewritten.

Real command lines in processes of their own: on Spark, and without.
"""

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import driver, here
from tests.integration.driver import Plan
from tests.integration.facts import assert_corrections_make_published
from tests.integration.stored import Row, StoredTables

pytestmark = pytest.mark.slow

FILE = """
from dataclasses import replace

from slackwater.examples.departures import departures
from slackwater import agg

mean = agg.mean("dep_delay"{where})
select = {{"flights": agg.count(), "mean_dep_delay": mean, "max_dep_delay": agg.max("dep_delay")}}
hourly = replace(departures, name="hourly", expect=[], select=select)
"""
EVERY_FLIGHT, ONLY_LATE_ONES = "", ', where="dep_delay > 0"'
FIRST, LAST = "2013-01-01", "2013-01-06"
HIDDEN = {"run_id", "revision", "run_seq", "source_version", "source_file"}


class Flights:
    """The pipeline `hourly` in a warehouse of its own."""

    def __init__(self, folder: Path, spark: bool) -> None:
        self.stored = StoredTables(folder / "warehouse", "hourly")
        self.file = folder / "pipelines.py"
        self.plan = Plan(spark=spark)
        folder.mkdir(exist_ok=True)
        assert (
            here(
                "examples",
                "load",
                "departures",
                "--from",
                FIRST,
                "--to",
                LAST,
                "--warehouse",
                self.stored.warehouse,
            )
            == 0
        )

    def declare(self, where: str) -> None:
        self.file.write_text(FILE.format(where=where))

    def do(self, verb: str, *options: str) -> str:
        done = driver(
            self.plan,
            verb,
            "hourly",
            *options,
            "--warehouse",
            self.stored.warehouse,
            "--pipelines",
            self.file,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def double_delays(self, day: str, next_day: str) -> None:
        """In the source, of the flights that arrived on a day."""
        uri = str(self.stored.warehouse / "sources" / "departures")
        rows = DeltaTable(uri).to_pyarrow_dataset().to_table()
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("rows", rows)
            of_day = f"arrival_time >= '{day} 00:00:00+00' AND arrival_time < '{next_day} 00:00:00+00'"
            doubled = connection.sql(
                f"SELECT * REPLACE ((dep_delay * 2)::INT AS dep_delay) FROM rows WHERE {of_day}"
            ).to_arrow_table()
        predicate = f"arrival_time >= '{day}T00:00:00Z' AND arrival_time < '{next_day}T00:00:00Z'"
        write_deltalake(uri, doubled.cast(rows.schema), mode="overwrite", predicate=predicate)

    def left(self) -> dict[str, list[str]]:
        """What must be as after one run."""
        stored = self.stored
        tables = {name: stored.live(name) for name in ("panes", "late_events", "quarantine")} | {
            "published": stored.rows("published")
        }
        return {
            name: sorted(repr(sorted(_shown(row).items())) for row in rows) for name, rows in tables.items()
        }

    def rows(self) -> dict[tuple, tuple]:
        """The results that stand, by key and window."""
        return {
            (row["origin"], row["window_start"]): (
                row["flights"],
                row["mean_dep_delay"],
                row["max_dep_delay"],
                row["kind"],
                row["firing"],
            )
            for row in self.stored.rows("published")
        }


def _shown(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in HIDDEN}


@pytest.mark.parametrize("spark", [False, True], ids=["one process", "Spark"])
def test_flights_that_were_restated_twice_end_as_one_run_over_them(tmp_path: Path, spark: bool) -> None:
    flights = Flights(tmp_path / "restated", spark)
    flights.declare(EVERY_FLIGHT)
    flights.do("run", "--to", "2013-01-05", "--partitions", "3", "--engine", "operator")

    flights.double_delays("2013-01-02", "2013-01-03")
    before = flights.rows()
    said = flights.do("backfill", "--from", "2013-01-02", "--to", "2013-01-03", "--partitions", "2")
    assert "at 2013-01-04T00:00:00Z the branch has converged." in said, said
    after, head = flights.rows(), flights.stored.ledger()[-2]
    assert head["kind"] == "publish"
    rewritten = {
        (row["origin"], row["window_start"])
        for row in flights.stored.rows("corrections")
        if row["seq"] == head["seq"]
    }
    assert (
        rewritten
        == {window for window in before.keys() | after.keys() if before.get(window) != after.get(window)}
        != set()
    )

    flights.do("run", "--to", "2013-01-06", "--partitions", "5")
    flights.declare(
        ONLY_LATE_ONES
    )  # what is parked of another aggregate is of no use: all of it is run again
    said = flights.do("backfill", "--from", FIRST, "--to", LAST, "--slice", "2d")
    assert_corrections_make_published(flights.stored)

    perfect = Flights(tmp_path / "perfect", spark=False)
    perfect.declare(ONLY_LATE_ONES)
    perfect.double_delays("2013-01-02", "2013-01-03")
    perfect.do("run", "--from", FIRST, "--to", LAST)
    assert flights.left() == perfect.left()
