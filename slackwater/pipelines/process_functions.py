"""The checks of process functions: which ones a pipeline may have with a key and without, and what else a
pipeline with a KeyedProcessFunction may declare.

Declarations only: the engines run the function and keep its state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from slackwater.pipelines.columns import parse_columns
from slackwater.pipelines.errors import PipelineError
from slackwater.windowing import (
    AllWindowFunction,
    KeyedProcessFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from slackwater.windowing.state.descriptors import StateDescriptor

_STATE = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")


# The name of the state in which `keyed_state` holds the rows that deduplication remembers.
REMEMBERED_ROWS: Final = "distinct_by"


def name_taken(state_name: str) -> str:
    """Why a state of the user can't have the name of the state of deduplication."""
    return f"the state {state_name!r} is called as the rows that distinct_by remembers; give it another name"


def states_of(function: KeyedProcessFunction) -> tuple[StateDescriptor, ...]:
    return tuple(getattr(function, "states", ()))


def check_key_of_function(subject: str, function: object, *, is_keyed: bool) -> None:
    """Functions of windows of all rows get no key, other functions do. Raises PipelineError: the function is
    of the other kind.
    """
    name = type(function).__name__
    if is_keyed and isinstance(function, ProcessAllWindowFunction | AllWindowFunction):
        raise PipelineError(
            subject,
            f"{name} is for windows of all rows: give key_by=None, or a ProcessWindowFunction or "
            "WindowFunction, which get the key",
        )
    if not is_keyed and isinstance(function, ProcessWindowFunction | WindowFunction):
        raise PipelineError(
            subject,
            f"key_by is None, and {name} gets a key; make it a ProcessAllWindowFunction or AllWindowFunction",
        )
    if not is_keyed and isinstance(function, KeyedProcessFunction):
        raise PipelineError(
            subject, f"key_by is None, but {name} keeps state and timers by key; name its key columns"
        )


def check_keyed_process(
    subject: str, declarations: Mapping[str, object], function: KeyedProcessFunction
) -> None:
    """Check the declarations of a pipeline whose function runs without windows. Raises PipelineError: a
    declaration concerns windows, or the name of a state can't be that of a column.
    """
    window_settings = (
        "window",
        "trigger",
        "evictor",
        "reduce",
        "aggregate",
        "allowed_lateness",
        "flink_exact",
        "keep_history",
    )
    window_declarations = [name for name in window_settings if declarations[name]]
    window_declarations += [] if declarations["late_refires"] == "element" else ["late_refires"]
    if window_declarations:
        raise PipelineError(
            subject, f"a KeyedProcessFunction has no windows; leave out {', '.join(window_declarations)}"
        )
    states = states_of(function)
    if not all(isinstance(state, StateDescriptor) for state in states) or len(
        {state.name.lower() for state in states}
    ) != len(states):
        raise PipelineError(
            subject,
            f"{type(function).__name__}.states is {states!r}; it is a tuple of descriptors with different "
            "names",
        )
    for state in states:
        if not _STATE.fullmatch(state.name):
            raise PipelineError(
                subject,
                f"state {state.name!r} must be letters, digits and single underscores (double ones are ours)",
            )
        if declarations["distinct_by"] is not None and state.name == REMEMBERED_ROWS:
            raise PipelineError(subject, name_taken(state.name))
        if state.sql_type is not None:
            parse_columns(subject, "states", f"{state.name} {state.sql_type}")
