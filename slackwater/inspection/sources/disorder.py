"""How disordered and how late the rows of a sample are, and the bound and allowed lateness that suit them.

    arrival   1   2   3   4      a row is behind by the greatest event time of the rows that arrived before
    event    10  30  20  31      it, less its own: here 0, 0, 10, 0. A bound of 10 covers all four.

Rows that arrived in the same millisecond are in no order: none of them is behind another. Each source
partition is looked at by itself. Pure: arrays in, numbers out.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

SHARES = (0.99, 0.999)
_WINDOW_MS = 3_600_000
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_ROUND_MS = (
    *(number * _SECOND for number in (1, 2, 5, 10, 15, 30)),
    *(number * _MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 4, 6, 8, 12)),
    *(number * _DAY for number in (1, 2, 3, 5, 7, 10, 14, 21, 30)),
)


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Arrival less event time, in milliseconds, of the share of the rows that the name says."""

    median_ms: int
    p99_ms: int
    p999_ms: int
    greatest_ms: int


@dataclass(frozen=True, kw_only=True)
class Disorder:
    """How far rows of a sample are behind, and what would take them.

    Attributes:
        rows: rows with both times.
        bound_99_ms, bound_999_ms, bound_all_ms: the least bounds that cover 99 %, 99.9 % and all rows.
        lateness_999_ms: beyond the suggested bound, the allowed lateness that takes 99.9 % of the rows.
        bound_ms, lateness_ms: the suggested bound and allowed lateness, round numbers.
        rows_beyond_bound: rows that are behind by more than the suggested bound.
        late_rows: rows that are late for their hour all the same, at most.
        delays: None where there is no arrival of each row.
    """

    rows: int
    bound_99_ms: int
    bound_999_ms: int
    bound_all_ms: int
    lateness_999_ms: int
    bound_ms: int
    lateness_ms: int
    rows_beyond_bound: int
    late_rows: int
    delays: Delays


def disorder_of(event_ms: Int64s, arrival_ms: Int64s, partitions: Int64s | None = None) -> Disorder | None:
    """The disorder of rows with these times, in any order; None where there are none. `partitions` has a
    number for the source partition of each row.
    """
    if not len(event_ms):
        return None
    greatest_before_ms = greatest_event_before(event_ms, arrival_ms, partitions)
    behind_ms = np.maximum(greatest_before_ms - event_ms, 0)
    bound_99_ms, bound_999_ms = (least_covering(behind_ms, share) for share in SHARES)
    bound_ms = round_up(bound_99_ms)
    lateness_999_ms = max(bound_999_ms - bound_ms, 0)
    lateness_ms = round_up(lateness_999_ms) if lateness_999_ms else 0
    # A window with its last millisecond at or before the watermark, less the lateness, takes no more rows.
    window_ends_ms = event_ms // _WINDOW_MS * _WINDOW_MS + _WINDOW_MS
    is_late = window_ends_ms + lateness_ms <= greatest_before_ms - bound_ms
    delay_ms = arrival_ms - event_ms
    return Disorder(
        rows=len(event_ms),
        bound_99_ms=bound_99_ms,
        bound_999_ms=bound_999_ms,
        bound_all_ms=int(behind_ms.max()),
        lateness_999_ms=lateness_999_ms,
        bound_ms=bound_ms,
        lateness_ms=lateness_ms,
        rows_beyond_bound=int(np.count_nonzero(behind_ms > bound_ms)),
        late_rows=int(np.count_nonzero(is_late)),
        delays=Delays(
            median_ms=least_covering(delay_ms, 0.5),
            p99_ms=least_covering(delay_ms, 0.99),
            p999_ms=least_covering(delay_ms, 0.999),
            greatest_ms=int(delay_ms.max()),
        ),
    )


def greatest_event_before(event_ms: Int64s, arrival_ms: Int64s, partitions: Int64s | None) -> Int64s:
    """For each row the greatest event time of the rows of its source partition that arrived in an earlier
    millisecond; its own where there is none.
    """
    groups = np.zeros(len(event_ms), np.int64) if partitions is None else partitions
    order = np.lexsort((arrival_ms, groups))
    event_ms, arrival_ms, groups = event_ms[order], arrival_ms[order], groups[order]
    running_ms = np.empty_like(event_ms)
    for start, end in _ranges(groups):
        running_ms[start:end] = np.maximum.accumulate(event_ms[start:end])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (groups[1:] != groups[:-1]) | (arrival_ms[1:] != arrival_ms[:-1])
    starts_group = np.ones(len(order), np.bool_)
    starts_group[1:] = groups[1:] != groups[:-1]
    first_of_moment = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    has_earlier = ~starts_group[first_of_moment]
    before_ms = np.where(has_earlier, running_ms[np.maximum(first_of_moment - 1, 0)], event_ms)
    result = np.empty_like(before_ms)
    result[order] = before_ms
    return result


def _ranges(groups: Int64s) -> list[tuple[int, int]]:
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True))


def least_covering(values: Int64s, share: float) -> int:
    """The least of `values` that at least this share of them does not exceed."""
    count = max(int(np.ceil(share * len(values) - 1e-9)), 1)
    return int(np.partition(values, count - 1)[count - 1])


def round_up(duration_ms: int) -> int:
    """The least duration that people would write and that is not shorter; at least a second."""
    return next(
        (round_ms for round_ms in _ROUND_MS if round_ms >= duration_ms), -(-duration_ms // _DAY) * _DAY
    )
