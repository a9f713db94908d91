"""A pipeline's windows as the core's configuration: assigner, trigger, evictor, lateness and the function on
a window's contents. Declarations only, checked as soon as they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.windowing import (
    AggregateFunction,
    AllWindowFunction,
    CountWindows,
    Evictor,
    GlobalWindows,
    KeyedProcessFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    Trigger,
    WindowAssigner,
    WindowFunction,
)
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig

ProcessFunction = (
    KeyedProcessFunction
    | ProcessWindowFunction
    | WindowFunction
    | ProcessAllWindowFunction
    | AllWindowFunction
    | VectorizedFunction
)


def parts_of_count_windows(subject: str, window: CountWindows, has_own_parts: bool) -> dict[str, Any]:
    """Assigner, trigger and evictor that `CountWindows` stand for, as Flink's countWindow has them; refused
    beside a trigger or an evictor of the pipeline's own.
    """
    if has_own_parts:
        raise PipelineError(
            subject,
            f"{window} have a trigger and an evictor already; with others write "
            "window=GlobalWindows.create(), trigger=..., evictor=...",
        )
    return {
        "window": GlobalWindows.create(),
        "trigger": window.get_default_trigger(),
        "evictor": window.get_default_evictor(),
    }


class WindowDeclarations(Protocol):
    """The declarations of a pipeline that concern windows; a `Pipeline` has them."""

    @property
    def windows(self) -> WindowAssigner: ...
    @property
    def effective_trigger(self) -> Trigger: ...
    @property
    def evictor(self) -> Evictor | None: ...
    @property
    def allowed_lateness(self) -> timedelta: ...
    @property
    def flink_exact(self) -> bool: ...
    @property
    def select(self) -> Mapping[str, Any]: ...
    @property
    def reduce(self) -> ReduceFunction | Callable[[Any, Any], Any] | None: ...
    @property
    def aggregate(self) -> AggregateFunction | None: ...
    @property
    def process(self) -> ProcessFunction | None: ...


def window_config(
    pipeline: WindowDeclarations,
    key_type: KeyType,
    select: AggregateFunction,
    one_by_one: ProcessWindowFunction | ProcessAllWindowFunction | None = None,
) -> WindowOperatorConfig:
    """The configuration of the window operator of a pipeline with windows. `select` computes the pipeline's
    aggregates, if it has any; `one_by_one` calls its vectorized function with one firing at a time. Raises
    ConfigurationError: the parts don't go together.
    """
    builder = WindowOperatorBuilder(key_type, pipeline.windows).trigger(pipeline.effective_trigger)
    builder.allowed_lateness(pipeline.allowed_lateness)
    if pipeline.evictor is not None:
        builder.evictor(pipeline.evictor)
    if pipeline.flink_exact:
        builder.flink_exact()
    function = pipeline.process
    assert not isinstance(function, KeyedProcessFunction), "it has no windows"
    if isinstance(function, VectorizedFunction):
        function = one_by_one or ProcessWindowFunction()
    if pipeline.reduce is not None:
        return builder.reduce(pipeline.reduce, function)
    if pipeline.aggregate is not None:
        return builder.aggregate(pipeline.aggregate, function)
    if isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
        return builder.process(function)
    if isinstance(function, WindowFunction | AllWindowFunction):
        return builder.apply(function)
    return builder.aggregate(select)


def sees_elements(pipeline: WindowDeclarations) -> bool:
    """Whether any part looks at the elements themselves, which then need the columns that it reads."""
    return not pipeline.select or parts_look_at_elements(pipeline)


def parts_look_at_elements(pipeline: WindowDeclarations) -> bool:
    """Whether assigner, trigger or evictor look at the elements themselves."""
    parts = (pipeline.windows, pipeline.effective_trigger, pipeline.evictor)
    return any(part is not None and part.looks_at_elements for part in parts)
