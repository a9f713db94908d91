"""A month that an earlier state of the product wrote (`tests.warehouses.january`) is read, continued,
verified and restated by today's code, with the hashes and counts that the earlier state had.

The user's file has the import lines of today: that change alone is no change of code.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.stored import Row, StoredTables
from tests.warehouses.january.lineages import (
    NAMES,
    OF_USER,
    code_hashes,
    command,
    expected,
    facts,
    go_on,
    succeed,
    unpacked,
    verified,
    written_out,
)

EXPECTED = expected()
# An example's windows and a user's own function; the others are among the slow tests.
FAST = ("departures", "rests")
SLOW = tuple(name for name in NAMES if name not in FAST)
# Those whose declaration is what it was: the example `departures` has a suite of Great Expectations by now.
AS_BEFORE = tuple(name for name in NAMES if name != "departures")
EACH = [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse as it was written. Not to be written."""
    return unpacked(tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's pipelines with the import lines of today."""
    return written_out(tmp_path_factory.mktemp("user"), former=False)


@pytest.mark.parametrize("name", EACH)
def test_its_ledger_and_tables_are_read(
    earlier: Path, mine: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, wanted = StoredTables(earlier, name), EXPECTED[name]
    assert facts(stored, since=stored.ledger()[-1]["seq"]) == wanted["as_written"]
    succeed(earlier, mine, "runs", name, "--output", "json")
    rows = json.loads(capsys.readouterr().out)
    hashes = [(row["seq"], row["state_hash"], row["output_hash"]) for row in rows]
    assert hashes == [(row["seq"], row["state_hash"], row["output_hash"]) for row in stored.ledger()]


@pytest.mark.parametrize("name", EACH)
def test_it_is_verified_and_what_has_changed_is_said_to_be_import_lines(
    earlier: Path, mine: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for subject, wanted in EXPECTED[name]["verified"].items():
        assert verified(earlier, mine, name, subject) == wanted
        notes = capsys.readouterr().err
        assert ("but for the lines that import Slackwater" in notes) == (subject != "--tables")


Hashes = tuple[str, str]


def hashes_of(row: Row) -> Hashes:
    return row["state_hash"], row["output_hash"]


def gone_on_with(warehouse: Path, mine: Path, names: tuple[str, ...]) -> dict[str, list[Row]]:
    """Go on, and give the ledger rows that are new.

    Converging included: main's later runs, of the earlier state, stay live behind the restatement.
    """
    written = {name: StoredTables(warehouse, name).ledger()[-1]["seq"] for name in names}
    go_on(warehouse, mine, names)
    new = {}
    for name, seq in written.items():
        stored = StoredTables(warehouse, name)
        new[name] = [row for row in stored.ledger() if row["seq"] > seq]
        assert len(stored.ledger()[-2]["live"]) > 2
        assert code_hashes(stored) == EXPECTED[name]["code_hashes"]
    return new


@pytest.mark.slow
def test_going_on_and_restating_come_to_the_same(earlier: Path, mine: Path, tmp_path: Path) -> None:
    warehouse = shutil.copytree(earlier, tmp_path / "warehouse")
    for name, rows in gone_on_with(warehouse, mine, AS_BEFORE).items():
        assert (
            facts(StoredTables(warehouse, name), since=rows[0]["seq"] - 1) == EXPECTED[name]["gone_on_with"]
        )


@pytest.mark.slow
def test_an_example_with_further_expectations_gives_each_slice_the_hashes_of_before(
    earlier: Path, mine: Path, tmp_path: Path
) -> None:
    """A branch does not converge with runs of another configuration, so it replays all days up to the first
    of today's: those that the earlier state did not replay have the hashes of its runs on main.
    """
    warehouse = shutil.copytree(earlier, tmp_path / "warehouse")
    of_main = [row for row in StoredTables(warehouse, "departures").ledger() if row["kind"] == "run"]
    by_slice: dict[int, set[Hashes]] = {}
    for row in [*of_main, *EXPECTED["departures"]["gone_on_with"]["ledger"]]:
        if row["kind"] == "run":
            by_slice.setdefault(row["slice_end"], set()).add(hashes_of(row))
    new = [
        row for row in gone_on_with(warehouse, mine, ("departures",))["departures"] if row["kind"] == "run"
    ]
    assert len(new) == 2 + 10
    assert all(hashes_of(row) in by_slice[row["slice_end"]] for row in new)
    assert hashes_of(new[-1]) == hashes_of(new[0])


def test_the_file_of_that_time_is_refused_with_the_line_to_write(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written_out(tmp_path / "user", former=True)
    for name in OF_USER:
        assert command(earlier, file, "run", name, "--to", "2013-02-03") == 2
        assert "from slackwater import DeltaSource, KeyedProcessFunction, Pipeline" in capsys.readouterr().err
