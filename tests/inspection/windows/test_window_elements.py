"""What is shown of a window's elements and of its parked state."""

from datetime import UTC, datetime, timedelta

import pytest

from slackwater.inspection.windows.window_elements import HeldElements, ParkedWindow, growth

START = datetime(2013, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ([(6, 1), (6, 1), (6, 1), (6, 1), (6, 1)], [1]),
        ([(2, 0), (2, 0), (5, 0), (5, 1), (5, 1)], [1, 3, 4]),
        ([(4, 0)], [1]),
        ([], []),
    ],
)
def test_only_runs_that_changed_a_window_are_shown_to_have_filled_it(
    held: list[tuple[int, int]], shown: list[int]
) -> None:
    by_run = [
        HeldElements(
            seq=seq,
            slice_start=START + seq * DAY,
            slice_end=START + (seq + 1) * DAY,
            elements=elements,
            firings=firings,
            first_arrival=START,
            last_arrival=START,
        )
        for seq, (elements, firings) in enumerate(held, start=1)
    ]
    assert [one.seq for one in growth(by_run)] == shown


def test_bytes_of_an_exact_sum_are_not_shown_as_a_figure() -> None:
    parked = ParkedWindow(
        seq=3,
        elements=2,
        firings=0,
        last_fired_at=None,
        cleanup_time=None,
        first_arrival=START,
        last_arrival=START,
        accumulators={"mean__sum": 7.5, "mean__sum_exact": b"\x00\x07", "mean__count": 2},
        contents=None,
        trigger_state=None,
        user_state=None,
        timers=(),
        states=(),
    )
    assert dict(parked.readable_parts()) == {"mean · sum": 7.5, "mean · count": 2}
