"""A sample of the campaign of faults, and that it can fail."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.campaigns.faults import SURVIVED, Campaign, outcome_of, problems_of
from tests.integration.command import environment
from tests.integration.stored import ROOT

pytestmark = pytest.mark.slow


def test_what_is_killed_at_a_write_is_survived_and_not_tried_twice(tmp_path: Path) -> None:
    verdicts = list(Campaign(tmp_path, seed=7, names=["run"]).run(at_most=4))
    assert [verdict.details for verdict in verdicts] == [[]] * 4
    continued = Campaign(tmp_path, seed=7, names=["run"])
    assert [one.trial for one in continued.run(at_most=1)] != [verdicts[0].trial]
    of_run = {"": "run", "tried": 5, SURVIVED: 5}
    assert continued.verdicts.report([SURVIVED]) == [of_run, {**of_run, "": "all"}]


def test_a_row_that_is_lost_and_a_state_that_never_was_are_reported(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=1, names=["publish"])
    [scenario] = campaign.scenarios
    prepared = campaign.prepared(scenario, "columnar")
    assert problems_of(prepared, prepared.writes) == []
    prepared.final_state["published"] += Counter(["a row that was there"])
    prepared.passed_states.clear()
    problems = problems_of(prepared, prepared.writes)
    assert [problem.split(":")[0] for problem in problems] == ["half a state", "published"]
    assert outcome_of(problems) == "half states" and outcome_of(problems[1:]) == "rows lost"


def test_drivers_with_tasks_on_spark_die_one_after_another_in_one_jvm(
    tmp_path: Path,
) -> None:
    options = ["--only", "run", "--engine", "columnar on Spark", "--at-most", "2", "--work", str(tmp_path)]
    process = subprocess.run(
        [sys.executable, "-m", "tests.campaigns.faults", *options],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    report = json.loads(process.stdout.splitlines()[-1])
    assert [(row[""], row["tried"], row[SURVIVED]) for row in report] == [
        ("run, columnar on Spark", 2, 2),
        ("all", 2, 2),
    ]
