"""Two plain loops that do what the benchmark's windows need and no more: the speed to be compared with.

Count and sum of aligned event-time windows with Flink's default trigger, late firings and allowed lateness.
No key groups, order of equal timers, errors, state back end, snapshots or other windows: an operator has to
be that fast in spite of having them.
"""

from __future__ import annotations

import heapq

from tests.benchmarks.workloads import Rows, Workload

Firing = tuple[int, int, int, int]  # key, window start, count, sum


class DefaultTrigger:
    def on_element(self, loop: GenericLoop, last_instant: int) -> bool:
        if last_instant <= loop.watermark:
            return True
        loop.register(last_instant)
        return False

    def on_event_time(self, timestamp: int, last_instant: int) -> bool:
        return timestamp == last_instant


def count_and_sum(accumulator: list[int], value: int) -> None:
    accumulator[0] += 1
    accumulator[1] += value


class GenericLoop:
    """Asks a trigger and registers two timers at every element; a heap of timers with a set against
    duplicates.
    """

    def __init__(self, workload: Workload) -> None:
        self.size, self.slide, self.lateness = workload.size, workload.slide, workload.lateness
        self.trigger, self.add = DefaultTrigger(), count_and_sum
        self.watermark = -(1 << 62)
        self.accumulators: dict[tuple[int, int], list[int]] = {}
        self.heap: list[tuple[int, int, int]] = []
        self.timers: set[tuple[int, int, int]] = set()
        self.key = self.start = 0
        self.firings: list[Firing] = []
        self.dropped = 0

    def register(self, timestamp: int) -> None:
        timer = (timestamp, self.key, self.start)
        if timer not in self.timers:
            self.timers.add(timer)
            heapq.heappush(self.heap, timer)

    def process_element(self, key: int, value: int, timestamp: int) -> None:
        size, lateness, watermark = self.size, self.lateness, self.watermark
        is_skipped = True
        self.key = key
        for start in range(timestamp - timestamp % self.slide, timestamp - size, -self.slide):
            last_instant = start + size - 1
            if last_instant + lateness <= watermark:
                continue
            is_skipped = False
            self.start = start
            accumulator = self.accumulators.get((key, start))
            if accumulator is None:
                accumulator = self.accumulators[key, start] = [0, 0]
            self.add(accumulator, value)
            if self.trigger.on_element(self, last_instant):
                self.firings.append((key, start, accumulator[0], accumulator[1]))
            self.register(last_instant + lateness)
        if is_skipped:
            self.dropped += 1

    def process_watermark(self, watermark: int) -> None:
        self.watermark = watermark
        heap = self.heap
        while heap and heap[0][0] <= watermark:
            timer = heapq.heappop(heap)
            self.timers.discard(timer)
            timestamp, key, start = timer
            self.key, self.start = key, start
            last_instant = start + self.size - 1
            accumulator = self.accumulators.get((key, start))
            if self.trigger.on_event_time(timestamp, last_instant) and accumulator is not None:
                self.firings.append((key, start, accumulator[0], accumulator[1]))
            if timestamp == last_instant + self.lateness:
                self.accumulators.pop((key, start), None)


def generic_loop(workload: Workload, rows: Rows) -> tuple[list[Firing], int, int]:
    """Firings, dropped rows, and windows that are still open."""
    loop = GenericLoop(workload)
    tick = 0
    for key, timestamp, value, at in zip(rows.keys, rows.timestamps, rows.values, rows.ticks, strict=True):
        while tick < at:
            loop.process_watermark(rows.watermarks[tick])
            tick += 1
        loop.process_element(key, value, timestamp)
    for watermark in rows.watermarks[tick:]:
        loop.process_watermark(watermark)
    return loop.firings, loop.dropped, len(loop.accumulators)


def inlined_loop(workload: Workload, rows: Rows) -> tuple[list[Firing], int, int]:
    """The same for this one trigger and aggregate: no calls, and one list of windows for each moment instead
    of timers.
    """
    size, slide, lateness = workload.size, workload.slide, workload.lateness
    accumulators: dict[tuple[int, int], list[int]] = {}
    firings: list[Firing] = []
    due: dict[int, list[tuple[int, int]]] = {}
    moments: list[int] = []
    dropped, tick, watermark = 0, 0, -(1 << 62)

    def wait(moment: int, window: tuple[int, int]) -> None:
        waiting = due.get(moment)
        if waiting is None:
            due[moment] = [window]
            heapq.heappush(moments, moment)
        else:
            waiting.append(window)

    def advance() -> None:
        while moments and moments[0] <= watermark:
            moment = heapq.heappop(moments)
            for window in due.pop(moment):
                last_instant = window[1] + size - 1
                if moment == last_instant:
                    count, total = accumulators[window]
                    firings.append((*window, count, total))
                if moment == last_instant + lateness:
                    del accumulators[window]

    for key, timestamp, value, at in zip(rows.keys, rows.timestamps, rows.values, rows.ticks, strict=True):
        while tick < at:
            watermark = rows.watermarks[tick]
            tick += 1
            advance()
        start, oldest, is_skipped = timestamp - timestamp % slide, timestamp - size, True
        while start > oldest:
            last_instant = start + size - 1
            if last_instant + lateness > watermark:
                is_skipped = False
                window = (key, start)
                accumulator = accumulators.get(window)
                if accumulator is None:
                    accumulator = accumulators[window] = [1, value]
                    if last_instant > watermark:
                        wait(last_instant, window)
                    if lateness or last_instant <= watermark:
                        wait(last_instant + lateness, window)
                else:
                    accumulator[0] += 1
                    accumulator[1] += value
                if last_instant <= watermark:
                    firings.append((key, start, accumulator[0], accumulator[1]))
            start -= slide
        dropped += is_skipped
    for watermark in rows.watermarks[tick:]:  # noqa: B007  # `advance` reads it
        advance()
    return firings, dropped, len(accumulators)
