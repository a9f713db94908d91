"""What a user writes: a pipeline, its source, aggregates and expectations.

Declarations only, with the standard library and `windowing`, so that a DAG file can import them without
Spark, Delta or Arrow.
"""

from slackwater.jobs.pipelines import aggregates as agg
from slackwater.jobs.pipelines import expectations as expect
from slackwater.jobs.pipelines.aggregates import Aggregate
from slackwater.jobs.pipelines.expectations import Expectation
from slackwater.jobs.pipelines.health import Health
from slackwater.jobs.pipelines.pipeline import Pipeline
from slackwater.jobs.pipelines.sources import DeltaSource, ParquetSource
from slackwater.jobs.pipelines.vectorized import vectorized

__all__ = [
    "Aggregate",
    "DeltaSource",
    "Expectation",
    "Health",
    "ParquetSource",
    "Pipeline",
    "agg",
    "expect",
    "vectorized",
]
