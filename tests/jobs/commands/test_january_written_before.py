"""A month that an earlier state of the product wrote (`tests.warehouses.january`) is read, continued,
verified and restated by today's code, with the hashes and counts that the earlier state had.

The user's file has the import lines of today: that change alone is no change of code.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.stored import StoredTables
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


def go_on_as_before(warehouse: Path, mine: Path, names: tuple[str, ...]) -> None:
    """Converging included: main's later runs, of the earlier state, stay live behind the restatement."""
    written = {name: StoredTables(warehouse, name).ledger()[-1]["seq"] for name in names}
    go_on(warehouse, mine, names)
    for name, seq in written.items():
        stored, wanted = StoredTables(warehouse, name), EXPECTED[name]
        assert facts(stored, since=seq) == wanted["gone_on_with"]
        assert len(stored.ledger()[-2]["live"]) > 2
        assert code_hashes(stored) == wanted["code_hashes"]


@pytest.mark.slow
def test_going_on_and_restating_come_to_the_same(earlier: Path, mine: Path, tmp_path: Path) -> None:
    go_on_as_before(shutil.copytree(earlier, tmp_path / "warehouse"), mine, FAST)


@pytest.mark.slow
def test_the_others_come_to_the_same(earlier: Path, mine: Path, tmp_path: Path) -> None:
    go_on_as_before(shutil.copytree(earlier, tmp_path / "warehouse"), mine, SLOW)


def test_the_file_of_that_time_is_refused_with_the_line_to_write(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written_out(tmp_path / "user", former=True)
    for name in OF_USER:
        assert command(earlier, file, "run", name, "--to", "2013-02-03") == 2
        assert "from slackwater import DeltaSource, KeyedProcessFunction, Pipeline" in capsys.readouterr().err
