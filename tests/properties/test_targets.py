"""P11: a sink's target holds what is published at its position, after any history of runs, restatements,
restores, redrives, erasures, changed results, failures and resets, whenever the sink was added and however
far behind it is.
"""

import random
from pathlib import Path

import pytest

from tests.properties.target_histories import TargetHistory
from tests.sinks.servers import redis_server

LINEAGE = ("run", "run", "run", "restate", "restore", "redrive", "change_results", "erase", "erase")
TARGETS = ("deliver", "deliver", "fail", "fail", "reset", "add_sink")


def play(history: TargetHistory, steps: int) -> None:
    for _ in range(steps):
        getattr(history, history.chance.choice(LINEAGE))()
        getattr(history, history.chance.choice(TARGETS))()
    history.finish()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_targets_hold_what_is_published_after_a_short_history(tmp_path: Path, seed: int) -> None:
    play(TargetHistory(tmp_path, random.Random(seed)), steps=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 116))
def test_targets_hold_what_is_published_after_any_history(tmp_path: Path, seed: int) -> None:
    with redis_server(tmp_path) as url:
        play(TargetHistory(tmp_path, random.Random(seed), redis_url=url), steps=12)
