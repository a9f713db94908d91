"""The pipeline of these tests: `departures` without expectations, so that a process of its own need not
import Great Expectations.

Given to commands with --pipelines; imports nothing of the tests.
"""

from slackwater.examples.departures import departures
from slackwater.pipelines import Pipeline

hourly = Pipeline(
    name="hourly",
    source=departures.source,
    watermarks=departures.watermarks,
    key_by=departures.key_by,
    window=departures.window,
    allowed_lateness=departures.allowed_lateness,
    select=departures.select,
    start=departures.start,
)
