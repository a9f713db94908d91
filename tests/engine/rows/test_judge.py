"""Rows are judged on whole columns as one would judge them one by one."""

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.rows.columns_read import (
    ARRIVAL,
    EVENT,
    columns_read,
)
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.python_values import as_json
from slackwater.engine.source.batches import SourceBatch
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    WatermarkStrategy,
)
from slackwater.windowing.times import MILLISECOND
from tests.engine.rows.declared_rows import HOUR, HOUR_MS, START_MS, declared, times

YEAR_1, YEAR_9999_ENDS = -62_135_596_800_000, 253_402_300_800_000


def batch_of(
    arrivals: list[int | None],
    events: list[int | None],
    unit: str = "us",
    may_hold_unread: bool = True,
    **columns: list[Any],
) -> SourceBatch:
    """Rows with the given times, in the unit's own numbers; row numbers count from 0."""
    size = len(arrivals)
    rows = pa.table(
        {
            "a": times(arrivals, unit),
            "e": times(events, unit),
            "k": pa.array(columns.get("k", ["x"] * size), pa.string()),
            "part": pa.array(columns.get("part", [1] * size), pa.int32()),
            "row": pa.array(range(size), pa.int64()),
        }
    )
    return SourceBatch(rows, "day=1/part.parquet", may_hold_unread)


# Around the slice, around the ends of the calendar, between milliseconds, and null.
def near(ms: int) -> st.SearchStrategy[int]:
    return st.integers(-2, 1001).map(lambda us: ms * 1000 + us)


arrival_us = st.none() | st.integers(-3, 4).flatmap(lambda hours: near(START_MS + hours * HOUR_MS))
far_arrival_us = st.sampled_from([YEAR_9999_ENDS, 30 * YEAR_9999_ENDS]).flatmap(near)
edges = [
    YEAR_1,
    YEAR_1 + HOUR_MS,
    YEAR_9999_ENDS,
    YEAR_9999_ENDS - HOUR_MS,
    YEAR_9999_ENDS - 3 * HOUR_MS,
    START_MS,
    0,
    -HOUR_MS,
    2**53,
]
event_us = st.none() | st.sampled_from(edges).flatmap(near) | arrival_us

Row = tuple[int | None, int | None, str | None, int | None]


def verdict(row: Row, low: int, high: int, may_hold_unread: bool, pipeline: Pipeline) -> str | None:
    """What a row is: "element", a reason code, or None for no concern of this slice. Floors in exact
    integers.
    """
    arrival, event, key, part = row
    if arrival is None:
        return "null_arrival" if may_hold_unread else None
    if arrival // 1000 >= YEAR_9999_ENDS:
        return "arrival_out_of_range" if may_hold_unread else None
    if not low <= arrival // 1000 < high:
        return None
    if key is None or part is None:
        return "null_key"
    if event is None:
        return "null_event_time"
    at = event // 1000
    window_end_and_cleanup = at + HOUR_MS + pipeline.allowed_lateness_ms
    if at - HOUR_MS < YEAR_1 or window_end_and_cleanup >= YEAR_9999_ENDS:
        return "time_out_of_range"
    if at > arrival // 1000 + 2 * HOUR_MS:
        return "ahead_of_arrival"
    if pipeline.max_behind is not None and arrival // 1000 - at > pipeline.max_behind // MILLISECOND:
        return "behind_arrival"
    return "element"


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            arrival_us | far_arrival_us,
            event_us,
            st.sampled_from(["x", "y", None]),
            st.sampled_from([1, 1, None]),
        ),
        max_size=12,
    ),
    st.integers(-2, 1),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([timedelta(0), HOUR]),
    st.sampled_from([None, timedelta(0), HOUR]),
)
def test_a_row_is_what_it_is_when_judged_alone(
    rows: list[Row],
    start: int,
    hours: int,
    may_hold_unread: bool,
    lateness: timedelta,
    max_behind: timedelta | None,
) -> None:
    low, high = START_MS + start * HOUR_MS, START_MS + (start + hours) * HOUR_MS
    pipeline = declared(allowed_lateness=lateness, max_behind=max_behind)
    arrivals, events, keys, parts = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    )
    batch = batch_of(arrivals, events, may_hold_unread=may_hold_unread, k=keys, part=parts)

    judged_batch = Judge(pipeline, low, high).judge_batch(batch)

    expected = [verdict(row, low, high, may_hold_unread, pipeline) for row in rows]
    elements = [number for number, what in enumerate(expected) if what == "element"]
    assert judged_batch.elements.column("row").to_pylist() == elements
    assert judged_batch.elements.column(ARRIVAL).to_pylist() == [
        (arrivals[number] or 0) // 1000 for number in elements
    ]
    assert judged_batch.elements.column(EVENT).to_pylist() == [
        (events[number] or 0) // 1000 for number in elements
    ]
    unusable = [(number, what) for number, what in enumerate(expected) if what not in ("element", None)]
    numbers = [
        json.loads(text)["row"] for text in judged_batch.quarantine_rows.column("row_json").to_pylist()
    ]
    quarantined = zip(numbers, judged_batch.quarantine_rows.column("reason_code").to_pylist(), strict=True)
    assert list(quarantined) == unusable
    assert judged_batch.rows_read == len(elements) + len(unusable)
    without_quarantine = Judge(pipeline, low, high).judge_batch(batch, quarantine=False)
    assert (
        without_quarantine.elements.equals(judged_batch.elements)
        and without_quarantine.quarantine_rows.num_rows == 0
    )


@pytest.mark.parametrize(
    ("stragglers", "may_hold_unread", "read_to", "expected_rows"),
    [
        ("fold", True, None, [1, 2, 3]),
        ("fold", True, 2, [2, 3]),
        ("fold", False, None, [3]),
        ("restate", True, None, [3]),
        ("restate", True, 2, [3]),
    ],
)
def test_earlier_rows_are_taken_in_where_no_run_has_read_them_and_the_pipeline_folds(
    stragglers: str, may_hold_unread: bool, read_to: int | None, expected_rows: list[int]
) -> None:
    hours = [START_MS + hour * HOUR_MS for hour in range(5)]
    batch = batch_of([None, *(1000 * hour for hour in hours)], [1000 * START_MS] * 6)
    batch = replace(
        batch, may_hold_unread=may_hold_unread, read_to_ms=None if read_to is None else hours[read_to]
    )
    judged_batch = Judge(declared(stragglers=stragglers), hours[3], hours[4], hours[1]).judge_batch(batch)
    assert [
        (arrival - START_MS) // HOUR_MS for arrival in judged_batch.elements.column(ARRIVAL).to_pylist()
    ] == expected_rows
    assert judged_batch.quarantine_rows.num_rows == (may_hold_unread and read_to is None), (
        "the row without an arrival"
    )


@pytest.mark.parametrize(
    ("unit", "numbers"),
    [
        ("s", [-1, 0, 1]),
        ("ms", [-1000, 0, 1000]),
        ("us", [-999_001, -999, 1_000_999]),
        ("ns", [-999_000_001, -1, 1_000_999_999]),
    ],
)
def test_times_of_any_unit_are_floored_to_milliseconds(unit: str, numbers: list[int]) -> None:
    per_ms = {"s": 1 / 1000, "ms": 1, "us": 1000, "ns": 10**6}[unit]
    batch = batch_of(numbers, numbers, unit)
    judged_batch = Judge(declared(start="1960-01-01"), -10_000, 10_000).judge_batch(batch)
    expected = [math.floor(number / per_ms) for number in numbers]
    assert (
        judged_batch.elements.column(ARRIVAL).to_pylist()
        == judged_batch.elements.column(EVENT).to_pylist()
        == expected
    )


def test_times_without_a_zone_are_utc() -> None:
    batch = batch_of([START_MS * 1000], [START_MS * 1000])
    rows = batch.rows.set_column(0, "a", times([START_MS * 1000], tz=None)).set_column(
        1, "e", times([START_MS * 1000], tz=None)
    )
    judged_batch = Judge(declared(), START_MS, START_MS + 1).judge_batch(SourceBatch(rows, None, True))
    assert judged_batch.elements.column(ARRIVAL).to_pylist() == [START_MS]


@pytest.mark.parametrize(
    ("behind_ms", "reason"),
    [(0, None), (HOUR_MS, None), (HOUR_MS + 1, "behind_arrival"), (10**13, "behind_arrival")],
)
def test_a_row_too_far_behind_its_own_arrival_is_quarantined_with_the_bound(
    behind_ms: int, reason: str | None
) -> None:
    """Beside it a row on time, and one that was not seen in the slice of its arrival, three hours before."""
    arrivals = [START_MS, START_MS + 1, START_MS - 3 * HOUR_MS]
    events = [START_MS - behind_ms, START_MS, START_MS - 4 * HOUR_MS]
    batch = batch_of([1000 * ms for ms in arrivals], [1000 * ms for ms in events])
    pipeline = declared(max_behind=HOUR)
    judge = Judge(pipeline, START_MS, START_MS + HOUR_MS, START_MS - 24 * HOUR_MS)
    judged_batch = judge.judge_batch(batch)
    assert judge.takes_all(batch) == (reason is None)
    assert judged_batch.elements.column("row").to_pylist() == ([1, 2] if reason else [0, 1, 2])
    reasons = [
        (row["reason_code"], row["reason"], row["column_name"])
        for row in judged_batch.quarantine_rows.to_pylist()
    ]
    text = "the event time is more than 1 hour before the arrival"
    assert reasons == ([("behind_arrival", text, "e")] if reason else [])


class TestACondition:
    def test_a_row_that_does_not_meet_it_is_counted_and_nothing_else_is_asked_of_it(self) -> None:
        before, within, beyond = (1000 * (START_MS + hours * HOUR_MS) for hours in (-1, 0, 1))
        arrivals = [within, within, within, before, beyond, None, None]
        batch = batch_of(arrivals, [within] * 7, k=["x", "y", None, "y", "y", "y", "x"])
        judged_batch = Judge(
            declared(where="k = 'x'"), START_MS, START_MS + HOUR_MS, START_MS - HOUR_MS
        ).judge_batch(batch)
        assert judged_batch.elements.column("row").to_pylist() == [0]
        assert judged_batch.quarantine_rows.column("reason_code").to_pylist() == ["null_arrival"]
        assert (judged_batch.filtered_count, judged_batch.filtered_folded_count, judged_batch.rows_read) == (
            4,
            1,
            6,
        )
        judged_again = Judge(declared(where="k = 'x'"), START_MS, START_MS + HOUR_MS).judge_batch(
            replace(batch, may_hold_unread=False)
        )
        assert (judged_again.filtered_count, judged_again.filtered_folded_count, judged_again.rows_read) == (
            2,
            0,
            3,
        ), "read before, but for those that arrived since"

    def test_its_columns_tell_equal_rows_apart(self) -> None:
        pipeline = declared(where="part = 1 AND extra IS NULL")
        assert columns_read(pipeline, ["k", "part", "extra", "y"]) == (
            "k",
            "part",
            "e",
            "a",
            "row",
            "extra",
            "x",
        )


class TestHowFarAWindowReaches:
    def is_usable(self, event_ms: int, **changes: Any) -> bool:
        pipeline = declared(max_ahead=timedelta(days=366_000), **changes)
        batch = batch_of([event_ms * 1000], [event_ms * 1000])
        return Judge(pipeline, event_ms, event_ms + 1).judge_batch(batch).elements.num_rows == 1

    @pytest.mark.parametrize(
        ("changes", "back", "forth"),
        [
            ({}, HOUR_MS, HOUR_MS),
            ({"window": SlidingEventTimeWindows.of(3 * HOUR, HOUR)}, 3 * HOUR_MS, 3 * HOUR_MS),
            ({"window": EventTimeSessionWindows.with_gap(2 * HOUR)}, 2 * HOUR_MS, 2 * HOUR_MS),
            ({"allowed_lateness": 4 * HOUR}, HOUR_MS, 5 * HOUR_MS),
            ({"watermarks": WatermarkStrategy.bounded_out_of_orderness(9 * HOUR)}, 9 * HOUR_MS + 1, HOUR_MS),
            ({"window": GlobalWindows.create()}, 60_001, 0),
        ],
    )
    def test_its_bounds_its_cleanup_and_the_watermark_stay_within_the_calendar(
        self, changes: dict[str, Any], back: int, forth: int
    ) -> None:
        first, last = YEAR_1 + back, YEAR_9999_ENDS - forth - 1
        assert [self.is_usable(ms, **changes) for ms in (first - 1, first, last, last + 1)] == [
            False,
            True,
            True,
            False,
        ]


class TestQuarantine:
    def quarantined(self, batch: SourceBatch, **changes: Any) -> list[dict[str, Any]]:
        return (
            Judge(declared(**changes), START_MS, START_MS + HOUR_MS)
            .judge_batch(batch)
            .quarantine_rows.to_pylist()
        )

    def test_it_says_which_rule_and_which_column(self) -> None:
        now = START_MS * 1000
        batch = batch_of(
            [now, now, now, now, now, None],
            [None, now, now, now + 2 * HOUR_MS * 1000 + 1000, 2**62, now],
            k=["x", None, "x", "x", "x", "x"],
            part=[1, 1, None, 1, 1, 1],
        )
        assert [(row["reason_code"], row["column_name"]) for row in self.quarantined(batch)] == [
            ("null_event_time", "e"), ("null_key", "k"), ("null_key", "part"), ("ahead_of_arrival", "e"),
            ("time_out_of_range", "e"),
            ("null_arrival", "a"),
        ]  # fmt: skip
        assert [row["reason"] for row in self.quarantined(batch)][
            3
        ] == "the event time is more than 2 hours after the arrival"
        assert {row["source_file"] for row in self.quarantined(batch)} == {"day=1/part.parquet"}
        assert [row["arrival_time"] for row in self.quarantined(batch)] == [
            datetime(2013, 1, 1, tzinfo=UTC)
        ] * 5 + [None]

    def test_of_several_broken_rules_the_first_is_told(self) -> None:
        nothing = batch_of([None], [None], k=[None])
        assert [row["reason_code"] for row in self.quarantined(nothing)] == ["null_arrival"]
        no_key_and_no_event = batch_of([START_MS * 1000], [None], k=[None], part=[None])
        assert [
            (row["reason_code"], row["column_name"]) for row in self.quarantined(no_key_and_no_event)
        ] == [("null_key", "k")]

    def test_an_arrival_of_nanoseconds_is_kept_to_the_microsecond(self) -> None:
        [row] = self.quarantined(batch_of([START_MS * 10**6 + 1999], [None], "ns"))
        assert row["arrival_time"] == datetime(2013, 1, 1, 0, 0, 0, 1, tzinfo=UTC)

    def test_the_whole_row_is_told_as_json_that_everybody_can_read(self) -> None:
        kinds = pa.schema(
            [
                ("time", pa.timestamp("us", tz="UTC")),
                ("local", pa.timestamp("us")),
                ("far", pa.timestamp("us", tz="UTC")),
                ("day", pa.date32()),
                ("x", pa.float64()),
                ("price", pa.decimal128(5, 2)),
                ("blob", pa.binary()),
                ("record", pa.binary()),
                ("records", pa.list_(pa.binary())),
                ("nested", pa.list_(pa.struct([("t", pa.timestamp("us", tz="UTC")), ("x", pa.float64())]))),
                ("map", pa.map_(pa.string(), pa.date32())),
                ("text", pa.string()),
                ("none", pa.int64()),
            ]
        )
        moment = datetime(2013, 1, 1, 5, tzinfo=UTC)
        row = {
            "time": moment,
            "local": moment.replace(tzinfo=None),
            "far": None,
            "day": date(2013, 1, 1),
            "x": math.inf,
            "price": Decimal("1.50"),
            "blob": b"\x01",
            "record": '{"at":\t"grün"}\n'.encode(),
            "records": [b"[1, 2", b"\xff[1", b""],
            "nested": [{"t": moment, "x": math.nan}],
            "map": [("a", date(2013, 1, 2))],
            "text": 'a "b"\n',
            "none": None,
        }
        rows = pa.Table.from_pylist([row], schema=kinds)
        rows = rows.set_column(
            2, "far", pa.array([YEAR_9999_ENDS * 1000], pa.int64()).cast(kinds.field("far").type)
        )
        [text] = as_json(rows)
        assert json.loads(text, parse_constant=pytest.fail) == {
            "time": "2013-01-01 05:00:00.000000Z", "local": "2013-01-01 05:00:00.000000",
            "far": "253402300800000000 µs since 1970",
            "day": "2013-01-01", "x": "inf", "price": "1.50", "blob": "01",
            "record": '{"at":\t"grün"}\n', "records": ["[1, 2", "ff5b31", ""],
            "nested": [{"t": "2013-01-01 05:00:00.000000Z", "x": "nan"}],
            "map": [["a", "2013-01-02"]], "text": 'a "b"\n', "none": None,
        }  # fmt: skip
        assert as_json(rows.slice(0, 0)) == []

    def test_a_year_that_arrow_takes_for_another_is_told_as_a_number(self) -> None:
        days, microseconds = 106_751_991, 9_223_371_331_199_999_999  # of the year 294247
        rows = pa.table(
            {
                "day": pa.array([days, 0], pa.int32()).cast(pa.date32()),
                "time": pa.array([microseconds, 0], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            }
        )
        assert [json.loads(text) for text in as_json(rows)] == [
            {"day": f"{days} days since 1970", "time": f"{microseconds} µs since 1970"},
            {"day": "1970-01-01", "time": "1970-01-01 00:00:00.000000Z"},
        ]


def test_judging_leaves_the_batch_as_it_was() -> None:
    batch = batch_of([START_MS * 1000, None], [None, START_MS * 1000])
    before = batch.rows.to_pylist()
    Judge(declared(), START_MS, START_MS + 1).judge_batch(batch)
    assert batch.rows.to_pylist() == before
    assert np.asarray(batch.rows.column("row")).tolist() == [0, 1]
