"""Merging windows: the windows in flight of each key, kept as state, and what moves in a merge.

    in flight     [── a ──)          [── b ──)          contents under state windows a and b
    an element           [── new ──)
    merged        [────────── result ────────)          contents of b are folded into those of a; the
                                                        cleanup timers of a and b are deleted

MergingWindowSet holds one key's windows in flight, each with the state window under which its contents are
kept, and decides which windows merge; MergingWindows loads it before an element, persists it afterwards, and
moves trigger state, contents and timers along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from slackwater.windowing.assigners import MergingWindowAssigner
from slackwater.windowing.errors import MergeIntoPastError, UnknownWindowError
from slackwater.windowing.java import LONG_MAX, grown_table, hash_order, wrap_long
from slackwater.windowing.own_windows import declares_columns, java_hash, own_window_class
from slackwater.windowing.runtime.contexts import OperatorTriggerContext
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.keyed_operator import ElementTransaction
from slackwater.windowing.runtime.operator_output import WindowListener
from slackwater.windowing.runtime.window_ends import WindowEnds, delete_cleanup_timer
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import ListStateDescriptor
from slackwater.windowing.state.handles import KeyContext
from slackwater.windowing.windows import Window

MERGING_WINDOW_SET = ListStateDescriptor("merging-window-set")

# (result, absorbed windows, state window of the result, state windows to fold into it)
MergeFunction: TypeAlias = Callable[[Window, list[Window], Window, list[Window]], None]


class MergingWindowSet:
    """Window → state window, in the iteration order of a `java.util.HashMap` (Flink: MergingWindowSet).

    Contents stay under the state window of the first merged window, so that a merge moves little state.
    `is_touched` says whether any window came, went or grew since it was loaded.

    Args:
        pairs: (window, state window) as persisted; later ones win.
        is_flink_exact: an element whose own window equals a merged session takes the session's place, as in
            Flink 2.3.0, which loses the session's contents; otherwise it joins the session. Only possible
            with dynamic gaps or a user's assigner.
    """

    __slots__ = ("_assigner", "_is_flink_exact", "_largest_size", "_loaded_pairs", "_mapping", "is_touched")

    def __init__(
        self,
        assigner: MergingWindowAssigner,
        pairs: Sequence[tuple[Window, Window]] = (),
        is_flink_exact: bool = False,
    ) -> None:
        self._assigner = assigner
        self._is_flink_exact = is_flink_exact
        self._mapping: dict[Window, Window] = dict(pairs)
        self._largest_size = len(pairs)  # the hash table grows with it, and never shrinks
        self._loaded_pairs = pairs
        self.is_touched = False

    def state_window(self, window: Window) -> Window | None:
        return self._mapping.get(window)

    def add_window(self, new: Window, on_merge: MergeFunction) -> Window:
        """Add an element's own window; returns the window in which the element ends up. `on_merge` is called
        once for each group of windows that merge, unless `new` lies inside a window in flight.
        """
        mapping = self._mapping
        if not mapping:
            self._map_window(new, new)
            return new
        groups: dict[Window, list[Window]] = {}

        def collect(result: Window, members: list[Window]) -> None:
            groups[result] = list(members)

        self._assigner.merge_windows([*self._windows_in_order(), new], collect)
        result, has_merged = new, False
        for merged_window in hash_order(groups, java_hash) if len(groups) > 1 else groups:
            members = groups[merged_window]
            if new in members:
                members.remove(new)
                result, has_merged = merged_window, True
            self._merge(merged_window, members, on_merge)
        if not groups or (result == new and not has_merged):
            self._add_alone(result)
        return result

    def retire_window(self, window: Window) -> None:
        """Forget a window. Raises UnknownWindowError when it is not in flight."""
        self.is_touched = True
        if self._mapping.pop(window, None) is None:
            raise UnknownWindowError(
                f"{window!r} is not in flight; in flight are {list(self._mapping) or 'none'}."
            )

    def pairs(self) -> list[tuple[Window, Window]]:
        """The pairs to persist, in Flink's order."""
        return [(window, self._mapping[window]) for window in self._windows_in_order()]

    @property
    def has_changed(self) -> bool:
        return self.is_touched and self._mapping != dict(self._loaded_pairs)

    def _merge(self, merged_window: Window, members: list[Window], on_merge: MergeFunction) -> None:
        mapping = self._mapping
        # The new window fell inside one in flight, which Flink takes out and puts back: now it is the last of
        # its hash bucket.
        if members == [merged_window]:
            mapping[merged_window] = mapping.pop(merged_window)
            return
        target = mapping.get(members[0])
        sources = [
            state_window for member in members if (state_window := mapping.pop(member, None)) is not None
        ]
        self._map_window(merged_window, target)
        if target in sources:
            sources.remove(target)
        on_merge(merged_window, members, target, sources)

    def _add_alone(self, window: Window) -> None:
        if self._is_flink_exact or window not in self._mapping:
            self._map_window(window, window)

    def _map_window(self, window: Window, state_window: Any) -> None:
        self.is_touched = True
        self._mapping[window] = state_window
        if len(self._mapping) > self._largest_size:
            self._largest_size = len(self._mapping)

    def _windows_in_order(self) -> list[Window]:
        if len(self._mapping) < 2:
            return list(self._mapping)
        return hash_order(self._mapping, java_hash, grown_table(16, self._largest_size))


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
        # Sessions merge when they touch, whatever their gap; a user's assigner may merge by another rule.
        self._merges_on_touch = assigner.merges_on_touch
        self._is_flink_exact, self._trigger = config.is_flink_exact, config.trigger
        self._is_event_time = assigner.is_event_time
        self._lateness_ms = config.allowed_lateness_ms if self._is_event_time else 0
        self._contents = backend.state(config.contents)
        self._pairs = backend.state(MERGING_WINDOW_SET)
        self._timers, self._context, self._ends = timers, context, ends
        self._listener, self._transaction = listener, transaction
        window_type = assigner.window_type
        self._own_window_class = own_window_class(window_type) if declares_columns(window_type) else None

    def add_to_only_session(self, key: Any, new: Window) -> tuple[Window, Window, bool] | None:
        """Merge an element's own window with the only window in flight of the key, if both touch: the most
        frequent case, for which no MergingWindowSet is made. Returns the session, its state window, and
        whether it has grown; None where `MergingWindowSet.add_window` decides.
        """
        pairs = self._pairs.get(key, None)
        if pairs is None or len(pairs) != 1 or not self._merges_on_touch:
            return None
        [(only, state_window)] = pairs
        if new == only or not new.intersects(only):
            return None
        result = new.cover(only)
        if result == only:
            return only, state_window, False
        self._pairs.put_raw(key, None, [(result, state_window)])
        self.on_merge(result, [only], state_window, [])
        return result, state_window, True

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
        last_instant, cleanup = self._ends[result]
        until = cleanup if cleanup < LONG_MAX else wrap_long(last_instant + self._lateness_ms)
        timers = self._timers
        now = timers.current_watermark if self._is_event_time else timers.current_processing_time
        if until <= now:
            name = "watermark" if self._is_event_time else "processing time"
            raise MergeIntoPastError(
                f"Windows merged into {result!r}, which ends at {until}, but the {name} is at {now} already. "
                "An assigner may merge windows only into one that ends later."
            )
