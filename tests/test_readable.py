"""Texts for people. The expected ones are written by hand."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from slackwater.readable import (
    Precision,
    bytes_text,
    count_text,
    duration_text,
    exact_duration_text,
    key_text,
    number_text,
    plain_text,
    precision_of,
    range_text,
    share_text,
    size_text,
    time_text,
)

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (1, "1 ms"),
        (0.25, "0.25 ms"),
        (250, "250 ms"),
        (999.4, "999 ms"),
        (999.6, "1 s"),
        (1000, "1 s"),
        (1500, "1.5 s"),
        (12_340, "12.3 s"),
        (59_949, "59.9 s"),
        (59_950, "1 minute"),
        (MINUTE, "1 minute"),
        (5 * MINUTE, "5 minutes"),
        (125 * SECOND, "2 min 5 s"),
        (HOUR - 400, "1 hour"),
        (HOUR, "1 hour"),
        (4 * HOUR, "4 hours"),
        (90 * MINUTE, "1 h 30 min"),
        (DAY - 20 * SECOND, "1 day"),
        (DAY, "1 day"),
        (30 * DAY, "30 days"),
        (5 * DAY + 20 * HOUR, "5 d 20 h"),
        (round(6431.27 * MINUTE), "4 d 11 h"),
        (5 * DAY + 23 * HOUR + 45 * MINUTE, "6 days"),
        (1000 * DAY, "1,000 days"),
        (-90 * MINUTE, "−1 h 30 min"),
        (timedelta(hours=26), "1 d 2 h"),
        (None, "–"),
    ],
)
def test_a_duration_is_written_in_its_two_greatest_units(ms: float, text: str) -> None:
    assert duration_text(ms) == text


def test_a_declared_duration_loses_nothing() -> None:
    assert exact_duration_text(timedelta(hours=1, minutes=10, milliseconds=2)) == "1 h 10 min 2 ms"
    assert exact_duration_text(timedelta(days=1, hours=2, minutes=3, seconds=4)) == "1 d 2 h 3 min 4 s"
    assert exact_duration_text(DAY) == "1 day"
    assert exact_duration_text(30 * SECOND) == "30 s"
    assert exact_duration_text(-HOUR) == "−1 hour"
    assert exact_duration_text(None) == "–"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (3_400, "3.4 kB"),
        (64_000_000, "64 MB"),
        (99_960_000, "100 MB"),
        (999_999, "1 MB"),
        (1_234_567_890, "1.2 GB"),
        (2_500_000_000_000, "2.5 TB"),
        (10**21, "1,000 EB"),
        (None, "–"),
    ],
)
def test_a_size_is_written_in_its_greatest_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_numbers_have_their_thousands_apart() -> None:
    assert number_text(1_234_567) == "1,234,567"
    assert number_text(12.3456) == "12.35"
    assert number_text(-1234.5) == "-1,234.50"
    assert number_text(0.00012) == "0.00012"
    assert number_text(0.0) == "0.00"
    assert number_text(float("nan")) == "nan"
    assert number_text(Decimal("1234.500")) == "1,234.500"
    assert number_text(None) == "–"
    assert count_text(1, "row") == "1 row"
    assert count_text(1200, "row") == "1,200 rows"
    assert count_text(2, "index", "indices") == "2 indices"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0001, "< 0.1 %"),
        (0.034, "3.4 %"),
        (0.5, "50 %"),
        (0.99999, "> 99.9 %"),
        (1, "100 %"),
        (None, "–"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float, text: str) -> None:
    assert share_text(share) == text


def test_a_time_is_written_in_utc_with_what_it_has() -> None:
    six = datetime(2013, 1, 2, 6, tzinfo=UTC)
    assert time_text(six) == "2013-01-02 06:00"
    assert time_text(six.astimezone(timezone(timedelta(hours=-5)))) == "2013-01-02 06:00"
    assert time_text(1_357_106_400_000) == "2013-01-02 06:00"  # 15,707 days and 6 hours after 1970-01-01
    assert time_text(six + timedelta(seconds=7)) == "2013-01-02 06:00:07"
    assert time_text(six + timedelta(milliseconds=70)) == "2013-01-02 06:00:00.070"
    assert time_text(six, Precision.SECOND) == "2013-01-02 06:00:00"
    assert time_text(None) == "–"


def test_the_last_millisecond_of_a_window_reads_as_its_end() -> None:
    last = datetime(2013, 1, 2, 5, 59, 59, 999_000, tzinfo=UTC)
    assert time_text(last, Precision.MINUTE) == "2013-01-02 06:00"
    assert time_text(last, Precision.SECOND) == "2013-01-02 06:00:00"
    assert time_text(last) == "2013-01-02 05:59:59.999"
    assert time_text(last - timedelta(milliseconds=1), Precision.SECOND) == "2013-01-02 05:59:59"


def test_the_times_of_a_table_share_the_precision_of_the_finest() -> None:
    minute = datetime(2013, 1, 2, 6, tzinfo=UTC)
    last = minute - timedelta(milliseconds=1)
    assert precision_of([minute, None, last]) == Precision.MINUTE
    assert precision_of([minute, minute + timedelta(seconds=7)]) == Precision.SECOND
    assert precision_of([minute, minute + timedelta(milliseconds=7)]) == Precision.MINUTE
    assert precision_of([minute, last], finest=Precision.MILLISECOND) == Precision.MILLISECOND
    assert precision_of([]) == Precision.MINUTE


def test_a_range_of_times_repeats_no_day() -> None:
    day = datetime(2013, 1, 2, tzinfo=UTC)
    assert range_text(day, day + timedelta(days=1)) == "2013-01-02"
    assert range_text(day.replace(hour=6), day.replace(hour=9)) == "2013-01-02 06:00–09:00"
    assert range_text(day.replace(hour=18), day + timedelta(days=1)) == "2013-01-02 18:00–24:00"
    assert range_text(day, day + timedelta(days=2)) == "2013-01-02 + 2 days"
    assert range_text(day.replace(hour=18), day + timedelta(hours=30)) == "2013-01-02 18:00 + 12 hours"
    assert range_text(day, day + timedelta(hours=30)) == "2013-01-02 00:00 + 1 d 6 h"
    assert range_text(None, day) == "–"
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime(2025, 3, 29, 23, tzinfo=UTC)  # of the day on which clocks go forward, after 23 hours
    assert range_text(midnight, midnight + timedelta(hours=23), zone=berlin) == "2025-03-30 Europe/Berlin"
    in_summer = range_text(midnight + timedelta(hours=7), midnight + timedelta(hours=9), zone=berlin)
    assert in_summer == "2025-03-30 08:00–10:00 Europe/Berlin"
    assert range_text(day, day + timedelta(days=1), zone=ZoneInfo("UTC")) == "2013-01-02"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("JFK", "JFK"),
        ("Zürich 東京 👩", "Zürich 東京 👩"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b31m", r"\x9b31m"),
        ("abc\u202edef", r"abc\u202edef"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("line\u2028end", r"line\u2028end"),
        ("half\ud800", r"half\ud800"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("<script>", "<script>"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{"at": "grün"}\n'.encode(), '{"at": "grün"}\n'),
        (b"", ""),
        (b"gr\xfcn", "6772fc6e"),
        (b"\x00\x07", "0007"),
        (b"a\x1b[1m", "611b5b316d"),
    ],
)
def test_bytes_that_are_text_are_shown_as_text(value: bytes, text: str) -> None:
    assert bytes_text(value) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("JFK", "JFK"),
        (["JFK", 7], "JFK, 7"),
        (("a,b", None), "a,b, –"),
        ("", '""'),
        (" JFK", '" JFK"'),
        ("–", '"–"'),
        (True, "true"),
        (1234567, "1234567"),
        (date(2013, 1, 2), "2013-01-02"),
        (b"\x01\xff", "01ff"),
        ("a\nb", r"a\nb"),
    ],
)
def test_a_key_shows_each_of_its_components(key: object, text: str) -> None:
    assert key_text(key) == text
