"""When a table's log has lost a commit, the next verb names the table and the file, and neither reads nor
writes past the gap.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.integration.stored import StoredTables

TABLES = (
    *(
        "runs",
        "attempts",
        "window_state",
        "keyed_state",
        "timers",
        "source_progress",
        "panes",
        "late_events",
        "quarantine",
    ),
    *("published", "corrections", "validations", "overrides"),
)
# What is written to these once the ledger row stands.
AFTER_THE_LEDGER = {"attempts", "corrections", "published"}
HARMS = (
    "an empty newest commit",
    "an empty commit in the middle",
    "a lost newest commit",
    "a lost commit in the middle",
    pytest.param("a newest commit without its last line", marks=pytest.mark.slow),
    pytest.param("a commit in the middle without its last line", marks=pytest.mark.slow),
)
SAID = {"empty": "is empty", "lost": "is missing", "last line": "was cut off: it has "}
pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture
def damaged(replayed: StoredTables, tmp_path: Path) -> Callable[[str, str], tuple[Path, Path]]:
    """Makes (a warehouse of three runs, a commit file of a table that is emptied, cut or lost there)."""

    def make(table: str, harm: str) -> tuple[Path, Path]:
        warehouse = shutil.copytree(replayed.warehouse, tmp_path / table / "warehouse", dirs_exist_ok=True)
        newest = DeltaTable(StoredTables(warehouse, "departures").uri(table)).version()
        version = newest // 2 if "middle" in harm else newest
        commit = warehouse / "departures" / table / "_delta_log" / f"{version:020d}.json"
        for checkpoint in [*commit.parent.glob("*.checkpoint.parquet"), *commit.parent.glob("_last*")]:
            checkpoint.unlink()
        if "empty" in harm:
            commit.write_bytes(b"")
        elif "last line" in harm:
            lines = commit.read_bytes().splitlines()
            commit.write_bytes(b"\n".join(lines[:-1]))
        else:
            commit.unlink()
        if (
            harm == "a lost newest commit" and table in AFTER_THE_LEDGER
        ):  # the ledger has not seen it yet: the one before it, too
            commit = commit.with_name(f"{version - 1:020d}.json")
            commit.unlink()
        return warehouse, commit

    return make


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("harm", HARMS)
def test_a_commit_that_is_lost_is_named_by_every_verb(
    damaged: Callable[[str, str], tuple[Path, Path]], new_output: Callable[[], str], harm: str
) -> None:
    [said] = [said for word, said in SAID.items() if word in harm]
    for table in TABLES:
        warehouse, commit = damaged(table, harm)
        verbs = ("runs", "departures"), ("run", "departures", "--to", "2013-01-05"), ("publish", "departures")
        for words in verbs if table in ("runs", "panes") else verbs[:2]:
            new_output()
            assert here(*words, "--warehouse", warehouse) == 1, (table, words)
            text = new_output()
            assert f"/departures/{table}: _delta_log/{commit.name} {said}" in text, text
            assert "Put the file back from a backup" in text and "Traceback" not in text


def test_a_table_that_is_gone_has_not_never_run_and_is_not_made_anew(
    replayed: StoredTables, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    for table in ("panes", "overrides"):
        warehouse = shutil.copytree(replayed.warehouse, tmp_path / table)
        shutil.rmtree(warehouse / "departures" / table)
        for words in (("runs", "departures"), ("run", "departures", "--to", "2013-01-05")):
            new_output()
            assert here(*words, "--warehouse", warehouse) == 1
            assert (
                f"{table}: _delta_log/{0:020d}.json is missing: the table is not there, and row 3 of the "
                "ledger" in new_output()
            )
            assert not (warehouse / "departures" / table).exists()


def test_the_ledger_says_which_version_each_table_had(hourly: Hourly) -> None:
    """Beyond those: what the next step has written, the record of the attempt and the roll-forward."""
    hourly.begin("2013-01-03")
    first, second = (dict(row["table_versions"]) for row in hourly.stored.ledger())
    assert first.keys() == second.keys() == set(TABLES)
    stands = {table: DeltaTable(hourly.stored.uri(table)).version() for table in TABLES}
    assert {table for table in TABLES if stands[table] != second[table]} == AFTER_THE_LEDGER
    assert all(stands[table] == second[table] + 1 for table in AFTER_THE_LEDGER)
    assert all(first[table] <= second[table] for table in TABLES) and second["runs"] == first["runs"] + 1


@pytest.mark.first_fast
@pytest.mark.parametrize(
    "table",
    [
        "window_state",
        *(pytest.param(table, marks=pytest.mark.slow) for table in ("panes", "late_events", "validations")),
    ],
)
def test_what_a_lost_commit_held_is_replayed_as_the_guide_says(
    hourly: Hourly, new_output: Callable[[], str], table: str
) -> None:
    """Without a backup: a line without actions in place of the commit, then back to the run before, and on
    again.
    """
    hourly.begin("2013-01-03")
    newest = DeltaTable(hourly.stored.uri(table)).version()
    commit = Path(hourly.stored.uri(table)) / "_delta_log" / f"{newest:020d}.json"
    commit.write_bytes(b"")
    assert hourly.run_here("--to", "2013-01-04") == 1
    commit.write_text('{"commitInfo":{}}\n')
    assert here("state", "restore", "hourly", 1, *hourly.where) == 0, new_output()
    assert hourly.run_here("--to", "2013-01-04") == 0, new_output()
    assert_as_model(hourly.stored, "2013-01-04")
    assert_corrections_make_published(hourly.stored)
