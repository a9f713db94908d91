"""The test kit: an operator harness, clocks that a test moves, and runs that follow each other with a
snapshot in between.

For users' tests of triggers, functions and pipelines' windows; production code does not import it.
"""

from slackwater.windowing.processing_time_service import (
    HarnessProcessingTimeService,
    ManualClock,
    ReplayProcessingTimeService,
)
from slackwater.windowing.testing.harness import OperatorHarness, OperatorStoppedError, Run, RunSequence
from slackwater.windowing.testing.recorder import (
    HarnessSnapshot,
    LateElement,
    Pane,
    Row,
    SideOutput,
    Watermark,
)
from slackwater.windowing.testing.subject import KeyedProcess, Runtime, Subject

__all__ = [
    "HarnessProcessingTimeService",
    "HarnessSnapshot",
    "KeyedProcess",
    "LateElement",
    "ManualClock",
    "OperatorHarness",
    "OperatorStoppedError",
    "Pane",
    "ReplayProcessingTimeService",
    "Row",
    "Run",
    "RunSequence",
    "Runtime",
    "SideOutput",
    "Subject",
    "Watermark",
]
