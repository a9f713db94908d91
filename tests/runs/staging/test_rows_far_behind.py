"""Rows whose event time lies further before their arrival than `max_behind` go to quarantine, and a lineage
may take the bound up, change it and drop it between two runs.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.verify import Verifier
from tests.runs.world import DAILY, HOUR, Event, World, every_hour, moment

BY_ENGINE = pytest.mark.parametrize(
    "engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"]
)


@BY_ENGINE
def test_they_touch_no_window_and_the_bound_may_change_between_two_runs(
    tmp_path: Path, engine: Engine
) -> None:
    world = World(tmp_path / "w", DAILY, engine=engine)
    far = [Event(10 + day * 24, 22 + day * 24, 100 + day) for day in range(3)]
    world.append([*every_hour(0, 72), *far])
    bounds = [None, 2 * HOUR, 12 * HOUR]
    rows = []
    for day, bound in enumerate(bounds, 1):
        world.declare(max_behind=bound)
        rows += world.run(24 * day)
    # Twelve hours behind: late where there is no bound, and where the bound is just as much.
    assert [(row.rows_late, row.rows_quarantined) for row in rows] == [(1, 0), (0, 1), (1, 0)]
    [quarantined] = world.live("quarantine")
    assert (quarantined["reason_code"], quarantined["column_name"]) == ("behind_arrival", "e")
    assert quarantined["reason"] == "the event time is more than 2 hours before the arrival"
    verifier = Verifier(world.warehouse, world.pipeline, world.code, engine, InProcess())
    assert [fact for fact in verifier.verify(3).facts if not fact.is_equal] == []


@BY_ENGINE
def test_a_row_that_appears_after_its_slice_is_judged_by_its_own_arrival(
    tmp_path: Path, engine: Engine
) -> None:
    world = World(tmp_path / "w", replace(DAILY, max_behind=2 * HOUR), engine=engine)
    world.append(every_hour(0, 48))
    world.run(24)
    # From the slice's start both are more than two hours behind; from their arrivals only the second is.
    world.append([Event(21, 22.9, 100), Event(21, 23.1, 101)])
    [row] = world.run(48)
    assert (row.rows_folded, row.rows_quarantined) == (2, 1)
    assert [(item["reason_code"], item["arrival_time"]) for item in world.live("quarantine")] == [
        ("behind_arrival", moment(23.1))
    ]
