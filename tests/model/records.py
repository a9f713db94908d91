"""What goes into the model and what comes out: rows, rules, and the records that one replay leaves.

Values only. Must not import slackwater. Times are integers in milliseconds, UTC; ranges and windows
are half-open [start, end).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple, TypeAlias

DAY_MS = 86_400_000

NULL_ARRIVAL = "null_arrival"
NULL_KEY = "null_key"
NULL_EVENT_TIME = "null_event_time"
TIME_OUT_OF_RANGE = "time_out_of_range"
AHEAD_OF_ARRIVAL = "ahead_of_arrival"
BEHIND_ARRIVAL = "behind_arrival"


class Event(NamedTuple):
    """One row of the source. `order` breaks ties of equal arrival; a key of several columns is a tuple."""

    event_time: int | None
    arrival: int | None
    source: Hashable
    order: object
    key: object
    values: Mapping[str, object]


class Window(NamedTuple):
    start: int
    end: int

    @property
    def max(self) -> int:
        return self.end - 1


@dataclass(frozen=True)
class Tumbling:
    size: int
    offset: int = 0


@dataclass(frozen=True)
class Sliding:
    size: int
    slide: int
    offset: int = 0


@dataclass(frozen=True)
class Cumulative:
    """Windows of one start and each size that is a multiple of `step`, up to `size`."""

    size: int
    step: int
    offset: int = 0


@dataclass(frozen=True)
class Session:
    gap: int


@dataclass(frozen=True)
class Periods:
    """Consecutive windows, each from one of the ascending `bounds` to the next: `count` hours, days, weeks or
    months (`unit`) of a time zone, counted from the date `since`, as somebody has looked them up.
    """

    bounds: tuple[int, ...]
    zone: str
    unit: str
    count: int = 1
    since: date | None = None


Assigner: TypeAlias = Tumbling | Sliding | Cumulative | Session | Periods


@dataclass(frozen=True)
class Aggregate:
    """`function` is the name of an aggregate, as `brute_force` knows it: count, sum, variance (of a
    sample), var_pop, first, collect_set …

    count() has no column and counts rows, count(column) those that are not null. `keeps` says which rows
    count at all, `rank` what first and last mean and in which order a list is, `limit` how many items it has.
    `other` is the column that min_by compares.
    """

    name: str
    function: str
    column: str | None = None
    keeps: Callable[[Event], bool] = lambda event: True
    rank: Callable[[Event], tuple] = lambda event: (event.event_time, event.arrival, event.order)
    limit: int | None = None
    other: str | None = None


@dataclass(frozen=True)
class Replay:
    """What to replay: the range [start, to) of arrivals and the pipeline's rules. idle_timeout None: no
    source partition is ever idle. Of rows of a key with equal values of `distinct_by` the first counts.
    `carried`: (values, event time) → the watermark that an event carries, or None; then the bound counts for
    nothing.
    """

    start: int
    to: int
    tick: int
    bound: int
    assigner: Assigner
    allowed_lateness: int = 0
    idle_timeout: int | None = None
    max_ahead: int = DAY_MS
    max_behind: int | None = None
    carried: Callable[[Mapping[str, Any], int], int | None] | None = None
    aggregates: tuple[Aggregate, ...] = (Aggregate("elements", "count"),)
    distinct_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pane:
    """One firing. `tick_end` is set when a timer fired it, `cause_arrival` when an element did. Withdrawn:
    elements 0, results None.

    `members` are the window's events in processing order (not in Flink's list-state order, which a session
    merge changes).
    """

    key: object
    window: Window
    firing: int
    kind: str
    elements: int
    results: Mapping[str, object] | None
    watermark: int
    tick_end: int | None
    cause_arrival: int | None
    members: tuple[Event, ...] = field(repr=False)


@dataclass(frozen=True)
class LateRow:
    """An event that no window accepted and whose own timestamp is late; `windows` are those it missed."""

    event: Event
    windows: tuple[Window, ...]
    watermark: int

    @property
    def late_by_ms(self) -> int:
        return self.watermark - self.event.event_time


@dataclass(frozen=True)
class QuarantinedRow:
    event: Event
    reason: str


@dataclass(frozen=True)
class OpenWindow:
    """A window that is neither cleaned up nor absorbed at `to`; `results` are those that it would have if it
    fired now.

    `last_fired_at` is the clock of its newest firing: the tick end, or the arrival of the late element.
    """

    key: object
    window: Window
    elements: int
    firings: int
    results: Mapping[str, object]
    first_arrival: int
    last_arrival: int
    last_fired_at: int | None
    next_firing: int | None
    cleanup_time: int


@dataclass(frozen=True)
class Timer:
    """A pending event-time timer; `purpose` is fire, cleanup, or fire+cleanup when both fall on one time."""

    key: object
    window: Window
    time: int
    purpose: str


@dataclass(frozen=True)
class SourceProgress:
    """Of one source partition at `to`, over all of its usable events. `idle` is the verdict of the last
    finished tick end.
    """

    source: Hashable
    max_event_time: int
    last_arrival: int
    idle: bool


@dataclass(frozen=True)
class FirstRow:
    """A row that is still remembered at `to`: key, values of the `distinct_by` columns, event time."""

    key: object
    values: tuple
    event_time: int


@dataclass
class Counts:
    """read = accepted + duplicate + late + unassigned + quarantined; windows open = opened − merged −
    cleaned.

    `windows_merged` counts windows that had fired and were absorbed by a merge; `windows_opened` counts
    windows made by a merge too, but not those that were absorbed before they fired. `assignments_missed` are
    the late windows of accepted elements. With these triggers each element is in a firing before its window
    is cleaned up.
    """

    read: int = 0
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    unassigned: int = 0
    quarantined: int = 0
    assignments_missed: int = 0
    on_time_firings: int = 0
    late_firings: int = 0
    windows_opened: int = 0
    windows_merged: int = 0
    windows_cleaned: int = 0


@dataclass(frozen=True)
class Outcome:
    """All that one replay leaves. `timeline` holds (tick end, watermark) where the watermark changed;
    `unfinished_tick` = start of the tick that `to` cuts, None when `to` is a tick end; `published` = the
    newest firing of each window, in order of (key, window). Panes stand in the order of their firings; the
    order of those that one tick end fires means nothing."""

    panes: tuple[Pane, ...]
    published: tuple[Pane, ...]
    late: tuple[LateRow, ...]
    unassigned: tuple[Event, ...]
    quarantined: tuple[QuarantinedRow, ...]
    open_windows: tuple[OpenWindow, ...]
    timers: tuple[Timer, ...]
    progress: tuple[SourceProgress, ...]
    watermark: int
    timeline: tuple[tuple[int, int], ...]
    unfinished_tick: int | None
    counts: Counts
    first_rows: tuple[FirstRow, ...] = ()
