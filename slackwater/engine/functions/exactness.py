"""Which pipelines with functions run on columns: a kernel decides their windows and the order of the calls,
and elements that windows keep have columns of plain types.
"""

from typing import Any

import pyarrow as pa

from slackwater.engine.calls.element_texts import has_text
from slackwater.engine.columnar import windows
from slackwater.engine.operator.elements import element_class
from slackwater.engine.operator.firing_record import overrides_clear
from slackwater.engine.rows.derived_columns import with_derived_columns
from slackwater.pipelines import Pipeline
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.windowing import ContinuousEventTimeTrigger, GlobalWindows, MergingWindowAssigner


def why_not(pipeline: Pipeline, schema: pa.Schema | None = None) -> str | None:
    """Why the function is not called on columns, in one line, or None. `schema` is the source's, if known."""
    if (reason := windows.why_not(pipeline) or _why_not_called(pipeline)) is not None:
        return reason
    if schema is None:
        return None
    columns = with_derived_columns(pipeline, schema)
    record: Any = element_class(pipeline, columns)
    if record is None:
        return "its elements have no columns"
    for name in record._fields:
        if not has_text(columns.field(name).type):
            return f"the column {name!r} of its elements is a {columns.field(name).type}"
    return None


def _why_not_called(pipeline: Pipeline) -> str | None:
    if pipeline.reduce is not None or pipeline.aggregate is not None:
        return "a fold takes elements one by one"
    if isinstance(pipeline.windows, MergingWindowAssigner):
        return "the order in which sessions merge shows in what the function is handed"
    if overrides_clear(pipeline.process):
        return "its function is told of each window that is collected"
    is_continuous = isinstance(pipeline.effective_trigger.firing_trigger, ContinuousEventTimeTrigger)
    has_one_order = isinstance(pipeline.windows, GlobalWindows)
    if is_continuous and not has_one_order and not isinstance(pipeline.process, VectorizedFunction):
        return "a function sees the order in which a continuous trigger fires the windows of a key"
    return None
