"""The watermark timeline element by element and tick by tick, written from the rules alone: the tests' second
source.

Plain Python integers; every tick end of the slice is visited, and the past is looked at again each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LONG_MIN = -(2**63)


class Element(NamedTuple):
    partition: int
    arrival: int
    event_time: int


class Progress(NamedTuple):
    max_event: int
    last_arrival: int
    idle: bool


def watermarks_by_tick_end(
    elements: Sequence[Element],
    *,
    bound: int,
    idle_timeout: int | None,
    interval: int,
    from_ms: int,
    to_ms: int,
) -> dict[int, int]:
    """The watermark after each tick end e with from_ms < e <= to_ms, when the lineage starts at from_ms."""
    watermark = LONG_MIN
    answer = {}
    for end in range((from_ms // interval + 1) * interval, to_ms + 1, interval):
        held_at = []
        for partition in {element.partition for element in elements}:
            seen = [
                element for element in elements if element.partition == partition and element.arrival < end
            ]
            if seen and (
                idle_timeout is None or end - max(element.arrival for element in seen) < idle_timeout
            ):
                held_at.append(max(element.event_time for element in seen) - bound - 1)
        if held_at:
            watermark = max(watermark, min(held_at))
        answer[end] = watermark
    return answer


def progress_at(
    elements: Sequence[Element], *, idle_timeout: int | None, interval: int, from_ms: int, to_ms: int
) -> dict[int, Progress]:
    """What each partition has shown by to_ms, and whether it was idle at the newest tick end of the
    lineage.
    """
    newest_end = to_ms // interval * interval
    answer = {}
    for partition in {element.partition for element in elements if element.arrival < to_ms}:
        seen = [element for element in elements if element.partition == partition and element.arrival < to_ms]
        before = [element.arrival for element in seen if element.arrival < newest_end]
        is_idle = (
            newest_end > from_ms
            and idle_timeout is not None
            and bool(before)
            and newest_end - max(before) >= idle_timeout
        )
        answer[partition] = Progress(
            max(element.event_time for element in seen), max(element.arrival for element in seen), is_idle
        )
    return answer
