"""Which operators may take elements together that share windows yet to fire: those in which nobody looks at a window before it is due.

Decides from declarations alone, and by exact classes: a subclass is a user's, and may look whenever it likes.
"""

from __future__ import annotations

from windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from windowing.order_modes import OrderMode
from windowing.triggers import EventTimeTrigger, PurgingTrigger, Trigger


def takes_together(assigner: WindowAssigner, trigger: Trigger, order_mode: OrderMode) -> bool:
    """Whether `WindowOperator.process_elements` does what `process_element` would, one by one; for operators that take nothing back.

    The order of the elements of one window has to stay, unless its contents are those of a BulkAggregateFunction.

    Timestamps alone give the windows; they fire at their last instant at the earliest, and no element before changes when; and the order
    of timers is that of their contents.
    """
    are_fixed = type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
    return are_fixed and _waits(trigger) and not order_mode.has_heap_timers


def _waits(trigger: Trigger) -> bool:
    return type(trigger) is EventTimeTrigger or (type(trigger) is PurgingTrigger and type(trigger.trigger) is EventTimeTrigger)
