"""Thresholds are pairs of what they are about, red not below yellow."""

from datetime import timedelta
from typing import Any

import pytest

from slackwater import Health
from slackwater.pipelines.errors import PipelineError

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("thresholds", "reason"),
    [
        ({"overdue": HOUR}, r"overdue is .*a pair \(yellow, red\)"),
        ({"overdue": (HOUR,)}, "a pair"),
        ({"backlog": (600, None)}, "backlog has 600; a threshold is a datetime.timedelta"),
        ({"watermark_lag": (-HOUR, None)}, "not negative"),
        ({"overdue": (2 * HOUR, HOUR)}, "the second is not below the first"),
        ({"late_share": (0.1, 1.5)}, "late_share has 1.5; a threshold is a share from 0 to 1"),
        ({"late_share": (True, None)}, "late_share has True"),
        ({"growth": (0.5, 2.0)}, "a factor of at least 1"),
        ({"snapshots_due": (10.5, None)}, "a number of snapshots"),
    ],
)
def test_what_is_no_threshold_is_refused_with_the_rule(thresholds: dict[str, Any], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        Health(**thresholds)


def test_a_side_of_a_pair_may_be_never() -> None:
    health = Health(overdue=(None, HOUR), late_share=(None, None), growth=(2, None), snapshots_due=(40, 400))
    assert health.overdue == (None, HOUR)
