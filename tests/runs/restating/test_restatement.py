"""Which range is restated, from which snapshot, and how it is cut: pure functions on live runs of four
days.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from slackwater.errors import UsageError
from slackwater.runs.restating.restatement import (
    NothingToRestate,
    restate,
    run_ending_at,
    runs_behind,
    slices_from,
)
from slackwater.runs.staging.staged_slice import LineageClosed
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing.times import to_ms
from tests.tables.ledger.ledger_rows import day, run_row

HOUR = 3_600_000
START = to_ms(day(0))
LIVE = [run_row(f"r{number}", day_number=number, seq=number + 1) for number in range(4)]


def hours(number: float) -> int:
    return START + int(number * HOUR)


def kept(row: LedgerRow) -> bool:
    return True


def restated(
    first: float, last: float, has_snapshot: Callable[[LedgerRow], bool] = kept
) -> tuple[float, float, int | None, str]:
    found = restate("p", LIVE, hours(first), hours(last), has_snapshot)
    owner = None if found.owner is None else found.owner.seq
    return (found.from_ms - START) / HOUR, (found.to_ms - START) / HOUR, owner, " ".join(found.adjustments)


@pytest.mark.parametrize(
    ("asked", "first", "last", "owner"),
    [
        ((24, 48), 24, 48, 1),
        ((0, 24), 0, 24, None),
        ((24, 72), 24, 72, 1),
        ((72, 96), 72, 96, 3),
        ((25, 47), 24, 48, 1),
        ((23.99, 24.01), 0, 48, None),
        ((95.9, 96), 72, 96, 3),
        ((-5, 1), 0, 24, None),
        ((80, 500), 72, 96, 3),
        ((-100, 500), 0, 96, None),
    ],
)
def test_bounds_move_outwards_to_the_boundaries_of_live_slices(
    asked: tuple[float, float], first: float, last: float, owner: int | None
) -> None:
    found = restated(*asked)
    assert found[:3] == (first, last, owner)
    assert ("moved to" in found[3]) == (asked != (first, last))


def test_what_was_moved_is_said_with_its_reason() -> None:
    assert restated(25, 47)[3] == (
        "from 2013-01-02T01:00:00Z moved to 2013-01-02T00:00:00Z, the last boundary of a slice before it "
        "to 2013-01-02T23:00:00Z moved to 2013-01-03T00:00:00Z, the next boundary of a slice"
    )
    assert restated(-1, 97)[3] == (
        "from 2012-12-31T23:00:00Z moved to 2013-01-01T00:00:00Z, where the lineage begins "
        "to 2013-01-05T01:00:00Z moved to 2013-01-05T00:00:00Z, where the lineage ends"
    )


def test_a_snapshot_that_is_gone_is_gone_round_and_that_is_said() -> None:
    found = restated(72, 96, lambda row: row.seq == 1)
    assert found[:3] == (24, 96, 1)
    assert found[3] == (
        "from 2013-01-04T00:00:00Z moved to 2013-01-02T00:00:00Z, the last boundary with a snapshot; that of "
        "run 3 was removed by retention"
    )
    assert restated(72, 96, lambda row: False)[:3] == (0, 96, None)


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ((48, 48), UsageError, "is not before"),
        (
            (96, 100),
            NothingToRestate,
            r"ends at 2013-01-05T00:00:00Z.*slackwater run p --to 2013-01-05T04:00:00Z",
        ),
        ((-10, 0), NothingToRestate, "the lineage begins at 2013-01-01T00:00:00Z"),
    ],
)
def test_a_range_without_a_slice_that_was_run_is_refused(
    asked: tuple[float, float], error: type[UsageError], told: str
) -> None:
    with pytest.raises(error, match=told):
        restated(*asked)


def test_a_lineage_without_runs_or_one_that_was_closed_can_not_be_restated() -> None:
    with pytest.raises(NothingToRestate, match="has no runs yet"):
        restate("p", [], hours(0), hours(24), kept)
    with pytest.raises(LineageClosed, match="closed by row 5"):
        restate(
            "p", [*LIVE, replace(run_row("c", day_number=3), kind="close", seq=5)], hours(0), hours(24), kept
        )


def cuts(
    first: float, last: float, length: float | None, begin: float | None = None
) -> list[tuple[float, float]]:
    wanted = restate("p", LIVE, hours(first), hours(last), kept)
    at_ms = wanted.from_ms if begin is None else hours(begin)
    slices = slices_from(wanted, LIVE, at_ms, None if length is None else int(length * HOUR), START)
    return [((item.from_ms - START) / HOUR, (item.to_ms - START) / HOUR) for item in slices]


def test_a_branch_has_mains_cuts_or_its_own_and_always_one_at_the_end_of_the_range() -> None:
    assert cuts(24, 72, None) == [(24, 48), (48, 72), (72, 96)]
    assert cuts(24, 48, 10)[:4] == [(24, 30), (30, 40), (40, 48), (48, 50)]
    assert cuts(0, 96, 60) == [(0, 60), (60, 96)]
    assert cuts(24, 48, 1000) == [(24, 48), (48, 96)]


def test_behind_the_range_own_cuts_go_on_to_where_main_ends() -> None:
    assert cuts(24, 48, 40, begin=48) == [(48, 80), (80, 96)]
    assert cuts(24, 48, 40, begin=96) == []
    assert cuts(24, 48, None, begin=80) == [(80, 96)], "from within a slice to its end"


def test_mains_runs_behind_a_boundary_and_the_one_that_ends_there() -> None:
    assert [row.seq for row in runs_behind(LIVE, hours(48))] == [3, 4]
    there = run_ending_at(LIVE, hours(48))
    assert there is not None and there.seq == 2
    assert run_ending_at(LIVE, hours(47)) is None and runs_behind(LIVE, hours(96)) == []
