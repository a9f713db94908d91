"""Which windows and triggers the columnar engine runs, and by which family: `_FAMILIES`."""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.engine.columnar.clock_windows import (
    CLOCK_GRIDS,
    CLOCK_SESSIONS,
    CountClockFamily,
    FixedClockFamily,
    SessionClockFamily,
)
from slackwater.engine.columnar.element_windows import ContinuousFamily, CountFamily
from slackwater.engine.columnar.families import Family, Setting
from slackwater.engine.columnar.fixed import FixedFamily, grid_of
from slackwater.engine.columnar.sessions import SessionFamily
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    CalendarEventTimeWindows,
    ContinuousEventTimeTrigger,
    CountTrigger,
    CumulateEventTimeWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
)

_MOST_WINDOWS_PER_ELEMENT = 1000


@dataclass(frozen=True)
class _SupportedWindows:
    """The exact assigner and trigger classes that one family runs; triggers also inside a PurgingTrigger."""

    assigners: tuple[type, ...]
    triggers: tuple[type, ...]
    family: Callable[[Setting], Family]

    def takes(self, trigger: Trigger) -> bool:
        return type(trigger.firing_trigger) in self.triggers


GRID_ASSIGNERS = (
    TumblingEventTimeWindows,
    SlidingEventTimeWindows,
    CumulateEventTimeWindows,
    CalendarEventTimeWindows,
)
_FAMILIES = (
    _SupportedWindows(GRID_ASSIGNERS, (EventTimeTrigger,), FixedFamily),
    _SupportedWindows((EventTimeSessionWindows,), (EventTimeTrigger,), SessionFamily),
    _SupportedWindows((*GRID_ASSIGNERS, GlobalWindows), (CountTrigger,), CountFamily),
    _SupportedWindows((GlobalWindows,), (NeverTrigger,), CountFamily),
    _SupportedWindows((*GRID_ASSIGNERS, GlobalWindows), (ContinuousEventTimeTrigger,), ContinuousFamily),
    _SupportedWindows((GlobalWindows,), (EndOfStreamTrigger, EventTimeTrigger), ContinuousFamily),
    _SupportedWindows(CLOCK_GRIDS, (ProcessingTimeTrigger,), FixedClockFamily),
    _SupportedWindows(CLOCK_GRIDS, (CountTrigger,), CountClockFamily),
    _SupportedWindows(CLOCK_SESSIONS, (ProcessingTimeTrigger,), SessionClockFamily),
)


def why_not(pipeline: Pipeline) -> str | None:
    """Why no family runs the windows of `pipeline`; None when one does."""
    entries = [entry for entry in _FAMILIES if type(pipeline.window) in entry.assigners]
    if not entries:
        return f"{type(pipeline.window).__name__} has no columnar form"
    if not any(entry.takes(pipeline.effective_trigger) for entry in entries):
        trigger_name = _class_names(pipeline.effective_trigger)
        return f"{trigger_name} has no columnar form on {type(pipeline.window).__name__}"
    trigger = pipeline.effective_trigger
    looks_at_clocks = isinstance(pipeline.window, GlobalWindows) or not (
        trigger.fires_at_last_instant or isinstance(trigger.firing_trigger, ProcessingTimeTrigger)
    )
    if looks_at_clocks and pipeline.watermarks.kind == "punctuated":
        return f"{_class_names(trigger)} is not exact under punctuated watermarks, which rise inside a tick"
    grid = grid_of(pipeline.windows)
    if grid is not None and grid.most_windows > _MOST_WINDOWS_PER_ELEMENT:
        return f"each element has {grid.most_windows:,} windows, and columns hold one row for each"
    return None


def family_of(setting: Setting) -> Family:
    """The family that runs a pipeline's windows. Only where `why_not` returns None."""
    pipeline = setting.pipeline
    entry = next(
        e for e in _FAMILIES if type(pipeline.window) in e.assigners and e.takes(pipeline.effective_trigger)
    )
    return entry.family(setting)


def _class_names(trigger: Trigger) -> str:
    inner = getattr(trigger, "trigger", None)
    return type(trigger).__name__ + (f" of {_class_names(inner)}" if isinstance(inner, Trigger) else "")
