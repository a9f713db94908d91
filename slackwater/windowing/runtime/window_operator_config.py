"""A window operator's configuration: the user's choices in one frozen, picklable value for executors."""

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
    """Built by WindowOperatorBuilder, which checks combinations.

    Attributes:
        key_selector: element → key; None when callers have the keys.
        allowed_lateness_ms: how long after its last instant a window of event time stays.
        has_late_output: late elements go to the late side output instead of being counted and dropped.
        contents: the state of a window's contents, which `function` turns into rows.
        is_flink_exact: reproduce Flink's loss of a session, see MergingWindowSet.
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
