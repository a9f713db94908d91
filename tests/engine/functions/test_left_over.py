"""A range of keys that columns leave to the operator engine has its results, and an error that did not come
again is told.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from slackwater.engine.functions import FunctionEngine
from slackwater.windowing import ProcessWindowFunction
from slackwater.windowing.errors import UserCodeError
from tests.runs.world import DAILY, World, every_hour


class Counting(ProcessWindowFunction):
    """How many elements a window has. Calls whose number is in `failing` raise."""

    calls: ClassVar[int] = 0

    def __init__(self, failing: tuple[int, ...]) -> None:
        self.failing = failing

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[tuple[int]]:
        Counting.calls += 1
        if Counting.calls in self.failing:
            raise ValueError(f"in call {Counting.calls}")
        yield (len(list(elements)),)


def world_of(folder: Path, failing: tuple[int, ...]) -> World:
    Counting.calls = 0
    pipeline = replace(DAILY, select={}, process=Counting(failing), output="n long")
    world = World(folder, pipeline, engine=FunctionEngine())
    world.append(every_hour(0, 24))
    return world


def counts(world: World) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["window_start"], row["n"]) for row in world.published())


def test_an_error_that_does_not_come_again_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "slackwater"):
        expected = world_of(tmp_path / "expected", ())
        expected.run(24)
        assert caplog.messages == []
        failing_once = world_of(tmp_path / "once", (2,))
        failing_once.run(24)
    [message] = caplog.messages
    assert "ValueError on columns, and not element by element" in message
    assert "in call 2" in caplog.text
    assert counts(failing_once) == counts(expected) and len(counts(expected)) > 2


def test_one_that_comes_again_is_the_error_of_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(tmp_path, tuple(range(2, 1000)))
    with pytest.raises(UserCodeError, match="in call"), caplog.at_level(logging.WARNING, "slackwater"):
        world.run(24)
    assert caplog.messages == []
