"""Declarations of aggregates: kinds and columns, and refusals."""

import re
from collections.abc import Callable

import pytest

from slackwater.pipelines import Aggregate, agg
from slackwater.pipelines.errors import PipelineError


def test_each_has_its_kind_and_column() -> None:
    aggregates = [agg.count(), agg.count("x"), agg.sum("x"), agg.mean("x"), agg.min("x"), agg.max("x")]
    assert [(item.kind, item.column) for item in aggregates] == [
        ("count", None), ("count", "x"), ("sum", "x"), ("mean", "x"), ("min", "x"), ("max", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Aggregate("median", "x"), "aggregate 'median': it is one of count, sum, mean, min, max"),
        (lambda: Aggregate("sum"), 'aggregate sum(): it needs a column, e.g. sum("amount")'),
        (lambda: agg.sum(""), "aggregate sum: the column is ''; give its name as text"),
        (lambda: agg.count(3), "aggregate count: the column is 3"),  # type: ignore[arg-type]
    ],
)
def test_an_aggregate_that_cannot_work_is_refused(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        make()
