"""What a run says of its late and quarantined rows is taken by the range tasks that hand them over: whoever
validates reads no row of a file that a task has written.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine, Outcome, Replay
from slackwater.engine.transport.in_process import Transport
from slackwater.runs.staging.slices import Slice
from tests.runs.world import HOUR, Event, World, every_hour, ms

BY_ENGINE_AND_SIZE = pytest.mark.parametrize(
    ("engine", "file_rows"),
    [
        pytest.param(ColumnarEngine, 1, id="columnar, files"),
        pytest.param(ColumnarEngine, 50_000, id="columnar, driver", marks=pytest.mark.slow),
        pytest.param(OperatorEngine, 1, id="operator, files", marks=pytest.mark.slow),
        pytest.param(OperatorEngine, 50_000, id="operator, driver", marks=pytest.mark.slow),
    ],
)


def checks_of_staged_run(world: World, first: float, last: float) -> dict[str, str]:
    """Stage the slice [first, last) on main; returns the titles of its checks and what they have observed."""
    runner = world.runner()
    staged_slice = runner.stage(runner.parent("main"), Slice(ms(first), ms(last)))
    rows = world.table("validations").read(["run_id", "expectation", "observed"]).to_pylist()
    return {row["expectation"]: row["observed"] for row in rows if row["run_id"] == staged_slice.row.run_id}


def unreadable_files(monkeypatch: pytest.MonkeyPatch, engine: type[Engine], file_rows: int) -> list[str]:
    """From now on the files that tasks write lose their contents when the replay is over. Returns the tables
    of which there are some; it is filled by the replays.
    """
    tables: list[str] = []
    replay_slice = engine.replay

    def replay_and_empty(self: Any, replay: Replay, transport: Transport) -> Outcome:
        outcome = replay_slice(self, replace(replay, file_rows=file_rows), transport)
        for table, files in outcome.files.items():
            for file in files:
                Path(replay.folders[table], file.path).write_bytes(b"")
            tables.append(table)
        return outcome

    monkeypatch.setattr(engine, "replay", replay_and_empty)
    return tables


@BY_ENGINE_AND_SIZE
def test_rows_that_the_mark_makes_late_are_counted_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: type[Any], file_rows: int
) -> None:
    """The first two late rows are of [26, 28), which the first lateness has collected; the third is too late
    for the second one, too.
    """
    world = World(tmp_path / "w", engine=engine())
    late_rows = [Event(27.25, 50.2, 100, "a"), Event(27.5, 51.2, 101, "b"), Event(3.5, 55, 102)]
    world.append([*every_hour(0, 72), *late_rows])
    world.run(48)
    world.declare(allowed_lateness=26 * HOUR)
    tables = unreadable_files(monkeypatch, engine, file_rows)
    note = checks_of_staged_run(world, 48, 72)["late rows of collected windows"]
    assert ("late_events" in tables and "panes" in tables) == (file_rows == 1)
    assert note.startswith("2 rows are for windows that were collected under a smaller allowed lateness")
    assert "--from 2013-01-02T00:00:00Z --to 2013-01-03T03:12:00.001Z" in note


@BY_ENGINE_AND_SIZE
def test_reasons_of_quarantined_rows_are_counted_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: type[Any], file_rows: int
) -> None:
    world = World(tmp_path / "w", engine=engine())
    ahead = [replace(event, event=event.event + 30 * 24) for event in every_hour(0, 20)]
    world.append([*ahead, replace(every_hour(21, 22)[0], key=None)])
    tables = unreadable_files(monkeypatch, engine, file_rows)
    observed = checks_of_staged_run(world, 0, 24)["usable rows"]
    assert ("quarantine" in tables) == (file_rows == 1)
    assert observed.startswith("all 21 rows were quarantined: ") and " 20," in observed and " 1;" in observed
