"""The test kit: an operator harness, clocks that a test moves, and runs that follow each other with a snapshot in between.

For users' tests of triggers, functions and pipelines' windows; nothing in production imports it.
"""

from windowing.processing_time_service import HarnessProcessingTimeService, ReplayProcessingTimeService
from windowing.testing.harness import OperatorHarness, OperatorStoppedError
from windowing.testing.recorder import LateElement, Pane, Row, SideOutput, Watermark
from windowing.testing.runs import Run, RunSequence
from windowing.testing.snapshot import HarnessSnapshot
from windowing.testing.subject import KeyedProcess, ManualClock, Runtime, Subject

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
