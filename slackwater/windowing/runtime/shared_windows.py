"""Windows whose contents nothing reads before they are due: several elements are added in one call, and all
windows due at one time fire in one call. Assigner and trigger promise that no result shows it; a user's
subclass does not inherit the promise, because its methods may read windows at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from slackwater.windowing.assigners import Assign, WindowAssigner
from slackwater.windowing.errors import PROCESSING_ELEMENT, UserCodeError, WindowingError
from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.folds import BulkAggregateFunction
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.contexts import OperatorTriggerContext
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.operator_output import FiredBy, WindowListener
from slackwater.windowing.runtime.timer_queue import Owner
from slackwater.windowing.runtime.window_ends import WindowEnds
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.triggers import Trigger
from slackwater.windowing.windows import Window


def takes_together(assigner: WindowAssigner, trigger: Trigger, order_mode: OrderMode) -> bool:
    """Whether `SharedWindows` gives the same results as going element by element and timer by timer: windows
    follow from timestamps alone, no window fires before its last instant, no element changes when it fires,
    and the order of timers does not depend on the order of their registration.
    """
    return assigner.grid is not None and trigger.fires_at_last_instant and not order_mode.has_heap_timers


class WindowsOwner(Protocol):
    current_key: Any

    def emit_contents(self, key: Any, window: Window, state_window: Window, contents: Any) -> None: ...

    def forget(self, window: Window) -> None: ...


class SharedWindows:
    """The windows of an operator for which `takes_together` holds. The operator still processes single
    elements, and timers of processing time. `elements_taken` counts the elements that precede the one in
    progress in the newest `process_elements` call.
    """

    def __init__(
        self,
        owner: WindowsOwner,
        config: WindowOperatorConfig,
        *,
        contents: Any,
        timers: InternalTimerService,
        context: OperatorTriggerContext,
        ends: WindowEnds,
        listener: WindowListener | None,
        assign: Assign,
    ) -> None:
        self.elements_taken = 0
        self._owner, self._contents, self._timers = owner, contents, timers
        self._context, self._ends, self._listener = context, ends, listener
        self._assign: Callable[[Any, int], Sequence[Window]] = assign
        self._adds_all = config.contents.kind == "list" or isinstance(
            getattr(config.contents, "aggregate", None), BulkAggregateFunction
        )
        self._keeps_timestamps = config.evictor is not None
        self._purges = config.trigger.purges

    def process_elements(
        self, key: Any, values: Sequence[Any], timestamps: Sequence[int], until: int
    ) -> None:
        """Add several elements of one key, none None, that have the same windows. The watermark must not
        reach any of these windows before the last element arrives, at `until` (in ms).

        Only for operators without a transaction (`on_error="fail"`). The elements of one window come in their
        order of arrival, unless its contents belong to a BulkAggregateFunction, for which the first of the
        timestamps (in ms) is enough. After an exception, `elements_taken` says how many had been added.
        """
        self._owner.current_key = key
        contents, listener, context, timers, self.elements_taken = (
            self._contents,
            self._listener,
            self._context,
            self._timers,
            0,
        )
        elements = list(map(TimestampedValue, values, timestamps)) if self._keeps_timestamps else values
        try:
            for window in self._assign(None, timestamps[0]):
                context.window = window
                if self._adds_all:
                    is_new = contents.add_all(key, window, elements)
                else:
                    is_new = False
                    for self.elements_taken, value in enumerate(elements):
                        is_new |= contents.add(key, window, value)
                if listener is not None:
                    listener.elements_added(key, window, len(values), until)
                if is_new or timers.has_gone_back:
                    last_instant, cleanup = self._ends[window]
                    timers.register_event_time_timer(last_instant, key, window)
                    if cleanup != LONG_MAX:
                        timers.register_event_time_timer(cleanup, key, window)
        except WindowingError as error:
            error.locate(key, context.window, timestamps[self.elements_taken])
            raise
        except Exception as error:
            raise UserCodeError.of(
                error, PROCESSING_ELEMENT, key, context.window, timestamps[self.elements_taken]
            ) from error

    def on_event_times(self, timestamp: int, owners: Sequence[Owner]) -> None:
        """Handle all event-time timers of one timestamp; `owners`: keys and windows in firing order."""
        owner, contents, listener, context = self._owner, self._contents, self._listener, self._context
        by = FiredBy("event", timestamp)
        try:
            for owner.current_key, context.window in owners:
                key, window = owner.current_key, context.window
                last_instant, cleanup = self._ends[window]
                if timestamp == last_instant:
                    window_contents = contents.get(key, window)
                    if listener is not None:
                        listener.window_fired(
                            key, window, by, window_contents is not None or contents.contains(key, window)
                        )
                    if window_contents is not None:
                        owner.emit_contents(key, window, window, window_contents)
                    if listener is not None:
                        listener.firing_ended(key, window)
                    if self._purges:
                        contents.clear(key, window)
                        if listener is not None:
                            listener.window_purged(key, window)
                if timestamp == cleanup:
                    contents.clear(key, window)
                    owner.forget(window)
                    if listener is not None:
                        listener.window_cleared(key, window)
        except WindowingError as error:
            error.locate(owner.current_key, context.window, timestamp)
            raise
        except Exception as error:
            raise UserCodeError.of(
                error, "handling a timer of event time", owner.current_key, context.window, timestamp
            ) from error
