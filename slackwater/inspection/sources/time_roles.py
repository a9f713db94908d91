"""Which values of a source are the event's time and its arrival: by their names, and by what the sample says
of their order. A guess, with its reasons in words.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.inspection.sources.source_fields import SourceField, times_of
from slackwater.readable import share_text

_ARRIVES = re.compile(
    r"arriv|ingest|receiv|load|insert|append|commit|writ|land|stored|process|seen|collect|sync|import|enqueue"
    r"|upload|recorded|persist"
)
_HAPPENS = re.compile(
    r"event|occur|happen|time|date|stamp|order|click|sent|sold|start|begin|began|measur|observ|pick|depart"
    r"|(^|_)(ts|at|t|when|ms)($|_)"
)
_IS_THE_TIME = re.compile(r"event_?(time|ts|date)|occurred|happened|^(ts|time|timestamp|at|event_at)$")
_CHANGES = re.compile(r"updat|modif|expir|delet|due|schedul|birth|valid|until|(^|_)end")
_DAY_MS = 86_400_000
_NEARLY_ALL = 0.999


@dataclass(frozen=True, eq=False)
class TimeCandidate:
    """A field that times can be made of; `ms` are the times, NaN where there is none."""

    field: SourceField
    ms: npt.NDArray[np.float64]

    @property
    def expression(self) -> str:
        return self.field.times[0].expression

    @property
    def reason(self) -> str:
        return self.field.times[0].reason

    @property
    def is_role_itself(self) -> bool:
        """Whether the column is a timestamp, which needs no derived column."""
        return self.field.is_column and self.expression == self.field.expression

    @property
    def share_of_times(self) -> float:
        return 1 - float(np.isnan(self.ms).mean()) if len(self.ms) else 0.0

    @property
    def has_days_only(self) -> bool:
        times_ms = self.ms[~np.isnan(self.ms)]
        return bool(len(times_ms)) and not np.any(times_ms % _DAY_MS)

    def share_not_before(self, other: "TimeCandidate") -> float:
        both = ~np.isnan(self.ms) & ~np.isnan(other.ms)
        return float((self.ms[both] >= other.ms[both]).mean()) if both.any() else 0.0

    def share_going_back(self) -> float:
        """The share of rows that are before a row in front of them, as the files have them."""
        times_ms = self.ms[~np.isnan(self.ms)]
        return float((times_ms < np.maximum.accumulate(times_ms)).mean()) if len(times_ms) else 1.0


@dataclass(frozen=True)
class ChosenTime:
    time: TimeCandidate
    reason: str


@dataclass(frozen=True)
class TimeRoles:
    """The guess: None for the event time where nothing could be one, None for the arrival where the commit or
    the file that brought a row has to tell it.
    """

    candidates: Sequence[TimeCandidate]
    event: ChosenTime | None
    arrival: ChosenTime | None


def words_of(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def time_roles(
    fields: Sequence[SourceField],
    columns: Mapping[str, pa.ChunkedArray],
    *,
    is_kafka: bool,
    is_debezium: bool,
) -> TimeRoles:
    candidates = [
        candidate
        for candidate in (TimeCandidate(field, times_of(field, columns)) for field in fields if field.times)
        if candidate.share_of_times > 0
    ]
    arrival = _arrival(candidates, is_kafka=is_kafka, is_debezium=is_debezium)
    event = _event(candidates, arrival)
    if event is None and arrival is not None:
        event = ChosenTime(arrival.time, "the only time that there is")
    return TimeRoles(candidates, event, arrival)


def _arrival(candidates: Sequence[TimeCandidate], *, is_kafka: bool, is_debezium: bool) -> ChosenTime | None:
    if is_kafka:
        for candidate in candidates:
            if candidate.field.is_column and candidate.field.column == "timestamp":
                return ChosenTime(candidate, "when Kafka got the record")
    if is_debezium:
        for candidate in candidates:
            if candidate.field.word == "ts_ms" and len(candidate.field.path) <= 1:
                return ChosenTime(candidate, "when Debezium read the change")
    namesakes = [item for item in candidates if _ARRIVES.search(words_of(item.field.word))]
    usable = [item for item in namesakes if item.share_of_times > 0.5]
    if usable:
        best = min(usable, key=lambda item: (round(1 - item.share_of_times, 2), item.share_going_back()))
        return ChosenTime(best, f"by its name{_never_earlier(best, candidates)}")
    return _arrival_by_order(candidates)


def _never_earlier(time: TimeCandidate, candidates: Sequence[TimeCandidate]) -> str:
    others = [
        item.field.name
        for item in candidates
        if item is not time and not item.has_days_only and _is_not_before(time, item)
    ]
    return f"; never earlier than {', '.join(others[:2])}" if others else ""


def _is_not_before(time: TimeCandidate, other: TimeCandidate) -> bool:
    return time.share_not_before(other) == 1


def _arrival_by_order(candidates: Sequence[TimeCandidate]) -> ChosenTime | None:
    """A time that is nearly never before another one, and goes back less than it from row to row."""
    best: tuple[float, TimeCandidate, TimeCandidate] | None = None
    for arrival in candidates:
        going_back = arrival.share_going_back()
        if arrival.has_days_only or arrival.share_of_times < _NEARLY_ALL:
            continue
        if _CHANGES.search(words_of(arrival.field.word)):
            continue
        for event in candidates:
            is_after = event is not arrival and arrival.share_not_before(event) >= _NEARLY_ALL
            if not is_after or np.array_equal(arrival.ms, event.ms, equal_nan=True) or event.has_days_only:
                continue
            if going_back <= event.share_going_back() / 2 and (best is None or going_back < best[0]):
                best = (going_back, arrival, event)
    if best is None:
        return None
    _, arrival, event = best
    return ChosenTime(
        arrival,
        f"a guess: never earlier than {event.field.name}, and goes back less from row to row "
        f"({share_text(best[0])} of the rows, and {share_text(event.share_going_back())})",
    )


def _event(candidates: Sequence[TimeCandidate], arrival: ChosenTime | None) -> ChosenTime | None:
    others = [item for item in candidates if arrival is None or item is not arrival.time]
    if not others:
        return None
    best = max(others, key=lambda item: _likelihood(item, arrival))
    words = words_of(best.field.word)
    reasons = [best.reason] if not best.is_role_itself else []
    if _IS_THE_TIME.search(words) or _HAPPENS.search(words):
        reasons.append("by its name")
    if arrival is not None and _is_not_before(arrival.time, best):
        reasons.append(f"never later than {arrival.time.field.name}")
    if best.share_of_times < 1:
        reasons.append(f"{share_text(1 - best.share_of_times)} of the rows have none: they go to quarantine")
    return ChosenTime(best, "; ".join(reasons) or "the first timestamp")


def _likelihood(item: TimeCandidate, arrival: ChosenTime | None) -> float:
    """Higher for a likelier event time; of equal ones the first counts."""
    words = words_of(item.field.word)
    score = -3 * (1 - item.share_of_times) - item.has_days_only
    score += 1.5 * bool(_IS_THE_TIME.search(words)) + bool(_HAPPENS.search(words))
    score -= 1.5 * bool(_CHANGES.search(words)) + bool(_ARRIVES.search(words))
    score -= 4 * (item.field.path[:1] == ("before",)) - 2 * (item.field.path[:1] == ("after",))
    if arrival is not None and arrival.time.share_not_before(item) < 0.9:
        score -= 1
    return score
