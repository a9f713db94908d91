"""How many late rows another lateness would have saved. By hand, from the windows that they missed and the watermark then."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from jobs.tables.lateness import Saved, report
from jobs.tables.schemas import TIME, WINDOW

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MS = timedelta(milliseconds=1)


def late(*rows: tuple[timedelta, list[timedelta]]) -> pa.Table:
    """Rows that came at a watermark, and the ends of the windows that they missed, all counted from noon."""
    return pa.table(
        {
            "windows": pa.array([[{"start": NOON + end - HOUR, "end": NOON + end} for end in ends] for _, ends in rows], pa.list_(WINDOW)),
            "watermark": pa.array([NOON + watermark for watermark, _ in rows], TIME),
        }
    )


def test_a_window_takes_rows_as_long_as_its_last_millisecond_and_the_lateness_lie_behind_the_watermark() -> None:
    # [11:00, 12:00) has its last millisecond at 11:59:59.999. A watermark of just that leaves a lateness of 1 ms to take the row.
    assert report(late((-MS, [timedelta(0)]))) == [Saved(MS, 1, 1.0)]
    assert report(late((HOUR - MS, [timedelta(0)])))[-1] == Saved(HOUR + MS, 1, 1.0)


def test_the_table_goes_up_in_steps_until_every_row_is_saved() -> None:
    rows = late((10 * timedelta(minutes=1), [timedelta(0)]), (HOUR, [timedelta(0)]), (5 * HOUR, [timedelta(0)]))
    assert report(rows) == [
        Saved(timedelta(minutes=5), 0, 0.0),
        Saved(timedelta(minutes=15), 1, 1 / 3),
        Saved(timedelta(minutes=30), 1, 1 / 3),
        Saved(HOUR, 1, 1 / 3),
        Saved(2 * HOUR, 2, 2 / 3),
        Saved(3 * HOUR, 2, 2 / 3),
        Saved(4 * HOUR, 2, 2 / 3),
        Saved(5 * HOUR + 2 * MS, 3, 1.0),
    ]


def test_one_of_several_windows_is_enough() -> None:
    assert report(late((HOUR, [timedelta(0), HOUR / 2])))[-1] == Saved(HOUR / 2 + 2 * MS, 1, 1.0)


def test_without_late_rows_there_is_nothing_to_report() -> None:
    assert report(late()) == []
