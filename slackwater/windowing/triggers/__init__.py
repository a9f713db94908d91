"""Triggers: when a window fires and purges its contents. Frozen values; their memory is window state."""

from slackwater.windowing.triggers.continuous import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
)
from slackwater.windowing.triggers.counting import CountTrigger, DeltaTrigger
from slackwater.windowing.triggers.nested import ProcessingTimeoutTrigger, PurgingTrigger
from slackwater.windowing.triggers.timed import (
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from slackwater.windowing.triggers.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult

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
