"""A sample of the campaign of bad input, and that it can fail."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaigns.bad_input import AS_EXPECTED, OTHERWISE, Campaign, all_cases, judge
from tests.campaigns.cases.world import World

pytestmark = pytest.mark.slow


def test_bad_input_has_the_outcome_that_its_case_says(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=7)
    assert [verdict for verdict in campaign.run(at_most=8) if verdict.outcome != AS_EXPECTED] == []


def test_there_are_enough_cases_and_no_two_of_one_name() -> None:
    names = [(case.group, case.name) for case in all_cases()]
    assert len(names) >= 150 and len(set(names)) == len(names)


def test_another_outcome_is_reported(tmp_path: Path) -> None:
    case = next(case for case in all_cases() if case.name == "null key")

    def act(world: World) -> None:
        case.act(world)
        world.quarantines({})

    assert judge(case, tmp_path / "right").outcome == AS_EXPECTED
    assert judge(replace(case, act=act), tmp_path / "wrong").outcome == OTHERWISE
