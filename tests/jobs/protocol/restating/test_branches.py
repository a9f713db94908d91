"""Which rows main's later runs have read again, where rows were redriven: the source is not asked."""

from datetime import timedelta
from pathlib import Path

import pytest

from slackwater.jobs.protocol.restating.branches import ReadAgain
from slackwater.jobs.tables.ledger.overrides import INPUT, Override
from slackwater.jobs.tables.ledger.rows import Input, LedgerRow
from slackwater.jobs.tables.warehouse import Warehouse
from slackwater.windowing.times import to_ms
from tests.jobs.protocol.world import DAILY
from tests.jobs.tables.ledger.ledger_rows import day, run_row

HOUR = timedelta(hours=1)


def run(number: int, honoured: int) -> LedgerRow:
    """The run of a day, which has honoured so many overrides."""
    inputs = (
        Input(table="events", version=number, files=1, rows=10, bytes=100),
        Input(table=INPUT, version=honoured, files=0, rows=honoured, bytes=0),
    )
    return run_row(f"r{number}", day_number=number, seq=number + 1, inputs=inputs)


def moved(true_day: float, new_day: float) -> Override:
    arrivals = (day(0) + true_day * 24 * HOUR, day(0) + new_day * 24 * HOUR)
    return Override(
        row_hash=str(true_day),
        arrival_time=arrivals[1],
        reason="it counts",
        at=day(9),
        true_arrival=arrivals[0],
    )


@pytest.mark.parametrize(
    ("honoured_by_branch", "honoured_by_later", "overrides", "reads_it_again"),
    [
        (1, 0, [moved(3.5, 1.2)], True),
        (1, 1, [moved(3.5, 1.2)], False),
        (0, 0, [moved(3.5, 1.2)], False),
        (1, 0, [moved(1.5, 1.2)], False),
        (2, 1, [moved(3.5, 1.2), moved(1.5, 1.2)], False),
        (2, 1, [moved(1.5, 1.2), moved(3.5, 1.2)], True),
        (1, 0, [moved(2.0, 1.2)], True),
    ],
)
def test_a_later_run_that_has_read_a_redriven_row_where_it_was_can_not_stay(
    tmp_path: Path,
    honoured_by_branch: int,
    honoured_by_later: int,
    overrides: list[Override],
    reads_it_again: bool,
) -> None:
    live = [run(0, 0), run(1, 0), run(2, honoured_by_later), run(3, honoured_by_later)]
    again = ReadAgain(DAILY, Warehouse(str(tmp_path)), live, to_ms(day(0)), overrides)
    asked = again.before(to_ms(day(2)), run(1, honoured_by_branch))
    assert [asked(row) is not None for row in live[2:]] == [reads_it_again] * 2
