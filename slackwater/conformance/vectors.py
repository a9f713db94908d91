"""The families without an operator: key groups, window arithmetic and merging window sets, one question and
one answer a step.
"""

from __future__ import annotations

from typing import Any

from slackwater.conformance.declarations import assigner_from_json
from slackwater.conformance.trace import (
    Json,
    error_to_json,
    key_from_json,
    key_type_from_json,
    window_from_json,
)
from slackwater.windowing.assigners import EventTimeSessionWindows
from slackwater.windowing.errors import TraceError, WindowingError
from slackwater.windowing.java import hash_order
from slackwater.windowing.key_groups import (
    KeyGroupRange,
    default_max_parallelism,
    key_group_of,
    murmur_hash,
    operator_index,
)
from slackwater.windowing.runtime.merging_windows import MergingWindowSet
from slackwater.windowing.windows import TimeWindow, Window, merge_time_windows, window_start

GROUP_COUNTS = (1, 2, 7, 128, 4096, 32768)


class KeyGroupsPlayer:
    def __init__(self, config: Json) -> None:
        self._key_type = key_type_from_json(config["key_type"])

    def play(self, step: Json) -> Json:
        kind, question = next(iter(step.items()))
        try:
            if kind == "key":
                return self._key(key_from_json(question))
            if kind == "operator_index":
                return {
                    "operator_index": operator_index(
                        question["key_group"], question["parallelism"], question["max_parallelism"]
                    )
                }
            if kind == "ranges":
                ranges = KeyGroupRange.ranges(question["parallelism"], question["max_parallelism"])
                return {"ranges": [[key_groups.first, key_groups.last] for key_groups in ranges]}
            if kind == "default_max_parallelism":
                return {"default_max_parallelism": default_max_parallelism(question)}
        except WindowingError as error:
            return error_to_json(error)
        raise TraceError(f"no step {kind!r} in family key_groups")

    def _key(self, key: Any) -> Json:
        code = self._key_type.hash_code(key)
        return {
            "hash": code,
            "murmur": murmur_hash(code),
            "groups": {str(count): key_group_of(key, self._key_type, count) for count in GROUP_COUNTS},
            "serialized": self._key_type.serialize(key).hex(),
        }


class _FixedClock:
    def __init__(self, now: int) -> None:
        self.current_processing_time = now


class WindowStartPlayer:
    def __init__(self, config: Json) -> None:
        self._config = config

    def play(self, step: Json) -> Json:
        kind, question = next(iter(step.items()))
        try:
            return self._answer(kind, question)
        except WindowingError as error:
            return error_to_json(error)

    def _answer(self, kind: str, question: Any) -> Json:
        if kind == "window_start":
            return {"start": window_start(question["timestamp"], question["offset"], question["size"])}
        if kind == "assign":
            return {"windows": self._assign(question)}
        if kind == "hash":
            window = window_from_json(question)
            return {"hash": window.java_hash(), "max_timestamp": window.max_timestamp()}
        if kind == "relation":
            first, second = map(window_from_json, question)
            return {"intersects": first.intersects(second), "cover": list(first.cover(second))}
        if kind == "hash_order":
            return {
                "order": [
                    list(window)
                    for window in hash_order(
                        dict.fromkeys(map(window_from_json, question)), TimeWindow.java_hash
                    )
                ]
            }
        if kind == "merge":
            merges: list[Json] = []

            def on_merge(result: Window, members: list[Window]) -> None:
                merges.append({"result": list(result), "members": [list(member) for member in members]})

            merge_time_windows(map(window_from_json, question), on_merge)
            return {"merges": merges}
        raise TraceError(f"no step {kind!r} in family window_start")

    def _assign(self, question: Json) -> list[list[int]]:
        """Through `assign_windows` and through `bind`, which must agree."""
        assigner = assigner_from_json(question["assigner"])
        clock = _FixedClock(question.get("processing_time", 0))
        windows = assigner.assign_windows(question.get("value"), question["timestamp"], clock)
        bound = assigner.bind(clock)(question.get("value"), question["timestamp"])
        if list(bound) != list(windows):
            raise AssertionError(f"{assigner!r} assigns {windows} and, bound, {bound}")
        return [list(window) for window in windows]


class MergingWindowSetPlayer:
    """One key's sessions, added, retired and reloaded."""

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
