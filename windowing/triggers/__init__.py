"""Triggers: when a window fires, and when it forgets its contents.

Frozen values that a user declares and executors receive; what they remember is state of the window.
"""

from windowing.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from windowing.triggers.counting import CountTrigger, DeltaTrigger
from windowing.triggers.nested import ProcessingTimeoutTrigger, PurgingTrigger
from windowing.triggers.timed import EndOfStreamTrigger, EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from windowing.triggers.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
]
