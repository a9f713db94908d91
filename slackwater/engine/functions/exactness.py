"""Which pipelines with functions run on columns: a kernel or a walk decides their windows, and elements that
windows keep have columns of plain types.
"""

from types import CodeType, FunctionType
from typing import Any, Final

import pyarrow as pa

from slackwater.engine.columnar import windows
from slackwater.engine.functions.element_texts import has_text
from slackwater.engine.functions.sessions import is_session
from slackwater.engine.functions.trigger_range import why_not_walked
from slackwater.engine.functions.walk_context import looks_at_elements
from slackwater.engine.operator.elements import element_class
from slackwater.engine.rows.derived_columns import with_derived_columns
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
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


def keeps_state(pipeline: Pipeline) -> bool:
    """Whether a function of `pipeline` says that it keeps state, or sees each window that is collected."""
    function = pipeline.process
    return _overrides_clear(function) or (isinstance(function, Function) and _names_a_state(function))


def is_walked(pipeline: Pipeline) -> bool:
    return keeps_state(pipeline) or is_session(pipeline) or windows.why_not(pipeline) is not None


def why_not_selected(pipeline: Pipeline) -> str | None:
    """Why windows with built-in aggregates and no kernel are not walked with their trigger, or None."""
    trigger = pipeline.effective_trigger
    no_kernel = windows.why_not(pipeline)
    if is_session(pipeline) or looks_at_elements(trigger):
        return no_kernel
    return None if why_not_walked(pipeline, keeps_state=False) is None else no_kernel


def why_not(pipeline: Pipeline, schema: pa.Schema | None = None) -> str | None:
    """Why the function is not called on columns, in one line, or None. `schema` is the source's, if known."""
    if is_walked(pipeline) and (reason := why_not_walked(pipeline, keeps_state(pipeline))) is not None:
        return reason
    if schema is None:
        return None
    columns = with_derived_columns(pipeline, schema)
    record: Any = element_class(pipeline, columns)
    if record is None:
        return "its elements have no columns"
    if pipeline.reduce is not None or pipeline.aggregate is not None:
        return None  # windows keep what the fold returns
    for name in record._fields:
        if not has_text(columns.field(name).type):
            return f"the column {name!r} of its elements is a {columns.field(name).type}"
    return None


def _overrides_clear(function: object) -> bool:
    for base in (ProcessWindowFunction, ProcessAllWindowFunction):
        if isinstance(function, base):
            return type(function).clear is not base.clear
    return False


def _names_a_state(function: Function) -> bool:
    """Whether a method of the function's class names a way to its state. A range whose function gets there by
    another way is replayed anew.
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
