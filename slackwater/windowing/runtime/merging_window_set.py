"""The sessions of one key: the windows in flight, and the state window under which each one's contents are
kept.

    window → state window      [0, 10) → [0, 10)     [20, 30) → [20, 30)
    an element's [8, 22)       touches both
    merged                     [0, 30) → [0, 10)     contents of [20, 30) are folded into those of [0, 10)

The operator loads a set before an element and persists it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from slackwater.windowing.assigners import MergingWindowAssigner
from slackwater.windowing.errors import UnknownWindowError
from slackwater.windowing.java import grown_table, hash_order
from slackwater.windowing.own_windows import java_hash
from slackwater.windowing.windows import Window

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

    def __init__(
        self,
        assigner: MergingWindowAssigner,
        pairs: Sequence[tuple[Window, Window]] = (),
        is_flink_exact: bool = False,
    ) -> None:
        self._assigner = assigner
        self._is_flink_exact = is_flink_exact
        # Sessions merge when they touch, whatever their gap; a user's assigner may merge by another rule.
        self._merges_what_touches = assigner.merges_on_touch
        self._mapping: dict[Window, Window] = dict(pairs)
        self._table = grown_table(16, len(self._mapping))
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
        if len(mapping) == 1 and self._merges_what_touches and new not in mapping:
            return self._add_beside_one(new, on_merge)
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

    def _add_beside_one(self, new: Window, on_merge: MergeFunction) -> Window:
        """`add_window` with one window in flight, the most frequent case, without asking the assigner."""
        [(only, state_window)] = self._mapping.items()
        if not new.intersects(only):
            self._map_window(new, new)
            return new
        result = new.cover(only)
        if result != only:
            self._mapping.clear()
            self._map_window(result, state_window)
            on_merge(result, [only], state_window, [])
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
        self._table = grown_table(self._table, len(self._mapping))

    def _windows_in_order(self) -> list[Window]:
        if len(self._mapping) < 2:
            return list(self._mapping)
        return hash_order(self._mapping, java_hash, self._table)
