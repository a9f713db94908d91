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
        (lambda: Aggregate("product", "x"), "aggregate 'product': it is one of count, sum, mean, min, max"),
        (lambda: Aggregate("sum"), 'aggregate sum(): it needs a column, e.g. sum("amount")'),
        (lambda: agg.sum(""), "aggregate sum: the column is ''; give its name as text"),
        (lambda: agg.top("x", 0), "aggregate top: limit is 0; it is a whole number from 1"),
        (lambda: agg.collect_list("x", limit=2.5), "limit is 2.5; it is a whole number from 1"),  # type: ignore[arg-type]
        (lambda: agg.histogram("x", 5), "bounds is 5; it is a list of ascending numbers, at least one"),  # type: ignore[arg-type]
        (lambda: agg.histogram("x", [1, 1]), "bounds is (1, 1); it is a list of ascending numbers"),
        (lambda: agg.histogram("x", [float("nan")]), "bounds is (nan,); it is a list of ascending numbers"),
        (lambda: agg.min_by("x", ""), "other_column is ''; it is the name of a column"),
        (
            lambda: agg.string_agg("x", None),
            "separator is None; it belongs to string_agg, which must have it",
        ),  # type: ignore[arg-type]
        (lambda: Aggregate("mode", "x", limit=2), "limit is 2; it belongs to collect_list and top"),
        (lambda: agg.count(3), "aggregate count: the column is 3"),  # type: ignore[arg-type]
    ],
)
def test_an_aggregate_that_cannot_work_is_refused(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        make()
