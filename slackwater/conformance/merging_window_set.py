"""The family `merging_window_set`: one key's sessions, added, retired and reloaded, without an operator."""

from __future__ import annotations

from typing import Any

from slackwater.conformance.keys import error_to_json, window_from_json
from slackwater.conformance.trace import Json
from slackwater.windowing.assigners import EventTimeSessionWindows
from slackwater.windowing.errors import TraceError, WindowingError
from slackwater.windowing.runtime.merging_window_set import MergingWindowSet
from slackwater.windowing.windows import Window


class MergingWindowSetPlayer:
    def __init__(self, config: Json) -> None:
        self._assigner = EventTimeSessionWindows(gap_ms=1)
        self._persisted_pairs: list[tuple[Window, Window]] = []
        self._set = self._load()

    def play(self, step: Json) -> Json:
        kind, question = next(iter(step.items()))
        try:
            answer = self._answer(kind, question)
        except WindowingError as error:
            return error_to_json(error)
        return {
            **answer,
            "mapping": [[list(window), list(state_window)] for window, state_window in self._set.pairs()],
        }

    def _answer(self, kind: str, question: Any) -> Json:
        if kind == "add":
            merges: list[Json] = []

            def on_merge(
                result: Window, absorbed_windows: list[Window], target: Window, sources: list[Window]
            ) -> None:
                merges.append(
                    {
                        "result": list(result),
                        "merged": [list(window) for window in absorbed_windows],
                        "state_window": list(target),
                        "merged_state_windows": [list(window) for window in sources],
                    }
                )

            result = self._set.add_window(window_from_json(question), on_merge)
            return {
                "result": list(result),
                "state_window": list(self._set.state_window(result) or ()),
                "merges": merges,
            }
        if kind == "retire":
            self._set.retire_window(window_from_json(question))
            return {}
        if kind == "reload":
            # MergingWindowSet.persist: `if (!mapping.equals(initialMapping)) { state.update(...) }`.
            # A mapping that is equal may iterate in another order than the list, which stays as it was.
            if self._set.has_changed:
                self._persisted_pairs = self._set.pairs()
            self._set = self._load()
            return {}
        raise TraceError(f"no step {kind!r} in family merging_window_set")

    def _load(self) -> MergingWindowSet:
        return MergingWindowSet(self._assigner, self._persisted_pairs, is_flink_exact=True)
