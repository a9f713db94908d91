"""A plan says what executors need for a slice, and where its windows do not fit a task, however many there
are."""

from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runtime.memory import VARIABLE
from slackwater.windowing import CountTrigger
from tests.runs.world import DAILY, Event, World

ROWS = 30_000
OF_ALL = replace(DAILY, key_by=None, trigger=CountTrigger.of(1000))


def test_a_plan_says_where_windows_of_all_rows_do_not_fit_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences, megabytes = {}, {}
    for name, pipeline in {
        "of all": OF_ALL,
        "of keys": replace(OF_ALL, key_by="k", max_parallelism=1),
    }.items():
        world = World(tmp_path / name, pipeline)
        world.append([Event(1, 1.5, number, f"key {number}") for number in range(ROWS)])
        for limit_mb in (1024, 1):
            monkeypatch.setenv(VARIABLE, str(limit_mb))
            plan = RangePlanner(world.warehouse, world.pipeline).plan()
            sentences[name, limit_mb] = [line for line in plan.warnings if "one task takes" in line]
            megabytes[name, limit_mb] = plan.memory_mb
            assert plan.overhead_mb == 384 + plan.memory_mb
    # 400 bytes for each element and as much for its window, beside 230 MB.
    of_all_mb = 230 + ROWS * 2 * 400 // 2**20
    assert megabytes["of all", 1] == megabytes["of all", 1024] == of_all_mb
    assert megabytes["of keys", 1] < of_all_mb
    [sentence] = sentences["of all", 1]
    assert f"about {of_all_mb} MB" in sentence and "leaves it 231" in sentence
    assert not (sentences["of all", 1024] or sentences["of keys", 1024] or sentences["of keys", 1])
