"""What Delta's own history says of `published`: which run made a commit, of which slice, and its rows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.runs.world import DAILY, HOUR, Event, World


@pytest.mark.first_fast
def test_each_commit_of_published_tells_its_run_and_its_rows(tmp_path: Path) -> None:
    world = World(tmp_path, replace(DAILY, allowed_lateness=9 * HOUR))
    world.append([Event(0.5, 1, 0), Event(3, 3.5, 1), Event(0.6, 5, 2), Event(9, 10, 3)])
    world.run(12, slice_=4 * HOUR)
    history = DeltaTable(f"{world.folder}/daily/published").history()
    runs = world.ledger.rows()
    commits = [json.loads(commit["userMetadata"]) for commit in history if "userMetadata" in commit][::-1]
    assert [(facts["seq"], facts["run_id"]) for facts in commits] == [(run.seq, run.run_id) for run in runs]
    assert [(facts["slice_start"], facts["verdict"]) for facts in commits] == [
        (f"2013-01-01T{hour:02}:00:00+00:00", "passed") for hour in (0, 4, 8)
    ]
    rows = [{name: facts.get(f"rows_{name}") for name in ("insert", "update")} for facts in commits]
    assert rows[:2] == [{"insert": 1, "update": None}, {"insert": None, "update": 1}]
    assert rows[2]["insert"] == 1
    assert history[1]["operationMetrics"]["numOutputRows"] == "1"
