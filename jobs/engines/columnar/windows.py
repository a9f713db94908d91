"""Which windows and triggers the columnar engine runs exactly, and the family that runs each.

A new family is added to `_FAMILIES`; what is in none stays with the operator engine.
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.jobs.engines.columnar.element_windows import ContinuousFamily, CountFamily
from slackwater.jobs.engines.columnar.families import Family, Setting
from slackwater.jobs.engines.columnar.fixed import FixedFamily
from slackwater.jobs.engines.columnar.sessions import SessionFamily
from slackwater.jobs.pipelines import Pipeline
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
)

_MOST_WINDOWS_PER_ELEMENT = 1000
_LONGEST_INTERVAL_MS = 1 << 62  # no time in a table and an interval wrap when they are added


@dataclass(frozen=True)
class _Entry:
    """Assigners and triggers, or a purging one around them, of exactly these classes: a subclass is a user's
    code.
    """

    assigners: tuple[type, ...]
    triggers: tuple[type, ...]
    family: Callable[[Setting], Family]

    def takes(self, trigger: Trigger) -> bool:
        """Whether the family runs windows with this trigger."""
        return type(trigger.firing_trigger) in self.triggers


_FIXED = (TumblingEventTimeWindows, SlidingEventTimeWindows)
_FAMILIES = (
    _Entry(_FIXED, (EventTimeTrigger,), FixedFamily),
    _Entry((EventTimeSessionWindows,), (EventTimeTrigger,), SessionFamily),
    _Entry((*_FIXED, GlobalWindows), (CountTrigger,), CountFamily),
    _Entry((GlobalWindows,), (NeverTrigger,), CountFamily),
    _Entry((*_FIXED, GlobalWindows), (ContinuousEventTimeTrigger,), ContinuousFamily),
    _Entry((GlobalWindows,), (EndOfStreamTrigger, EventTimeTrigger), ContinuousFamily),
)


def why_not(pipeline: Pipeline) -> str | None:
    """Why no family runs the windows of `pipeline`; None when one does."""
    entries = [entry for entry in _FAMILIES if type(pipeline.window) in entry.assigners]
    if not entries:
        return f"{type(pipeline.window).__name__} has no columnar form"
    if not any(entry.takes(pipeline.effective_trigger) for entry in entries):
        return (
            f"{_named(pipeline.effective_trigger)} has no columnar form on {type(pipeline.window).__name__}"
        )
    grid, trigger = pipeline.windows.grid, pipeline.effective_trigger
    if grid is not None and grid.size_ms > _MOST_WINDOWS_PER_ELEMENT * grid.slide_ms:
        windows = grid.size_ms // grid.slide_ms
        return f"each element has {windows:,} windows, and columns hold one row for each"
    if getattr(trigger.firing_trigger, "interval_ms", 0) > _LONGEST_INTERVAL_MS:
        return f"{_named(trigger)} adds intervals to times until they wrap"
    return None


def family_of(setting: Setting) -> Family:
    """The family that runs a pipeline's windows; `why_not` said None."""
    pipeline = setting.pipeline
    entry = next(
        e for e in _FAMILIES if type(pipeline.window) in e.assigners and e.takes(pipeline.effective_trigger)
    )
    return entry.family(setting)


def _named(trigger: Trigger) -> str:
    """The trigger's class, and that of the one inside it: what it is made with doesn't matter."""
    inner = getattr(trigger, "trigger", None)
    return type(trigger).__name__ + (f" of {_named(inner)}" if isinstance(inner, Trigger) else "")
