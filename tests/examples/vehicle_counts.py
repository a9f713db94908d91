"""What the pipeline `tollgates` must end with, by brute force over the raw records of its source, which
Python parses. Must not import windowing, engines or expressions.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

WINDOW_MS, TICK_MS, REFRESH_MS = 10_000, 1_000, 30_000
OUT_OF_ORDERNESS_MS, LATENESS_MS = 300_000, 120_000
GREATEST_AHEAD_MS = 86_400_000
LONG_AGO = -(2**63)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Window = tuple[str, int]
Record = dict[str, Any]


@dataclass(frozen=True)
class Vehicle:
    """What a record says, and where it was in the topic; both times in milliseconds."""

    tollgate: str
    timestamp: int
    arrival: int
    partition: int
    offset: int


def vehicle_of(record: Record) -> Vehicle | str:
    """The vehicle of a record, or the reason code of one that can't be used."""
    arrival = ms(record["timestamp"])
    try:
        value = None if record["value"] is None else json.loads(record["value"].decode())
        tollgate = ((value or {}).get("tollgate") or {}).get("id")
        timestamp = None if value is None or "ts" not in value else int(value["ts"])
    except ValueError:
        return "expression_failed"
    if tollgate is None:
        return "null_key"
    if timestamp is None:
        return "null_event_time"
    if timestamp > arrival + GREATEST_AHEAD_MS:
        return "ahead_of_arrival"
    return Vehicle(tollgate, timestamp, arrival, record["partition"], record["offset"])


def vehicles_of(records: Iterable[Record]) -> list[Vehicle]:
    """The vehicles of all records that can be used."""
    return [vehicle for vehicle in map(vehicle_of, records) if isinstance(vehicle, Vehicle)]


@dataclass
class Counts:
    """What a replay of all records, which is closed at `end`, counts.

    Attributes:
        end: milliseconds.
        arrivals: by (tollgate, start of the window) the arrivals of what counts, in order, and whether the
            window's end had passed by then.
        watermarks: (end of a tick, watermark from then on).
        late: how many vehicles came too late.
    """

    end: int
    arrivals: dict[Window, list[tuple[int, bool]]] = field(default_factory=dict)
    watermarks: list[tuple[int, int]] = field(default_factory=list)
    late: int = 0

    @property
    def final(self) -> dict[Window, int]:
        """The count of each window."""
        return {window: len(arrivals) for window, arrivals in self.arrivals.items()}

    @property
    def never_fired_by_the_plain_trigger(self) -> int:
        """How many vehicles ContinuousProcessingTimeTrigger alone never publishes.

        No multiple of 30 s lies inside a window of 10 s, so its only firing is for the window's last instant:
        due a millisecond later or, where that is over when the first vehicle arrives, a millisecond after it.
        """
        count = 0
        for (_, start), arrivals in self.arrivals.items():
            due = max(last_instant(start), arrivals[0][0]) + 1
            count += sum(due > self.end or arrival >= due for arrival, _ in arrivals)
        return count

    @property
    def firings_at_an_end(self) -> int:
        """How often the example's own trigger fires at the end of a window: unless all of it came later."""
        return sum(not all(is_after_end for _, is_after_end in events) for events in self.arrivals.values())

    @property
    def later_firings(self) -> int:
        """How often it fires besides: for each vehicle after its window's end, and at each half minute
        between the window's first vehicle and its cleanup, none of which lies inside the window.
        """
        count = 0
        for (_, start), arrivals in self.arrivals.items():
            count += sum(is_after_end for _, is_after_end in arrivals)
            refresh = arrivals[0][0] // REFRESH_MS * REFRESH_MS + REFRESH_MS
            while refresh + 1 <= min(self._cleanup(start), self.end):
                count, refresh = count + 1, refresh + REFRESH_MS
        return count

    def _cleanup(self, start: int) -> int:
        """When a window is collected."""
        ends = (end for end, mark in self.watermarks if mark >= last_instant(start) + LATENESS_MS)
        return next(ends, self.end)


def counts_of(records: Iterable[Record], end: datetime) -> Counts:
    """The watermark of a tick's end follows the newest event time of the ticks before in each partition, and
    is held back by the partition where that is least; a vehicle is judged by the one of the last tick's end.
    """
    counts, watermark = Counts(ms(end)), LONG_AGO
    newest_of_partition: dict[int, int] = defaultdict(lambda: LONG_AGO)
    for tick, vehicles in _by_tick(vehicles_of(records)):
        for vehicle in vehicles:
            start = vehicle.timestamp - vehicle.timestamp % WINDOW_MS
            if watermark >= last_instant(start) + LATENESS_MS:
                counts.late += 1
                continue
            window_arrivals = counts.arrivals.setdefault((vehicle.tollgate, start), [])
            window_arrivals.append((vehicle.arrival, watermark >= last_instant(start)))
        for vehicle in vehicles:
            newest = max(newest_of_partition[vehicle.partition], vehicle.timestamp)
            newest_of_partition[vehicle.partition] = newest
        watermark = max(watermark, min(newest_of_partition.values()) - OUT_OF_ORDERNESS_MS - 1)
        counts.watermarks.append(((tick + 1) * TICK_MS, watermark))
    return counts


def _by_tick(vehicles: Iterable[Vehicle]) -> Iterator[tuple[int, list[Vehicle]]]:
    """(tick, its vehicles in the order of arrival)."""
    ticks: dict[int, list[Vehicle]] = {}
    for vehicle in sorted(vehicles, key=lambda one: (one.arrival, one.offset)):
        ticks.setdefault(vehicle.arrival // TICK_MS, []).append(vehicle)
    yield from sorted(ticks.items())


def last_instant(start: int) -> int:
    return start + WINDOW_MS - 1


def ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)
