"""An aggregate from elsewhere, `any_bits`: the bitwise or of an integer column, added by `register`."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.aggregates import AggregatedColumn, AggregateKind, Columns, register
from slackwater.engine.aggregates.table import AGGREGATES
from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.planner import COLUMNAR, choose
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.pipelines.aggregates import KINDS
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.staging.shapes import shape_of
from slackwater.windowing import TumblingEventTimeWindows
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, run_numbers
from tests.model import records as model
from tests.properties.slices import SCHEMA, Replayed, declared, replay_pipeline

WINDOW = TumblingEventTimeWindows.of(timedelta(milliseconds=100))
RULES = model.Replay(0, 400, bound=20, tick=10, assigner=model.Tumbling(100, 0), allowed_lateness=100)


class AnyBits:
    """Accumulator: the bits of all values, null for no values."""

    columns = (("bits", pa.int64()),)
    parts = columns
    result_type = pa.int64()

    def __init__(self, column: str) -> None:
        self.column = column

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return self.combine([rows.column(self.column).combine_chunks()], groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        is_valid = np.asarray(accumulators[0].is_valid())
        bits, is_empty = np.zeros(groups.size, np.int64), np.ones(groups.size, np.bool_)
        np.bitwise_or.at(bits, groups.codes[is_valid], accumulators[0].drop_null().to_numpy())
        is_empty[groups.codes[is_valid]] = False
        return [pa.array(bits, mask=is_empty)]

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        runs = run_numbers(starts, len(accumulators[0])).tolist()
        totals: list[int | None] = []
        for row, value in enumerate(accumulators[0].to_pylist()):
            before = totals[-1] if row and runs[row] == runs[row - 1] else None
            totals.append(value if before is None else before if value is None else before | value)
        return [pa.array(totals, pa.int64())]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)


def any_bits(column: str, *, where: str | None = None) -> Aggregate:
    """The constructor that users would call."""
    return Aggregate("any_bits", column, where)


def bind_any_bits(declared: Aggregate, column: AggregatedColumn) -> AnyBits:
    return AnyBits(column.name)


@pytest.fixture(autouse=True)
def restored_table() -> Iterator[None]:
    """What a test registers goes with it."""
    with patch.dict(AGGREGATES), patch.dict(KINDS):
        yield


@pytest.fixture
def pipeline() -> Pipeline:
    register("any_bits", AggregateKind(("integer",), bind_any_bits))
    select = {"bits": any_bits("x"), "odd": any_bits("x", where="x > 2")}
    return declared(RULES, window=WINDOW, select=select)


def events(fifth_delay: int) -> list[model.Event]:
    """Three keys; every seventh value is null, every fifth row arrives `fifth_delay` after its event time,
    the others 5 ms.
    """
    rows = []
    for number in range(120):
        arrival = 3 * number
        event_time = max(0, arrival - (fifth_delay if number % 5 == 0 else 5))
        value = None if number % 7 == 0 else 1 << number % 11
        rows.append(model.Event(event_time, arrival, "a", number, f"k{number % 3}", {"x": value, "y": None}))
    return rows


def replayed(pipeline: Pipeline, engines: Sequence[Any]) -> Replayed:
    return replay_pipeline(pipeline, events(110), RULES, [90, 200], [1, 2], engines=engines)


def test_both_engines_give_equal_hashes_slice_by_slice(pipeline: Pipeline) -> None:
    operator, columnar = OperatorEngine(), ColumnarEngine()
    expected = replayed(pipeline, [operator]).hashes
    assert replayed(pipeline, [columnar]).hashes == expected


def test_state_that_one_engine_has_parked_is_restored_by_the_other(pipeline: Pipeline) -> None:
    operator, columnar = OperatorEngine(), ColumnarEngine()
    expected = replayed(pipeline, [operator])
    assert replayed(pipeline, [columnar, operator]).hashes == expected.hashes
    assert replayed(pipeline, [operator, columnar]).hashes == expected.hashes


def test_a_pane_holds_the_bits_of_the_rows_in_its_window(pipeline: Pipeline) -> None:
    on_time = events(5)
    after = replay_pipeline(pipeline, on_time, RULES, [90, 200], [1, 2], engines=[ColumnarEngine()])
    assert len(after.panes) == 9
    for pane in after.panes:
        in_window = [
            event for event in on_time if (event.event_time or 0) // 100 * 100 == pane["window_start"]
        ]
        values = [event.values["x"] for event in in_window if event.key == pane["key"]]
        assert pane["bits"] == reduce(or_, (value for value in values if value is not None))


def test_the_columnar_engine_is_chosen(pipeline: Pipeline) -> None:
    assert choose(pipeline, SCHEMA).engine == COLUMNAR


def test_a_column_of_another_family_is_refused(pipeline: Pipeline) -> None:
    of_doubles = declared(RULES, window=WINDOW, select={"bits": any_bits("y")})
    with pytest.raises(PipelineError, match="the column is double; any_bits takes integers"):
        shape_of(of_doubles, SCHEMA)


def test_a_kind_is_registered_once(pipeline: Pipeline) -> None:
    with pytest.raises(ValueError, match="there is an aggregate 'any_bits'"):
        register("any_bits", AggregateKind(("integer",), bind_any_bits))
