"""Which pipelines with functions of their own run on columns: those whose windows a kernel decides, whose
elements have columns of plain types where windows keep them, and whose function sees nothing but the contents
and the firing.
"""

from types import CodeType, FunctionType
from typing import Any, Final

import pyarrow as pa

from slackwater.jobs.engines.columnar import windows
from slackwater.jobs.engines.functions.element_texts import has_text
from slackwater.jobs.engines.functions.session_walk import is_session
from slackwater.jobs.engines.operator.elements import element_class
from slackwater.jobs.engines.rows.derived_columns import with_derived_columns
from slackwater.jobs.pipelines import Pipeline
from slackwater.windowing import (
    EventTimeTrigger,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from slackwater.windowing.functions import Function

_STATE: Final = frozenset(
    (
        "window_state",
        "global_state",
        "get_state",
        "get_list_state",
        "get_map_state",
        "get_reducing_state",
        "get_aggregating_state",
    )
)


def why_not(pipeline: Pipeline, schema: pa.Schema | None = None) -> str | None:
    """Why the function of `pipeline` is not called on columns, in one line; None when it is. `schema` is that
    of the source, None where it is not known.
    """
    function = pipeline.process
    reason = _why_no_sessions(pipeline) if is_session(pipeline) else windows.why_not(pipeline)
    if reason is not None:
        return reason
    if _overrides_clear(function):
        return f"{type(function).__name__}.clear sees each window that is collected"
    if isinstance(function, Function) and _keeps_state(function):
        return f"{type(function).__name__} keeps state"
    if schema is None:
        return None
    columns = with_derived_columns(pipeline, schema)
    record: Any = element_class(pipeline, columns)
    if record is None:
        return "its elements have no columns"
    is_folded = pipeline.reduce is not None or pipeline.aggregate is not None
    if is_folded and pipeline.evictor is None:
        return None  # windows keep what the fold returns
    for name in record._fields:
        if not has_text(columns.field(name).type):
            return f"the column {name!r} of its elements is a {columns.field(name).type}"
    return None


def _why_no_sessions(pipeline: Pipeline) -> str | None:
    """Why sessions with a function are not walked on columns."""
    if type(pipeline.effective_trigger.firing_trigger) is not EventTimeTrigger:
        return "sessions have a columnar form only where they fire at their end"
    return None


def _overrides_clear(function: object) -> bool:
    for base in (ProcessWindowFunction, ProcessAllWindowFunction):
        if isinstance(function, base):
            return type(function).clear is not base.clear
    return False


def _keeps_state(function: Function) -> bool:
    """Whether a method of the function's class names a way to its state. A function that gets there by
    another way is left to the operator engine when it does.
    """
    return any(
        _names_state(method.__code__)
        for kind in type(function).__mro__
        for method in vars(kind).values()
        if isinstance(method, FunctionType) and not kind.__module__.startswith(Function.__module__)
    )


def _names_state(code: CodeType) -> bool:
    return not _STATE.isdisjoint(code.co_names) or any(
        _names_state(constant) for constant in code.co_consts if isinstance(constant, CodeType)
    )
