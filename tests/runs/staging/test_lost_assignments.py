"""A run whose windows have lost or doubled what they took is rejected, whichever engine has done it, and
nothing of it is published.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.columnar.families import Part, RangeInput
from slackwater.engine.columnar.fixed import FixedFamily
from slackwater.engine.operator import OperatorEngine
from slackwater.inspection.inspection import Inspection
from slackwater.runs.staging.staged_slice import SliceRejected
from slackwater.windowing.columnar.window_columns import rows_of
from slackwater.windowing.runtime.window_log import WindowLog
from tests.runs.world import DAILY, World, every_hour


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A day of a row an hour that has been run, and another that has not."""
    world = World(tmp_path / "w", DAILY)
    world.append(every_hour(0, 48))
    world.run(24)
    return world


def rejected(world: World) -> str:
    """What the check of a rejected run has seen."""
    before = world.left()
    with pytest.raises(SliceRejected, match="assignments are conserved"):
        world.run(48)
    assert world.left() == before
    [attempt] = Inspection("daily", world.tables).open_attempts()
    checks = [
        row for row in world.tables["validations"].read().to_pylist() if row["run_id"] == attempt["run_id"]
    ]
    [check] = [row for row in checks if row["expectation"] == "assignments are conserved"]
    assert not check["passed"]
    return str(check["observed"])


def test_rows_lost_on_the_way_to_their_windows_of_columns(world: World) -> None:
    receive = FixedFamily.receive

    def losing(family: FixedFamily, parts: Mapping[str, Part]) -> RangeInput:
        """All but the first piece of a window."""
        range_input, later_pieces = receive(family, parts), slice(1, None)
        slice_input = range_input.slice_input
        without_first = slice_input._replace(
            pieces=rows_of(slice_input.pieces, later_pieces),
            piece_accumulators=slice_input.piece_accumulators.take(later_pieces),
        )
        return range_input._replace(slice_input=without_first)

    world.engine = ColumnarEngine()
    with patch.object(FixedFamily, "receive", losing):
        assert " 24 made, 0 missed, " in rejected(world)
    assert [row.rows_accepted for row in world.run(48)] == [24]


def test_windows_of_the_operator_that_vanish_with_what_they_took(world: World) -> None:
    def forgetting(log: WindowLog, key: Any, window: Any) -> None:
        """Take the window off the log and count nothing of it."""
        lives = log.lives.get(window, {})
        lives.pop(key, None)
        if not lives:
            log.lives.pop(window, None)

    world.engine = OperatorEngine()
    with patch.object(WindowLog, "window_cleared", forgetting):
        assert " 24 made, 0 missed, 6 open, 0 cleaned up" in rejected(world)
    assert [row.rows_accepted for row in world.run(48)] == [24]
