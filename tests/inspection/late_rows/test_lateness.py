"""The late rows that another lateness would have saved, calculated by hand from the windows that they missed
and the watermark at their arrival.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from slackwater.inspection.late_rows.lateness import Query, SavedRows
from slackwater.inspection.late_rows.lateness import report as report_of
from slackwater.tables.schemas import TIME, WINDOW
from slackwater.tables.sql import query

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MS = timedelta(milliseconds=1)
DAY = 24 * HOUR


def late(*rows: tuple[timedelta, list[timedelta]]) -> pa.Table:
    """Rows that came at a watermark, and the ends of the windows that they missed, all counted from noon;
    they arrived as much later.
    """
    return pa.table(
        {
            "windows": pa.array(
                [[{"start": NOON + end - HOUR, "end": NOON + end} for end in ends] for _, ends in rows],
                pa.list_(WINDOW),
            ),
            "watermark": pa.array([NOON + watermark for watermark, _ in rows], TIME),
            "arrival_time": pa.array([NOON + 2 * watermark for watermark, _ in rows], TIME),
        }
    )


def query_of(rows: pa.Table) -> Query:
    """SQL over these late rows."""
    return lambda sql, parameters=(): query(sql, parameters, late_live=rows)


def report(rows: pa.Table) -> list[tuple[timedelta, int, float]]:
    """Lateness, rows and share; a window is open again a day before its last instant."""
    return [(row.lateness, row.rows, row.share) for row in report_of(query_of(rows), lambda last: last - DAY)]


def test_a_window_takes_rows_as_long_as_its_last_millisecond_and_the_lateness_lie_behind_the_watermark() -> (
    None
):
    # [11:00, 12:00) has its last millisecond at 11:59:59.999. A watermark of just that leaves a lateness of 1
    # ms to take the row.
    assert report(late((-MS, [timedelta(0)]))) == [(MS, 1, 1.0)]
    assert report(late((HOUR - MS, [timedelta(0)])))[-1] == (HOUR + MS, 1, 1.0)


def test_a_column_of_the_source_may_be_called_as_anything() -> None:
    rows = late((HOUR, [timedelta(0), HOUR]), (-MS, [timedelta(0)]))
    assert report(rows.append_column("missed", pa.array([7, 8]))) == report(rows)


def test_the_table_goes_up_in_steps_until_every_row_is_saved() -> None:
    rows = late(
        (10 * timedelta(minutes=1), [timedelta(0)]), (HOUR, [timedelta(0)]), (5 * HOUR, [timedelta(0)])
    )
    assert report(rows) == [
        (timedelta(minutes=5), 0, 0.0),
        (timedelta(minutes=15), 1, 1 / 3),
        (timedelta(minutes=30), 1, 1 / 3),
        (HOUR, 1, 1 / 3),
        (2 * HOUR, 2, 2 / 3),
        (3 * HOUR, 2, 2 / 3),
        (4 * HOUR, 2, 2 / 3),
        (5 * HOUR + 2 * MS, 3, 1.0),
    ]


def test_one_of_several_windows_is_enough() -> None:
    assert report(late((HOUR, [timedelta(0), HOUR / 2])))[-1] == (HOUR / 2 + 2 * MS, 1, 1.0)


def test_each_lateness_comes_with_the_arrivals_to_restate_for_the_rows_that_it_saves() -> None:
    saved_rows = report_of(
        query_of(late((HOUR, [timedelta(0)]), (5 * HOUR, [-HOUR, 2 * HOUR]))), lambda last: last - DAY
    )
    first, last = saved_rows[0], saved_rows[-1]
    assert first == SavedRows(HOUR, 0, 0.0, None, None)
    assert [(row.rows, row.restate_from, row.restate_to) for row in saved_rows[1:]] == [
        (1, NOON - MS - DAY, NOON + 2 * HOUR + MS),
        (1, NOON - MS - DAY, NOON + 2 * HOUR + MS),
        (2, NOON - MS - DAY, NOON + 10 * HOUR + MS),
    ]
    assert last.lateness == 3 * HOUR + 2 * MS, "the window that ends last is the first to take it"


def test_without_late_rows_there_is_nothing_to_report() -> None:
    assert report(late()) == []
