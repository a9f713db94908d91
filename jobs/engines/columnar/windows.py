"""Which windows and triggers the columnar engine runs exactly, and the family that runs each.

A new family is added to `_FAMILIES`; what is in none stays with the operator engine.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jobs.engines.columnar.families import Family, Setting
from jobs.engines.columnar.fixed_windows import FixedFamily
from jobs.pipelines import Pipeline
from windowing import EventTimeTrigger, PurgingTrigger, SlidingEventTimeWindows, Trigger, TumblingEventTimeWindows

_MOST_WINDOWS_PER_ELEMENT = 1000


@dataclass(frozen=True)
class _Entry:
    """Assigners of exactly these classes (a subclass is a user's code), with one of these triggers."""

    assigners: tuple[type, ...]
    triggers: tuple[Trigger, ...]
    family: Callable[[Setting], Family]


_FAMILIES = (
    _Entry(
        (TumblingEventTimeWindows, SlidingEventTimeWindows),
        (EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())),
        FixedFamily,
    ),
)


def why_not(pipeline: Pipeline) -> str | None:
    """Why no family runs the windows of `pipeline`; None when one does."""
    entries = [entry for entry in _FAMILIES if type(pipeline.window) in entry.assigners]
    if not entries:
        return f"{type(pipeline.window).__name__} has no columnar form"
    if not any(pipeline.effective_trigger in entry.triggers for entry in entries):
        return f"the trigger {pipeline.effective_trigger!r} has no columnar form on {type(pipeline.window).__name__}"
    size, slide = (getattr(pipeline.window, name, 1) for name in ("size_ms", "slide_ms"))
    if size > _MOST_WINDOWS_PER_ELEMENT * slide:
        return f"each element has {size // slide:,} windows, and columns hold one row for each"
    return None


def family_of(setting: Setting) -> Family:
    """The family that runs a pipeline's windows; `why_not` said None."""
    pipeline = setting.pipeline
    entry = next(e for e in _FAMILIES if type(pipeline.window) in e.assigners and pipeline.effective_trigger in e.triggers)
    return entry.family(setting)
