"""Which rows main's later runs have read again, where rows were redriven: the source is not asked."""

from datetime import timedelta

import pytest

from slackwater.runs.restating.branches import reads_other_rows
from slackwater.tables.ledger.overrides import MovedRows, Override
from slackwater.tables.ledger.rows import LedgerRow
from tests.tables.ledger.ledger_rows import day, run_row

HOUR = timedelta(hours=1)


def run(number: int) -> LedgerRow:
    """The run of a day."""
    return run_row(f"r{number}", day_number=number, seq=number + 1)


def moved(true_day: float, *new_days: float) -> dict[str, Override]:
    """A row whose arrival was changed, once or several times: the newest counts."""
    arrivals = [day(0) + number * 24 * HOUR for number in (true_day, *new_days)]
    override = Override(
        row_hash=str(true_day),
        arrival_time=arrivals[-1],
        reason="it counts",
        at=day(9),
        true_arrival=arrivals[0],
    )
    return {override.row_hash: override}


@pytest.mark.parametrize(
    ("moved_by_run", "moved_on_branch", "days"),
    [
        ({}, moved(3.5, 1.2), [3]),
        (moved(3.5, 1.2), moved(3.5, 1.2), []),
        ({}, {}, []),
        ({}, moved(1.5, 1.2), []),
        (moved(3.5, 1.2), moved(3.5, 1.2) | moved(1.5, 1.2), []),
        (moved(1.5, 1.2), moved(1.5, 1.2) | moved(3.5, 1.2), [3]),
        ({}, moved(2.0, 1.2), [2]),
        (moved(3.5, 1.2), {}, [3]),
        (moved(3.5, 2.2), moved(3.5, 1.2), [2]),
        (moved(3.5, 1.8), moved(3.5, 1.2), []),
        ({}, moved(2.7, 2.2), [2]),
    ],
)
def test_a_later_run_that_has_read_a_redriven_row_where_it_was_can_not_stay(
    moved_by_run: MovedRows, moved_on_branch: MovedRows, days: list[int]
) -> None:
    assert [
        number for number in (2, 3) if reads_other_rows(run(number), moved_by_run, moved_on_branch)
    ] == days
