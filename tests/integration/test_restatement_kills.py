"""`kill -9` of a restatement at every moment that matters: readers see the old range or the new one, and the
same command goes on.

Each driver is a real command line in a process of its own, which kills itself; see
`tests.integration.driver`.
"""

import shutil
import signal
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import CommandResult, driver, here
from tests.integration.driver import Plan
from tests.integration.facts import assert_corrections_make_published
from tests.integration.stored import ROOT, Row, StoredTables

pytestmark = pytest.mark.slow

PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
# The n-th commit of the ledger: the fork, three slices (delays of the second day are forgotten after the
# fourth), the publication, the end.
COMMITS = {
    "the fork": 1,
    "the first slice": 2,
    "the second slice": 3,
    "the publication": 4,
    "the end of the branch": 5,
}


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days, run day by day; then the delays of the second day are doubled in the source. Not to be
    written.
    """
    warehouse = tmp_path_factory.mktemp("corrected") / "warehouse"
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-01",
            "--to",
            "2013-01-06",
            "--warehouse",
            warehouse,
        )
        == 0
    )
    hourly = StoredTables(warehouse, "hourly")
    done = run(hourly, "run", "--to", "2013-01-05")
    assert done.returncode == 0, done.stderr
    uri = str(warehouse / "sources" / "departures")
    day = "arrival_time >= '2013-01-02T00:00:00Z' AND arrival_time < '2013-01-03T00:00:00Z'"
    rows = DeltaTable(uri).to_pyarrow_dataset().to_table()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", rows)
        of_day = "arrival_time >= '2013-01-02 00:00:00+00' AND arrival_time < '2013-01-03 00:00:00+00'"
        doubled = connection.sql(
            f"SELECT * REPLACE ((dep_delay * 2)::INT AS dep_delay) FROM rows WHERE {of_day}"
        ).to_arrow_table()
    write_deltalake(uri, doubled.cast(rows.schema), mode="overwrite", predicate=day)
    return warehouse


@pytest.fixture
def hourly(corrected: Path, tmp_path: Path) -> StoredTables:
    return StoredTables(shutil.copytree(corrected, tmp_path / "warehouse"), "hourly")


@pytest.fixture(scope="module")
def wanted(corrected: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What is published when nobody is killed, which is what one run over the corrected source publishes."""
    hourly = StoredTables(
        shutil.copytree(corrected, tmp_path_factory.mktemp("restated") / "warehouse"), "hourly"
    )
    done = restate(hourly, Plan())
    assert done.returncode == 0, done.stderr
    fresh = StoredTables(tmp_path_factory.mktemp("fresh") / "warehouse", "hourly")
    shutil.copytree(corrected / "sources", fresh.warehouse / "sources")
    assert run(fresh, "run", "--to", "2013-01-05").returncode == 0
    assert published(hourly) == published(fresh)
    return published(hourly)


def run(hourly: StoredTables, *arguments: str, plan: Plan | None = None) -> CommandResult:
    verb, *options = arguments
    return driver(
        plan or Plan(), verb, "hourly", *options, "--warehouse", hourly.warehouse, "--pipelines", PIPELINES
    )


def restate(hourly: StoredTables, plan: Plan) -> CommandResult:
    return run(hourly, "backfill", "--from", "2013-01-02", "--to", "2013-01-03", plan=plan)


def published(hourly: StoredTables) -> list[Row]:
    rows = [
        {name: value for name, value in row.items() if name not in ("revision", "run_seq")}
        for row in hourly.rows("published")
    ]
    return sorted(rows, key=lambda row: (row["origin"], row["window_start"]))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", COMMITS)
def test_a_restatement_killed_at_any_commit_is_whole_for_readers_and_the_same_command_ends_it(
    hourly: StoredTables, wanted: list[Row], commit: str, when: str
) -> None:
    before = published(hourly)
    done = restate(hourly, Plan(at=f"{when} the ledger commit", nth=COMMITS[commit]))
    assert done.returncode == -signal.SIGKILL, done.stderr
    is_out = commit == "the end of the branch"
    assert published(hourly) == (wanted if is_out else before)
    done = restate(hourly, Plan())
    assert done.returncode == 0, done.stderr
    assert published(hourly) == wanted
    assert_corrections_make_published(hourly)
    if is_out and when == "after":
        return  # nothing was left to do: the command restates what is right already
    slices = [row for row in hourly.ledger() if row["kind"] == "run" and row["branch"] != "main"]
    assert len(slices) == len({row["slice_start"] for row in slices}), "no finished slice was run twice"
    assert [row["kind"] for row in hourly.ledger() if row["kind"] == "publish"] == ["publish"]


@pytest.mark.parametrize("table", ["corrections", "published"])
def test_a_restatement_killed_in_its_roll_forward_shows_the_old_range_or_the_new_one(
    hourly: StoredTables, wanted: list[Row], table: str
) -> None:
    before = published(hourly)
    at = "between the roll-forward commits" if table == "corrections" else "after the roll-forward"
    done = restate(hourly, Plan(at=at, nth=1))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert published(hourly) == (before if table == "corrections" else wanted)
    assert restate(hourly, Plan()).returncode == 0
    assert published(hourly) == wanted
    assert_corrections_make_published(hourly)
