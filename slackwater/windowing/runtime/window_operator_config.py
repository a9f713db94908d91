"""What a window operator is to do: every choice of the user in one frozen, picklable value.

Executors receive it and make operators from it; nothing here runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.evictors import Evictor
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.runtime.window_functions import InternalWindowFunction
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers import Trigger


@dataclass(frozen=True, kw_only=True)
class WindowOperatorConfig:
    """Made by WindowOperatorBuilder, which checks that the parts go together.

    Attributes:
        key_type: type of the keys.
        key_selector: element → key, for callers that do not have the key already; None when all have.
        assigner, trigger, evictor: as declared; the trigger is the assigner's default unless named.
        allowed_lateness_ms: how long after its last instant a window of event time stays.
        has_late_output: whether late elements go to the late side output instead of being counted and
            dropped.
        contents: the state that holds a window's contents.
        function: what turns contents into rows.
        is_flink_exact: reproduce Flink's loss of a session whose bounds an element's own window equals; see
            MergingWindowSet.
    """

    key_type: KeyType
    key_selector: Callable[[Any], Any] | None
    assigner: WindowAssigner
    trigger: Trigger
    evictor: Evictor | None
    allowed_lateness_ms: int
    has_late_output: bool
    contents: StateDescriptor
    function: InternalWindowFunction
    is_flink_exact: bool
