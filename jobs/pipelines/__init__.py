"""What a user writes: a pipeline, its source, aggregates and expectations.

Declarations only: standard library and `windowing`, so that a DAG file can read them without Spark, Delta or Arrow.
"""

from jobs.pipelines import expectations as expect
from jobs.pipelines.aggregates import (
    Aggregate,
    approx_distinct,
    approx_quantile,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    stddev,
    sum,
    variance,
)
from jobs.pipelines.expectations import Expectation
from jobs.pipelines.pipeline import Pipeline
from jobs.pipelines.sources import DeltaSource

__all__ = [
    "Aggregate",
    "DeltaSource",
    "Expectation",
    "Pipeline",
    "approx_distinct",
    "approx_quantile",
    "count",
    "count_distinct",
    "expect",
    "first",
    "last",
    "max_",
    "mean",
    "min_",
    "stddev",
    "sum",
    "variance",
]
