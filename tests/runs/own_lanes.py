"""Pipelines with windows of a user's own class, and a lineage of two days over a few elements.

Not a test: the part that tests of own windows share.
"""

from dataclasses import replace
from pathlib import Path

from slackwater.pipelines import Pipeline
from slackwater.windowing import TumblingEventTimeWindows
from tests.properties.own_windows import Lanes, LaneSessions, Turns
from tests.runs.world import DAILY, HOUR, Event, World

TWO_HOURS = 2 * 3_600_000
LANES = replace(DAILY, window=Lanes(TumblingEventTimeWindows.of(2 * HOUR)))
TURNS = replace(DAILY, window=Turns(TWO_HOURS))
SESSIONS = replace(DAILY, window=LaneSessions(TWO_HOURS))
PIPELINES = {"lanes": LANES, "turns": TURNS, "sessions": SESSIONS}


def lanes_of_a_day(pipeline: Pipeline, folder: Path) -> World:
    """Three elements of two lanes in one window, and one that comes after the day."""
    world = World(folder / "world", pipeline)
    world.append([Event(0.1, 0.2, 0, x=0), Event(0.2, 0.3, 1, x=1), Event(1.9, 2.0, 2, x=3)])
    world.append([Event(23.5, 23.6, 3, x=1)])
    world.run(24)
    world.append([Event(23.0, 24.1, 4, x=1), Event(23.2, 24.2, 5, x=2), Event(30, 30.5, 6, x=0)])
    world.run(48)
    return world
