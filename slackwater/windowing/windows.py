"""Windows: half-open spans in integer milliseconds that wrap as Java's; alignment and merging."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from slackwater.windowing.java import LONG_MAX, LONG_MIN, hash_order, mix_to_int, remainder, wrap_long

_TWO_LONGS = struct.Struct(">qq")


class TimeWindow(NamedTuple):
    """The span [start, end) of event or processing time, in milliseconds (Flink: TimeWindow)."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The last instant of the window, end - 1: the timestamp of its results."""
        end = self[1]
        return end - 1 if end != LONG_MIN else LONG_MAX

    def intersects(self, other: TimeWindow) -> bool:
        """Whether both overlap or touch: start <= other.end and end >= other.start."""
        return self[0] <= other[1] and self[1] >= other[0]

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        start, end = self
        other_start, other_end = other
        if other_start <= start and end <= other_end:
            return other
        return tuple.__new__(TimeWindow, (min(start, other_start), max(end, other_end)))

    def java_hash(self) -> int:
        """Java's hash code, which decides the order of merged sessions."""
        return mix_to_int(self[0] + self[1])

    def serialize(self) -> bytes:
        """16 bytes: start and end, big-endian. In unsigned order negative starts come after positive ones."""
        return _TWO_LONGS.pack(self[0], self[1])


class GlobalWindow:
    """The window of everything (Flink: GlobalWindow). There is one: GLOBAL_WINDOW."""

    __slots__ = ()
    _instance: ClassVar[GlobalWindow | None] = None

    def __new__(cls) -> GlobalWindow:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def max_timestamp(self) -> int:
        """Long.MAX: its results are stamped with it."""
        return LONG_MAX

    def java_hash(self) -> int:
        return 0

    def serialize(self) -> bytes:
        return b"\x00"

    def __repr__(self) -> str:
        return "GlobalWindow()"

    def __reduce__(self) -> tuple[type[GlobalWindow], tuple[()]]:
        return (GlobalWindow, ())


GLOBAL_WINDOW: Final = GlobalWindow()

# Users may bring windows of their own, with the same five methods; for the operator a window is what its
# assigner says.
Window: TypeAlias = Any

MergeCallback: TypeAlias = Callable[[Window, list[Window]], None]


def window_start(timestamp: int, offset: int, size: int) -> int:
    """Start of the aligned window that holds `timestamp` (Flink: TimeWindow.getWindowStartWithOffset):
    timestamp - (timestamp - offset) mod size, mod in [0, size) as long as nothing wraps; each step wraps.
    """
    left_over = remainder(wrap_long(timestamp - offset), size)
    return wrap_long(timestamp - (left_over + size if left_over < 0 else left_over))


_start = itemgetter(0)


def merge_time_windows(windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
    """Group windows that overlap or touch, and report each group of more than one (Flink:
    TimeWindow.mergeWindows).

        windows    [0 ── 10)        [20 ── 30)
                       [10 ── 15)
        groups     [0 ──────── 15)  [20 ── 30)      one merge: cover [0, 15) of two members

    The windows are taken by start, in any input order; duplicates collapse. `callback` is called in ascending
    order of the groups' starts with (cover, members), members as a `java.util.HashSet` iterates them.
    """
    groups: list[list[TimeWindow]] = []
    low, high = 0, 0
    for candidate in sorted(windows, key=_start):
        start, end = candidate
        if groups and low <= end and high >= start:
            groups[-1].append(candidate)
            high = max(high, end)
        else:
            groups.append([candidate])
            low, high = start, end
    for members in groups:
        distinct = dict.fromkeys(members) if len(members) > 1 else ()
        if len(distinct) > 1:
            cover = TimeWindow(members[0][0], max([member[1] for member in members]))
            callback(cover, hash_order(distinct, TimeWindow.java_hash))
