"""A sample of the campaign of faults, and that it can fail."""

from collections import Counter
from pathlib import Path

import pytest

from tests.campaigns.faults import Campaign, problems_of

pytestmark = pytest.mark.slow


def test_what_is_killed_at_a_write_is_survived_and_not_tried_twice(tmp_path: Path) -> None:
    verdicts = list(Campaign(tmp_path, seed=7, names=["run"]).run(at_most=4))
    assert [verdict.problems for verdict in verdicts] == [[]] * 4
    continued = Campaign(tmp_path, seed=7, names=["run"])
    assert [one.write for one in continued.run(at_most=1)] != [verdicts[0].write]
    assert continued.report() == [{"scenario": "run", "tried": 5, "survived": 5}]


def test_a_row_that_is_lost_and_a_state_that_never_was_are_reported(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=1, names=["publish"])
    [scenario] = campaign.scenarios
    prepared = campaign.prepared(scenario, "columnar")
    assert problems_of(prepared, prepared.writes) == []
    prepared.final_state["published"] += Counter(["a row that was there"])
    prepared.passed_states.clear()
    assert [problem.split(":")[0] for problem in problems_of(prepared, prepared.writes)] == [
        "half a state",
        "published",
    ]
