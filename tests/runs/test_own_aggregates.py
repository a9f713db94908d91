"""A function of the user's beside other aggregates, on real tables: what stands where was counted by hand.
Windows are of two hours; the rows are those of `EVENTS`, x by window: [5, 4], [7, 9, 1], [2].
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import agg
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import config_hash
from slackwater.runs.lineage.verify import Verifier
from slackwater.windowing import AggregateFunction
from slackwater.windowing.evictors import CountEvictor
from tests.runs.world import DAILY, HOUR, Event, World, moment, perfect

pytestmark = pytest.mark.first_fast

EVENTS = [
    Event(0.5, 1, 0, x=5),
    Event(3, 3.5, 1, x=7),
    Event(3.2, 4.5, 2, x=9),
    Event(4.5, 4.9, 3, x=2),
    Event(0.6, 5, 4, x=4),
    Event(3.3, 7.9, 5, x=1),
    Event(9, 10, 6, x=3),
]


class Span(AggregateFunction):
    """The distance between the least and the greatest value, as [least, greatest] while it accumulates."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return self.merge(accumulator, [value, value])

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [min(a[0], b[0]), max(a[1], b[1])] if a else b

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[1] - accumulator[0]


class Refusing(Span):
    def get_result(self, accumulator: list[int]) -> int:
        raise ValueError("no such distance")


SELECT = {"n": agg.count(), "span": agg.function(Span(), "x", returns="long")}


@pytest.fixture(params=[OperatorEngine, ColumnarEngine])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    pipeline = replace(DAILY, slice=4 * HOUR, allowed_lateness=9 * HOUR, select=SELECT)
    world = World(tmp_path / "world", pipeline, config_hash(pipeline), engine=request.param())
    world.append(EVENTS)
    return world


def published(world: World) -> dict[float, tuple]:
    return {(row["window_start"] - moment(0)) / HOUR: (row["n"], row["span"]) for row in world.published()}


def test_it_stands_beside_other_aggregates_and_is_parked_with_them(world: World, tmp_path: Path) -> None:
    world.run(12)
    assert published(world) == {0: (2, 1), 2: (3, 8), 4: (1, 0)}
    parked = world.table("window_state").read().to_pylist()
    assert "[3,3]" in {row["span__accumulator"] for row in parked}
    assert world.left() == perfect(world, tmp_path / "p")
    world.declare(select={**SELECT, "more": agg.function(Span(), "x", returns="double", where="x > 1")})
    world.run(16)
    verifier = Verifier(world.warehouse, world.pipeline, world.code, OperatorEngine(), InProcess())
    assert all(verifier.verify(seq).is_equal for seq in (1, 2, 3))


def test_an_evictor_takes_values_out_of_it(tmp_path: Path) -> None:
    world = World(tmp_path, replace(DAILY, select=SELECT, evictor=CountEvictor.of(2)))
    world.append(EVENTS[:4])
    world.append([Event(3.4, 4.95, 7, x=20), Event(13, 13.5, 8)])
    world.run(16)
    assert published(world) == {0: (1, 0), 2: (2, 11), 4: (1, 0)}


def test_what_it_raises_is_told_with_key_and_window(world: World) -> None:
    world.declare(select={**SELECT, "bad": agg.function(Refusing(), "x", returns="long")})
    with pytest.raises(Exception, match=r"no such distance.*key 'a', window"):
        world.run(4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"function": Span, "returns": "long"}, "an AggregateFunction"),
        ({"function": Span(), "returns": "number"}, "a type, such as"),
    ],
)
def test_what_is_no_function_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        agg.function(settings["function"], "x", returns=settings["returns"])
