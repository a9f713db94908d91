"""Several upkeeps of one pipeline that really start together: one works and the others end with 5; without
the claim no row changes.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from slackwater.examples.departures import departures
from slackwater.runs.lineage.maintain import Maintenance
from slackwater.runs.staging.lease import LeaseHeld
from slackwater.tables.delta import upkeep
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.written_files import WrittenFile
from tests.racing import race
from tests.runs.rolling import commit_run, pane, roll_forward
from tests.tables.ledger.ledger_rows import day

RUNS = 12


@pytest.fixture
def many_files(tmp_path: Path) -> Path:
    """A warehouse in which every run has left a file or two in each table: first firings, and late ones of
    the run before.
    """
    rolling = roll_forward(tmp_path)
    rolling.tables.ensure()
    for number in range(RUNS):
        late = [pane(2, "late", n=number, start=day(number - 1))] if number else []
        commit_run(
            rolling.tables,
            [pane(1, n=number, start=day(number)), pane(1, key="b", n=number, start=day(number)), *late],
        )
        rolling.finish()
    return tmp_path


def facts(root: Path) -> dict[str, list[Any]]:
    """The rows of every table, in any order; of attempts only those at slices."""
    tables = roll_forward(root).tables
    return {
        name: sorted(map(str, DeltaTable(folder.uri).to_pyarrow_table().to_pylist()))
        for name, folder in tables.folders.items()
    }


def maintain(root: Path, meet: str | None) -> str:
    """Upkeep by one process; with `meet` those that race wait for each other between writing a merged file
    and the commit.
    """
    if meet is not None:
        _wait_before_commits(Path(meet))
    rolling = roll_forward(root)
    try:
        done = Maintenance(departures, rolling.tables, rolling, lease=meet is None).run()
    except LeaseHeld as error:
        return f"exit {error.exit_code}: {error}"
    return "; ".join(f"{one.table}: {one.note}" for one in done if one.note) or "done"


def _wait_before_commits(meet: Path) -> None:
    class SlowParts(Parts):
        def __init__(self, folder: Folder, **options: Any) -> None:
            super().__init__(folder, **options)
            self.table = folder.name

        def close(self) -> list[WrittenFile]:
            files = super().close()
            if files:
                _meet(meet / self.table)
            return files

    upkeep.Parts = SlowParts  # type: ignore[misc]


def _meet(place: Path) -> None:
    """Until both have been here, or the other has nothing to do here."""
    place.mkdir(parents=True, exist_ok=True)
    (place / str(os.getpid())).touch()
    until = time.monotonic() + 20
    while len(list(place.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.slow
def test_two_upkeeps_at_once_change_no_row_even_without_the_claim(
    many_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = facts(many_files)
    outcomes = race(
        tmp_path_factory.mktemp("race"), maintain, many_files, str(tmp_path_factory.mktemp("meet"))
    )
    assert facts(many_files) == before
    assert sum("somebody else was writing" in outcome for outcome in outcomes) >= 1, outcomes
    tables = roll_forward(many_files).tables
    assert all(len(DeltaTable(tables[name].uri).file_uris()) <= 1 for name in ("runs", "corrections"))


@pytest.mark.slow
def test_of_two_upkeeps_that_start_together_one_works_and_the_other_says_who(
    many_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = facts(many_files)
    outcomes = sorted(race(tmp_path_factory.mktemp("race"), maintain, many_files, None))
    assert outcomes[0] == "done" and outcomes[1].startswith(
        "exit 5: departures: upkeep of its tables is at work already: "
    )
    assert {name: rows for name, rows in facts(many_files).items() if name != "attempts"} == {
        name: rows for name, rows in before.items() if name != "attempts"
    }
