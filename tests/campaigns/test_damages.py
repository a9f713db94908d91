"""A sample of the campaign of damages, and that it can fail."""

from collections import Counter
from pathlib import Path

import pytest

from tests.campaigns.damages import BAD, GOOD, Campaign, Damage, judge

pytestmark = pytest.mark.slow
FLIP = Damage("columnar", "window_state", "rows", "bit flipped in pages", 1)


def test_damages_are_found_by_name_or_harmless_and_not_tried_twice(tmp_path: Path) -> None:
    verdicts = list(Campaign(tmp_path, seed=7, lineages=["columnar"]).run(at_most=4))
    assert [verdict.details for verdict in verdicts if verdict.outcome in BAD] == []
    continued = Campaign(tmp_path, seed=7, lineages=["columnar"])
    assert {verdict.trial for verdict in continued.run(at_most=1)}.isdisjoint(one.trial for one in verdicts)
    [*_, total] = continued.verdicts.report((*GOOD, *BAD))
    assert total["tried"] == 5 and sum(int(total[outcome]) for outcome in BAD) == 0


def test_a_row_that_is_lost_and_another_answer_are_reported(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=1, lineages=["columnar"])
    [lineage] = campaign.lineages
    prepared = campaign.prepared(lineage)
    assert judge(prepared, FLIP, seed=1).outcome == "found"
    prepared.final_state["published"] += Counter(["a row that was there"])
    assert judge(prepared, FLIP, seed=1).outcome == "silently wrong"
