"""Accumulators that are taken: the same ones, whether they stand side by side or not."""

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.aggregates import ArrowAccumulators


def join_blocks(*blocks: list[int]) -> ArrowAccumulators:
    first, *others = (ArrowAccumulators.of((), [[pa.array(block)]], len(block)) for block in blocks)
    return first.join(others)


@pytest.mark.parametrize("rows", [[], [0], [1, 2], [2, 3, 4], [4], [0, 2], [3, 2], [1, 1]], ids=str)
def test_rows_are_taken_in_order(rows: list[int]) -> None:
    accumulators = join_blocks([10, 11], [12], [13, 14])
    taken_rows = accumulators.take(np.array(rows, np.int64))
    assert taken_rows.columns[0][0].to_pylist() == [10 + row for row in rows]
    assert taken_rows.size == len(rows)


def test_rows_that_stand_side_by_side_are_not_copied() -> None:
    column = pa.array(range(5), pa.int64())
    taken_rows = ArrowAccumulators.of((), [[column]], 5).take(np.arange(1, 4))
    assert taken_rows.columns[0][0].buffers()[1].address == column.buffers()[1].address
