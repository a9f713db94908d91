"""A restatement reads the panes of the windows that it touches, however long the lineage is."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.tables.delta.stored_files import StoredFiles
from tests.runs.world import START, World, every_hour, perfect

DAYS = 12
RESTATED = 6


@pytest.mark.slow
def test_of_the_pane_files_only_those_around_the_restated_day_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "world")
    for day in range(DAYS):
        world.append(every_hour(24 * day, 24 * day + 24))
    world.run(24 * DAYS)
    world.rewrite(24 * RESTATED, 24 * RESTATED + 24, every_hour(24 * RESTATED, 24 * RESTATED + 24, x=5))
    opened_paths: set[str] = set()
    dataset = StoredFiles.dataset

    def recorded(self: StoredFiles) -> Any:
        if self.uri.endswith("/panes"):
            opened_paths.update(self.paths)
        return dataset(self)

    monkeypatch.setattr(StoredFiles, "dataset", recorded)
    runs_before = world.ledger.live_runs(world.main)
    row = world.backfill(24 * RESTATED, 24 * RESTATED + 24)
    assert row is not None and row.kind == "publish"

    opened_runs = [run for run in runs_before if opened_paths & set(run.files["panes"])]
    days = {(run.slice_start - START) / timedelta(days=1) for run in opened_runs if run.slice_start}
    # Windows are open for some hours, so those of the day are also fired by the runs beside it.
    assert RESTATED in days and days <= {RESTATED - 1, RESTATED, RESTATED + 1, RESTATED + 2}
    monkeypatch.undo()
    assert world.left() == perfect(world, tmp_path / "perfect")
