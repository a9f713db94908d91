"""Merging windows: the windows in flight of each key, kept as state, and what moves in a merge.

    in flight     [── a ──)          [── b ──)          contents under state windows a and b
    an element           [── new ──)
    merged        [────────── result ────────)          contents of b are folded into those of a; the
                                                        cleanup timers of a and b are deleted

MergingWindowSet decides which windows merge; this file moves trigger state, contents and timers along.
"""

from __future__ import annotations

from typing import Any

from slackwater.windowing.assigners import MergingWindowAssigner
from slackwater.windowing.errors import MergeIntoPastError
from slackwater.windowing.java import wrap_long
from slackwater.windowing.own_windows import declares_columns, own_window_class
from slackwater.windowing.runtime.element_transaction import ElementTransaction
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.merging_window_set import MergingWindowSet
from slackwater.windowing.runtime.operator_output import WindowListener
from slackwater.windowing.runtime.window_contexts import OperatorTriggerContext
from slackwater.windowing.runtime.window_ends import WindowEnds, delete_cleanup_timer
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import ListStateDescriptor
from slackwater.windowing.state.handles import KeyContext
from slackwater.windowing.windows import Window

MERGING_WINDOW_SET = ListStateDescriptor("merging-window-set")


class MergingWindows:
    """All keys' windows in flight: loaded before a key's element or timer, and persisted afterwards."""

    def __init__(
        self,
        assigner: MergingWindowAssigner,
        config: WindowOperatorConfig,
        keys: KeyContext,
        *,
        backend: StateBackend,
        timers: InternalTimerService,
        context: OperatorTriggerContext,
        ends: WindowEnds,
        listener: WindowListener | None,
        transaction: ElementTransaction | None,
    ) -> None:
        self._assigner, self._keys = assigner, keys
        self._is_flink_exact, self._trigger = config.is_flink_exact, config.trigger
        self._is_event_time, self._lateness_ms = assigner.is_event_time, config.allowed_lateness_ms
        self._contents = backend.state(config.contents)
        self._pairs = backend.state(MERGING_WINDOW_SET)
        self._timers, self._context, self._ends = timers, context, ends
        self._listener, self._transaction = listener, transaction
        window_type = assigner.window_type
        self._own_window_class = own_window_class(window_type) if declares_columns(window_type) else None

    def load(self, key: Any) -> MergingWindowSet:
        return MergingWindowSet(self._assigner, self._pairs.get(key, None) or (), self._is_flink_exact)

    def persist(self, key: Any, windows: MergingWindowSet) -> None:
        """Store the windows in flight of a key, if they differ from what was loaded."""
        if windows.has_changed:
            self._pairs.update(key, None, windows.pairs())

    def on_merge(
        self, result: Window, absorbed_windows: list[Window], target: Window, sources: list[Window]
    ) -> None:
        """A MergeFunction: move the trigger's state and the contents, and drop the absorbed windows' timers.

        Raises MergeIntoPastError if the merged window would already be collected, OwnWindowError if it does
        not fit its declared class.
        """
        if self._own_window_class is not None:
            self._own_window_class.check(result)
        transaction, context, key = self._transaction, self._context, self._keys.current_key
        if transaction is not None:
            transaction.is_undoable = False  # a merge changes what other elements have left
        context.window = result
        self._check_merge(result)
        if self._listener is not None:
            self._listener.windows_merged(key, result, absorbed_windows)
        context.merged_windows = absorbed_windows
        self._trigger.on_merge(result, context)
        for window in absorbed_windows:
            context.window = window
            self._trigger.clear(window, context)
            delete_cleanup_timer(self._timers, self._ends, key, window)
        context.window = result
        if sources:
            self._contents.merge_namespaces(key, target, sources)
        if transaction is not None:
            transaction.is_undoable = True

    def _check_merge(self, result: Window) -> None:
        last_instant = result.max_timestamp()
        if self._is_event_time:
            name, now, until = (
                "watermark",
                self._timers.current_watermark,
                wrap_long(last_instant + self._lateness_ms),
            )
        else:
            name, now, until = "processing time", self._timers.current_processing_time, last_instant
        if until <= now:
            raise MergeIntoPastError(
                f"Windows merged into {result!r}, which ends at {until}, but the {name} is at {now} already. "
                "An assigner may merge windows only into one that ends later."
            )
