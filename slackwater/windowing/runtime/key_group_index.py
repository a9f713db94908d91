"""Key → key group of one operator, checked against its range and cached: a cached key costs no call."""

from __future__ import annotations

from typing import Any

from slackwater.windowing.errors import KeyGroupError
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of
from slackwater.windowing.key_types import KeyType

_CACHED_KEYS = 1 << 20


class KeyGroupIndex(dict[Any, int]):
    """`index[key]` is the key's group; a key outside `key_groups` raises KeyGroupError."""

    def __init__(self, key_type: KeyType, key_groups: KeyGroupRange, max_parallelism: int) -> None:
        super().__init__()
        if key_groups.last >= max_parallelism:
            raise KeyGroupError(
                f"Key groups {key_groups.first} to {key_groups.last} are not all among {max_parallelism}; "
                "raise max_parallelism or choose a lower range."
            )
        self.key_type, self.key_groups, self.max_parallelism = key_type, key_groups, max_parallelism

    def __missing__(self, key: Any) -> int:
        self.key_type.check(key)
        key_group = key_group_of(key, self.key_type, self.max_parallelism)
        if key_group not in self.key_groups:
            owned_range = f"{self.key_groups.first} to {self.key_groups.last}"
            raise KeyGroupError(
                f"Key {key!r} is of key group {key_group}, but this operator owns {owned_range}; send it to "
                "its owner.",
                key=key,
            )
        if len(self) >= _CACHED_KEYS:
            self.clear()
        self[key] = key_group
        return key_group
