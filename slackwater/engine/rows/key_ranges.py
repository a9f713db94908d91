"""Which keys a task owns: those at consecutive places, in the order of `key_hashes`. A range may begin and
end inside a key group, so that tasks can be made as small as their rows need, whatever the number of key
groups is.

    key group      0              1              2              3
    places    |--------------|--------------|--------------|--------------|
    2 ranges  [ 0                           )[ 1                          )   of whole key groups
    6 ranges  [ 0      )[ 1       )[ 2      )[ 3      )[ 4       )[ 5     )   that divide them

Pure arithmetic; `keys` knows which keys are in a range. Equal keys have equal places, so one key is never
divided, nor are keys of equal hash code.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.windowing.columnar.arrays.key_hashes import PLACE_BITS
from slackwater.windowing.key_groups import KeyGroupRange

_IN_NAME: Final = re.compile(r"-places-([0-9a-f]+)-([0-9a-f]+)-")


@dataclass(frozen=True, order=True)
class KeyRange:
    """The keys at the places from `first` to before `beyond`."""

    first: int
    beyond: int

    @classmethod
    def from_groups(cls, first: int, last: int) -> "KeyRange":
        """The keys of the key groups `first` to `last`, both included."""
        return cls(first << PLACE_BITS, (last + 1) << PLACE_BITS)

    @classmethod
    def from_hashes(cls, group: int, first: int, beyond: int) -> "KeyRange":
        """The keys of a key group whose scrambled hash is from `first` to before `beyond`."""
        place = group << PLACE_BITS
        return cls(place + first, place + beyond)

    @classmethod
    def in_name(cls, path: str) -> "KeyRange | None":
        """The range whose `label` is in the name of a file; None for none."""
        match = _IN_NAME.search(path.rsplit("/", 1)[-1])
        return None if match is None else cls(int(match[1], 16), int(match[2], 16))

    @property
    def key_groups(self) -> KeyGroupRange:
        return KeyGroupRange(self.first >> PLACE_BITS, (self.beyond - 1) >> PLACE_BITS)

    @property
    def divides_groups(self) -> bool:
        return divide_groups(np.array([self.first, self.beyond]))

    @property
    def label(self) -> str:
        """The range in its file's name; empty for whole key groups, which statistics show."""
        return f"-places-{self.first:x}-{self.beyond:x}" if self.divides_groups else ""

    def covers(self, other: "KeyRange") -> bool:
        return self.first <= other.first and other.beyond <= self.beyond

    def overlaps(self, other: "KeyRange") -> bool:
        return self.first < other.beyond and other.first < self.beyond

    def parts(self, count: int) -> list["KeyRange"]:
        """The range in `count` parts: of whole key groups if it has enough, else of equally many places."""
        groups = self.key_groups
        if not self.divides_groups and count <= len(groups):
            whole_groups = (groups.first + len(groups) * number // count for number in range(count + 1))
            cuts = [group << PLACE_BITS for group in whole_groups]
        else:
            size = self.beyond - self.first
            cuts = [self.first + size * number // count for number in range(count + 1)]
        return [KeyRange(*bounds) for bounds in pairwise(cuts)]

    @staticmethod
    def cuts(ranges: Sequence["KeyRange"]) -> npt.NDArray[np.int64]:
        """int64[n + 1]: the first place of each of n consecutive ranges, and the end of the last one."""
        return np.array([*(key_range.first for key_range in ranges), ranges[-1].beyond], np.int64)


def divide_groups(cuts: npt.NDArray[np.int64]) -> bool:
    """Whether some of these places are not the first one of a key group."""
    return bool(np.any(cuts & ((1 << PLACE_BITS) - 1)))


def range_cuts(ranges: int, max_parallelism: int) -> npt.NDArray[np.int64]:
    """int64[ranges + 1]: the first place of each range of all keys, and the end of the last. Up to one range
    per key group they are Flink's operators' ranges; more have equally many places each.
    """
    if ranges <= max_parallelism:
        firsts = [
            KeyGroupRange.for_operator(number, ranges, max_parallelism).first for number in range(ranges)
        ]
        return np.array([*firsts, max_parallelism], np.int64) << PLACE_BITS
    places = max_parallelism << PLACE_BITS
    return np.array([places * number // ranges for number in range(ranges + 1)], np.int64)
