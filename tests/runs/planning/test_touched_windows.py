"""Windows that rows touch, held against looking at every window and every row."""

import tempfile
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.runs.planning.touched_windows import (
    TIME_COLUMN,
    count,
    files_at,
    times_of,
    windows_at,
)
from slackwater.tables.delta.folder import Folder
from slackwater.tables.schemas import TIME

EPOCH = datetime(2013, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)

key = st.tuples(st.sampled_from(["a", "b", "key, with comma"]), st.integers(0, 1))
bound = st.integers(0, 30)
window = st.tuples(key, st.none() | st.tuples(bound, st.integers(1, 10)))
point = st.tuples(key, st.integers(-5, 45))


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else EPOCH + ms * MS


SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32()), ("window_start", TIME), ("window_end", TIME)])
WINDOWS = st.lists(window, max_size=12)
PARTS = st.lists(st.lists(point, max_size=8), max_size=3)

Point = tuple[tuple[str, int], int]
Span = tuple[int, int] | None


def table_of(windows: list[tuple[tuple[str, int], Span]]) -> pa.Table:
    rows = [
        {
            "k": k,
            "n": n,
            "window_start": moment(span and span[0]),
            "window_end": moment(span and span[0] + span[1]),
        }
        for (k, n), span in windows
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def points_of(parts: list[list[Point]]) -> list[pa.Table]:
    schema = pa.schema([("k", pa.string()), ("n", pa.int32()), (TIME_COLUMN, TIME)])
    return [
        pa.Table.from_pylist([{"k": k, "n": n, TIME_COLUMN: moment(at)} for (k, n), at in part], schema)
        for part in parts
    ]


@given(WINDOWS, PARTS, st.sampled_from([0, 1, 4]))
@settings(max_examples=60, deadline=None)
def test_a_window_is_touched_by_a_point_of_its_key_within_its_reach(
    windows: list[tuple[tuple[str, int], Span]], parts: list[list[Point]], reach: int
) -> None:
    def touches(span: tuple[int, int] | None, at: int) -> bool:
        if span is None:
            return True
        return span[0] - reach < at < span[0] + span[1] if reach else span[0] <= at < span[0] + span[1]

    expected = {
        (its, span)
        for its, span in windows
        for part in parts
        for other, at in part
        if its == other and touches(span, at)
    }
    assert count(["k", "n"], table_of(windows), points_of(parts), reach) == len(expected)


@given(st.lists(WINDOWS, min_size=1, max_size=3), PARTS, st.sampled_from([0, 4]))
@settings(max_examples=20, deadline=None)
def test_of_files_no_window_is_left_unread_that_a_point_touches(
    files: list[list[tuple[tuple[str, int], Span]]], parts: list[list[Point]], reach: int
) -> None:
    keys, points = ["k", "n"], points_of(parts)
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(f"{root}/windows", SCHEMA)
        folder.ensure()
        for windows in files:
            folder.append(table_of(windows))
        times = times_of(points)
        candidates = windows_at(files_at(folder.files(), times, reach), SCHEMA.names, times, reach)
    every = pa.concat_tables(table_of(windows) for windows in files)
    assert count(keys, candidates, points, reach) == count(keys, every, points, reach)
    moments = {at for part in parts for _, at in part}
    for row in candidates.to_pylist():
        start, end = row["window_start"], row["window_end"]
        assert start is None or any(start - reach * MS <= moment(at) < end for at in moments)
