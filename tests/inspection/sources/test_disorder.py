"""Disorder and lateness of a sample, beside loops over every pair of rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.inspection.sources.disorder import disorder_of, least_covering, round_up

HOUR = 3_600_000
ROWS = st.lists(
    st.tuples(st.integers(0, 5 * HOUR), st.integers(0, 40), st.integers(0, 2)), min_size=1, max_size=40
)


def behind(rows: list[tuple[int, int, int]]) -> list[int]:
    """For each (event, arrival, partition) how far it is behind, by a look at every other row."""
    return [
        max([0, *(e - event for e, a, p in rows if p == partition and a < arrival)])
        for event, arrival, partition in rows
    ]


def covering(values: list[int], share: float) -> int:
    return next(bound for bound in sorted(values) if sum(v <= bound for v in values) >= share * len(values))


@given(ROWS)
def test_bounds_are_the_least_that_cover_their_share(rows: list[tuple[int, int, int]]) -> None:
    events, arrivals, partitions = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    disorder = disorder_of(events, arrivals, partitions)
    assert disorder is not None
    lags = behind(rows)
    assert disorder.bound_99_ms == covering(lags, 0.99)
    assert disorder.bound_999_ms == covering(lags, 0.999)
    assert disorder.bound_all_ms == max(lags)
    assert disorder.rows_beyond_bound == sum(lag > disorder.bound_ms for lag in lags)
    # Row by row: the watermark of the rows before it, and the end of its hour.
    late = sum(
        event // HOUR * HOUR + HOUR - 1 + disorder.lateness_ms <= event + lag - disorder.bound_ms - 1
        for (event, _, _), lag in zip(rows, lags, strict=True)
        if lag
    )
    assert disorder.late_rows == late
    delays = [arrival - event for event, arrival, _ in rows]
    assert disorder.delays.median_ms == covering(delays, 0.5)
    assert disorder.delays.p99_ms == covering(delays, 0.99)
    assert disorder.delays.greatest_ms == max(delays)


@given(ROWS)
def test_one_partition_is_none(rows: list[tuple[int, int, int]]) -> None:
    events, arrivals, _ = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    assert disorder_of(events, arrivals) == disorder_of(events, arrivals, np.full(len(rows), 7))


def test_example_of_the_docstring() -> None:
    disorder = disorder_of(np.array([10, 30, 20, 31]), np.array([1, 2, 3, 4]))
    assert disorder is not None
    assert (disorder.bound_99_ms, disorder.bound_all_ms, disorder.bound_ms) == (10, 10, 1000)
    assert (disorder.lateness_ms, disorder.late_rows) == (0, 0)


def test_rows_of_one_moment_are_in_no_order() -> None:
    disorder = disorder_of(np.array([30, 10, 20]), np.array([1, 1, 1]))
    assert disorder is not None
    assert disorder.bound_all_ms == 0


def test_no_rows_have_no_disorder() -> None:
    assert disorder_of(np.array([], np.int64), np.array([], np.int64)) is None


def test_lateness_takes_what_the_bound_leaves() -> None:
    """1,000 rows a second apart: 20 come half an hour late, 5 of them two hours."""
    events = np.arange(1000, dtype=np.int64) * 60_000
    arrivals = events.copy()
    arrivals[100:1000:45] += 30 * 60_000
    arrivals[100:1000:180] += 90 * 60_000
    disorder = disorder_of(events, arrivals)
    assert disorder is not None
    assert disorder.bound_ms == 30 * 60_000
    # The last row that came before it has an event a minute earlier than its arrival, at most.
    assert disorder.bound_999_ms <= 2 * HOUR
    assert disorder.lateness_ms == round_up(disorder.bound_999_ms - disorder.bound_ms)
    assert disorder.late_rows == 0


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, 1000),
        (1000, 1000),
        (1001, 2000),
        (61_000, 120_000),
        (31 * 60_000, HOUR),
        (25 * HOUR, 48 * HOUR),
        (31 * 24 * HOUR + 1, 32 * 24 * HOUR),
    ],
)
def test_durations_are_rounded_up_to_ones_that_people_write(duration: int, expected: int) -> None:
    assert round_up(duration) == expected


@given(st.lists(st.integers(-100, 100), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_least_covering_is_counted(values: list[int], share: float) -> None:
    assert (
        least_covering(np.array(values), share) == sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]
    )
