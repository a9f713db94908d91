"""Verbs that show windows show the columns that a user's own class declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.runs.planning.plan_range import RangePlanner
from tests.integration.command import here
from tests.runs.own_lanes import LANES, PIPELINES, lanes_of_a_day
from tests.runs.world import Event, ms


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("name", PIPELINES)
def test_verbs_show_the_declared_columns(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = lanes_of_a_day(PIPELINES[name], tmp_path)
    world.append([Event(20, 48.5, 9, x=2)])
    world.run(72)
    shown_texts = {
        verb: shown(capsys, *verb.split(), warehouse=world.folder)
        for verb in (
            "state windows daily --run 1",
            "state timers daily --run 1",
            "state diff daily 1 2",
            "late list daily",
            "runs daily",
            "diff daily daily",
        )
    }
    assert "silver" in shown_texts["state windows daily --run 1"]
    assert "silver" in shown_texts["state timers daily --run 1"]
    assert "silver" in shown_texts["state diff daily 1 2"]
    assert MISSED[name] in shown_texts["late list daily"]
    assert "have published the same" in shown_texts["diff daily daily"]


MISSED = {
    "lanes": "2013-01-01 20:00–22:00 ж",
    "turns": "until 2013-01-01 22:00 ж",
    "sessions": "2013-01-01 20:00–22:00 ж",
}


def shown(capsys: pytest.CaptureFixture[str], *words: str, warehouse: Path) -> str:
    """What a verb prints."""
    assert here(*words, "--warehouse", warehouse) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_plan_counts_the_lanes_that_its_rows_touch(tmp_path: Path) -> None:
    world = lanes_of_a_day(LANES, tmp_path)
    plan = RangePlanner(world.warehouse, world.pipeline).plan(ms(0), ms(24))
    # By key and time both lanes of [0, 2) and both of [22, 24) are touched: a window counts by its lane.
    assert (plan.parked_windows, plan.touched_published_windows) == (0, 4)
