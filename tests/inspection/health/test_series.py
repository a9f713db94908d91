"""What the figures of runs show: each reason green, yellow and red, with limits calculated by hand."""

from datetime import timedelta
from typing import Any

import pytest

from slackwater import Health
from slackwater.inspection.health.findings import Colour, colour_of, is_far_above
from slackwater.inspection.health.series import judge_late_rows, judge_state, judge_watermark
from tests.inspection.health.subjects import HOUR, declared, figures, subject
from tests.tables.ledger.ledger_rows import day

MB = 1_000_000


@pytest.mark.parametrize(
    ("amount", "history", "is_far"),
    [
        # The median is 10, the median distance to it 1, the spread 1.4826: 10 + 5 * 1.4826 = 17.4 < 20.
        (20.0, [9, 9, 10, 11, 11], False),
        (20.1, [9, 9, 10, 11, 11], True),
        # The distance is 4, the spread 5.9304: 10 + 29.65 is above 20.
        (39.6, [2, 6, 10, 14, 18], False),
        (39.7, [2, 6, 10, 14, 18], True),
        # Nothing is usual of four runs.
        (1000.0, [1, 1, 1, 1], False),
        (0.1, [0, 0, 0, 0, 0], True),
    ],
)
def test_far_above_is_twice_the_median_and_five_spreads(
    amount: float, history: list[float], is_far: bool
) -> None:
    assert is_far_above(amount, history) == is_far


def test_a_threshold_that_is_reached_counts() -> None:
    assert colour_of(1.0, (1.0, 2.0)) is Colour.YELLOW
    assert colour_of(0.9, (1.0, 2.0)) is Colour.GREEN
    assert colour_of(2.0, (None, 2.0)) is Colour.RED
    assert colour_of(1e9, (None, None)) is Colour.GREEN


def with_lag(number: int, lag: timedelta, **changes: Any) -> Any:
    return figures(number, watermark=day(number + 1) - lag, **changes)


def test_a_watermark_is_yellow_where_it_lags_far_more_than_usual() -> None:
    usual = [with_lag(number, 3 * HOUR) for number in range(6)]
    fine = judge_watermark(subject([*usual, with_lag(6, 6 * HOUR)]))
    assert (fine.colour, fine.value) == (Colour.GREEN, 6 * 3600)
    finding = judge_watermark(subject([*usual, with_lag(6, 7 * HOUR)]))
    assert finding.colour is Colour.YELLOW
    assert finding.text == "the watermark is 7 hours behind the end of the last slice (usually 3 hours)"
    assert finding.command == "slackwater state watermarks flights"


def test_a_lag_of_minutes_is_nobodys_business() -> None:
    usual = [with_lag(number, timedelta(minutes=1)) for number in range(6)]
    assert judge_watermark(subject([*usual, with_lag(6, HOUR)])).colour is Colour.GREEN


def test_a_watermark_is_red_by_the_declared_limit() -> None:
    pipeline = declared(Health(watermark_lag=(4 * HOUR, 8 * HOUR)))
    lags = {3: Colour.GREEN, 4: Colour.YELLOW, 8: Colour.RED}
    for hours, colour in lags.items():
        assert judge_watermark(subject([with_lag(0, hours * HOUR)], pipeline)).colour is colour


def test_a_watermark_is_red_that_has_not_moved_for_three_runs_with_rows() -> None:
    moving = [figures(number) for number in range(3)]
    stuck = [figures(number, watermark=moving[-1].watermark) for number in range(3, 6)]
    finding = judge_watermark(subject([*moving, *stuck]))
    assert finding.colour is Colour.RED
    assert finding.text == (
        "the watermark has stood at 2013-01-03 21:00 for 3 runs, though rows arrive: no window fires"
    )
    # Two runs are not enough, and runs without rows can't move it.
    assert judge_watermark(subject([*moving, *stuck[:2]])).colour is Colour.GREEN
    empty = [figures(number, watermark=moving[-1].watermark, rows_accepted=0) for number in range(3, 6)]
    assert judge_watermark(subject([*moving, *empty])).colour is not Colour.RED


def test_rows_without_any_watermark_are_yellow() -> None:
    finding = judge_watermark(subject([figures(0, watermark=None)]))
    assert (finding.colour, finding.value) == (Colour.YELLOW, None)
    assert judge_watermark(subject([figures(0, watermark=None, rows_accepted=0)])).colour is Colour.GREEN


def test_late_rows_are_judged_against_earlier_runs() -> None:
    usual = [figures(number) for number in range(6)]  # 2 of 1000 rows
    colours = {9: Colour.GREEN, 19: Colour.GREEN, 20: Colour.YELLOW, 99: Colour.YELLOW, 100: Colour.RED}
    for rows_late, colour in colours.items():
        finding = judge_late_rows(subject([*usual, figures(6, rows_late=rows_late)]))
        assert (finding.colour, finding.value) == (colour, rows_late / 1000)
    assert finding.text == "10 % of the last run's rows came too late (usually 0.2 %)"
    assert finding.command == "slackwater late report flights"


def test_a_share_of_late_rows_that_is_usual_is_green() -> None:
    runs = [figures(number, rows_late=150) for number in range(7)]
    assert judge_late_rows(subject(runs)).colour is Colour.GREEN


def grown(number: int, factor: float, **changes: Any) -> Any:
    """A run with 2000 * factor open windows and a snapshot of 20 MB * factor."""
    state = {"windows_open": int(2000 * factor), "state_bytes": int(20 * MB * factor)}
    return figures(number, **{**state, **changes})


def test_state_that_grows_faster_than_the_rows_is_yellow_and_then_red() -> None:
    before = [grown(number, 1) for number in range(10)]
    for factor, colour in {1.9: Colour.GREEN, 2: Colour.YELLOW, 4.9: Colour.YELLOW, 5: Colour.RED}.items():
        finding = judge_state(subject([*before, *(grown(number, factor) for number in range(10, 18))]))
        assert (finding.colour, finding.value) == (colour, factor)
    assert finding.text == "open windows grew from 2,000 to 10,000 on as many rows"


def test_state_that_grows_with_the_rows_is_green() -> None:
    before = [grown(number, 1) for number in range(10)]
    after = [grown(number, 4, rows_read=3000) for number in range(10, 18)]
    finding = judge_state(subject([*before, *after]))
    assert (finding.colour, finding.value) == (Colour.GREEN, pytest.approx(4 / 3))


def test_little_state_is_green_however_it_grows() -> None:
    before = [figures(number, windows_open=1) for number in range(10)]
    after = [figures(number, windows_open=900, state_bytes=9 * MB) for number in range(10, 18)]
    assert judge_state(subject([*before, *after])).colour is Colour.GREEN


def test_bytes_alone_may_grow() -> None:
    before = [grown(number, 1) for number in range(10)]
    after = [grown(number, 1, state_bytes=60 * MB) for number in range(10, 18)]
    finding = judge_state(subject([*before, *after]))
    assert (finding.colour, finding.text) == (
        Colour.YELLOW,
        "the snapshot grew from 20 MB to 60 MB on as many rows",
    )


def test_growth_is_not_judged_of_few_runs_nor_while_windows_fill_up() -> None:
    assert judge_state(subject([grown(number, 1) for number in range(15)])).colour is None
    # A lateness of ten days, windows of an hour and a bound of an hour: the runs of the first ten days are
    # left out, and of 25 there remain 15.
    pipeline = declared(allowed_lateness=timedelta(days=10))
    filling = [grown(number, 1 + min(number, 10)) for number in range(26)]
    assert judge_state(subject(filling[:25], pipeline)).colour is None
    assert judge_state(subject(filling, pipeline)).colour is Colour.GREEN
    # Where the lateness is not known, a quarter of the runs is left out: 20 of 26, which have grown in part.
    assert judge_state(subject(filling, None)).colour is Colour.GREEN
