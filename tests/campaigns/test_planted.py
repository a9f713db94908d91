"""One mistake of each kind is found by the campaign that should find it; every one is by
`python -m tests.campaigns.planted`.
"""

from pathlib import Path

import pytest

from tests.campaigns.breakages import BREAKAGES
from tests.campaigns.planted import FOUND, MISSED, PARTS, Campaign, Campaigns, judge

pytestmark = pytest.mark.slow


def test_every_mistake_has_a_part_that_looks_for_it() -> None:
    assert len(BREAKAGES) >= 10 and PARTS.keys() == BREAKAGES.keys()


def test_a_doubled_row_and_files_that_are_not_compared_are_found(tmp_path: Path) -> None:
    names = ["a row of panes doubled", "checksums not compared"]
    assert [(one.trial, one.outcome) for one in Campaign(tmp_path, names).run()] == [
        (name, FOUND) for name in names
    ]


def test_what_no_part_reports_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "the lease ignored", lambda campaigns, planted: iter([[], []]))
    assert judge(Campaigns(tmp_path), "the lease ignored").outcome == MISSED
