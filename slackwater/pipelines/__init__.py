"""What a user writes: a pipeline, its source, aggregates and expectations.

Declarations only, with the standard library and `windowing`: DAG files import no Spark, Delta or Arrow.
"""

from slackwater.pipelines import aggregates as agg
from slackwater.pipelines import expectations as expect
from slackwater.pipelines.aggregates import Aggregate
from slackwater.pipelines.expectations import Expectation
from slackwater.pipelines.health import Health
from slackwater.pipelines.pipeline import Pipeline
from slackwater.pipelines.sources import COMMIT_TIME, DeltaSource, ParquetSource
from slackwater.pipelines.vectorized import vectorized

__all__ = [
    "COMMIT_TIME",
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
