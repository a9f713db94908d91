"""The aggregates of a pipeline on whole columns: which there are, and which accumulator each is the form of.

A new aggregate registers its columnar form in FORMS; without one its pipelines run in the operator engine.
"""

from slackwater.jobs.engines.columnar.aggregates.binding import FORMS, bind_columnar
from slackwater.jobs.engines.columnar.aggregates.protocol import ColumnarAggregate, Columns, OverflowAtRow
from slackwater.jobs.engines.columnar.aggregates.spans import combine_spans

__all__ = ["FORMS", "ColumnarAggregate", "Columns", "OverflowAtRow", "bind_columnar", "combine_spans"]
