"""Windows that rows touch, held against looking at every window and every row."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.jobs.protocol.planning.touched_windows import TIME_COLUMN, count
from slackwater.jobs.tables.schemas import TIME

EPOCH = datetime(2013, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)

key = st.tuples(st.sampled_from(["a", "b", "key, with comma"]), st.integers(0, 1))
bound = st.integers(0, 30)
window = st.tuples(key, st.none() | st.tuples(bound, st.integers(1, 10)))
point = st.tuples(key, st.integers(-5, 45))


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else EPOCH + ms * MS


@given(
    st.lists(window, max_size=12),
    st.lists(st.lists(point, max_size=8), max_size=3),
    st.sampled_from([0, 1, 4]),
)
@settings(max_examples=60, deadline=None)
def test_a_window_is_touched_by_a_point_of_its_key_within_its_reach(
    windows: list[tuple[tuple[str, int], tuple[int, int] | None]],
    parts: list[list[tuple[tuple[str, int], int]]],
    reach: int,
) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int32()), ("window_start", TIME), ("window_end", TIME)])
    rows = [
        {
            "k": k,
            "n": n,
            "window_start": moment(span and span[0]),
            "window_end": moment(span and span[0] + span[1]),
        }
        for (k, n), span in windows
    ]
    found = [
        pa.Table.from_pylist(
            [{"k": k, "n": n, TIME_COLUMN: moment(at)} for (k, n), at in part],
            schema=pa.schema([("k", pa.string()), ("n", pa.int32()), (TIME_COLUMN, TIME)]),
        )
        for part in parts
    ]

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
    assert count(["k", "n"], pa.Table.from_pylist(rows, schema=schema), found, reach) == len(expected)
