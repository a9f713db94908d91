"""Key groups: the unit in which keyed state and timers are divided among parallel operators (Flink:
KeyGroupRangeAssignment). Their number, max_parallelism, is fixed for the life of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slackwater.windowing.errors import KeyGroupError
from slackwater.windowing.java import INT_MIN, wrap_int
from slackwater.windowing.key_types import Key, KeyType

MAX_KEY_GROUPS = 32768
DEFAULT_LOWER_BOUND = 128

_CACHED_KEYS = 1 << 20
_MASK_32 = 2**32 - 1


def murmur_hash(code: int) -> int:
    """Flink's scrambling of a Java hash code (MathUtils.murmurHash): 0 to 2^31 - 1."""
    bits = (code * 0xCC9E2D51) & _MASK_32
    bits = (bits << 15 | bits >> 17) & _MASK_32
    bits = (bits * 0x1B873593) & _MASK_32
    bits = (bits << 13 | bits >> 19) & _MASK_32
    bits = (bits * 5 + 0xE6546B64) & _MASK_32
    bits ^= 4
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & _MASK_32
    bits = ((bits ^ (bits >> 13)) * 0xC2B2AE35) & _MASK_32
    mixed_code = wrap_int(bits ^ (bits >> 16))
    if mixed_code >= 0:
        return mixed_code
    return -mixed_code if mixed_code != INT_MIN else 0


def key_group_of(key: Key, key_type: KeyType, max_parallelism: int) -> int:
    return murmur_hash(key_type.hash_code(key)) % max_parallelism


def operator_index(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """Which of `parallelism` operators owns the key group."""
    return key_group * parallelism // max_parallelism


def default_max_parallelism(parallelism: int) -> int:
    """Flink's default: the power of two at or above 1.5 × parallelism, 128 to 32768. Raises KeyGroupError."""
    check_parallelism(parallelism)
    power_of_two = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(power_of_two, DEFAULT_LOWER_BOUND), MAX_KEY_GROUPS)


def check_parallelism(parallelism: int) -> None:
    """Raise KeyGroupError unless 1 <= parallelism <= 32768, Flink's bounds."""
    if not 1 <= parallelism <= MAX_KEY_GROUPS:
        raise KeyGroupError(f"A parallelism lies between 1 and {MAX_KEY_GROUPS}, got {parallelism}.")


@dataclass(frozen=True)
class KeyGroupRange:
    """Key groups `first` to `last`, both included, iterated in ascending order."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise KeyGroupError(
                f"A range of key groups needs 0 <= first <= last, got {self.first} to {self.last}."
            )

    @classmethod
    def for_operator(cls, index: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
        """The range of operator `index`. Raises KeyGroupError when an operator would own none."""
        check_parallelism(parallelism)
        if max_parallelism < parallelism:
            raise KeyGroupError(
                f"{parallelism} operators cannot share {max_parallelism} key groups; lower the parallelism."
            )
        first = (index * max_parallelism + parallelism - 1) // parallelism
        return cls(first, ((index + 1) * max_parallelism - 1) // parallelism)

    @classmethod
    def ranges(cls, parallelism: int, max_parallelism: int) -> tuple[KeyGroupRange, ...]:
        return tuple(cls.for_operator(index, parallelism, max_parallelism) for index in range(parallelism))

    def __contains__(self, key_group: int) -> bool:
        return self.first <= key_group <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __len__(self) -> int:
        return self.last - self.first + 1


class KeyGroupIndex(dict[Any, int]):
    """Key → key group of one operator: `index[key]`, cached, so that a cached key costs no call. A key
    outside `key_groups` raises KeyGroupError.
    """

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
