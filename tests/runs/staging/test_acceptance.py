"""What a person has accepted stays accepted: of the slice that was rejected, and of its windows when later
rows revise them. Sums are by hand.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.pipelines import expect
from slackwater.runs.staging.staged_slice import SliceRejected
from tests.runs.world import DAILY, HOUR, Event, World, every_hour, moment

SALE = Event(20.5, 21, 200, "a", 99)
SOLD_LATE = Event(21.5, 30, 201, "a", 5)
LIMIT = "total <= 50"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An order an hour over four days, a great one on the first, a late one of its window on the second."""
    pipeline = replace(DAILY, allowed_lateness=30 * HOUR, expect=[expect.between("total", max=50)])
    world = World(tmp_path / "w", pipeline)
    world.append([*every_hour(0, 96), SALE, SOLD_LATE])
    return world


def verdicts(world: World) -> list[str | None]:
    return [row.verdict for row in world.ledger.rows()]


def total_of_sale(world: World) -> Any:
    [total] = [row["total"] for row in world.published() if row["window_start"] == moment(20)]
    return total


def test_a_rejection_names_keys_windows_and_values(world: World) -> None:
    world.append([Event(3, 4, 300, "b", 70)])
    with pytest.raises(SliceRejected) as error:
        world.run(24)
    assert (
        f"{LIMIT}: 2 of 12 values, observed 2 … 101, e.g. k b, 2013-01-01 02:00–04:00: 70; "
        "k a, 2013-01-01 20:00–22:00: 101" in str(error.value)
    )


def test_a_window_that_fires_again_with_the_same_value_is_named_once(world: World) -> None:
    late_rows = [Event(3.2, 10, 301, "b", 0), Event(3.4, 15, 302, "b", 0)]
    world.append([Event(3, 4, 300, "b", 70), *late_rows])
    with pytest.raises(SliceRejected) as error:
        world.run(24)
    assert (
        f"{LIMIT}: 4 of 14 values, observed 2 … 101, e.g. k b, 2013-01-01 02:00–04:00: 70; "
        "k a, 2013-01-01 20:00–22:00: 101\n" in str(error.value)
    )


def test_a_run_that_accepts_goes_on_to_its_end(world: World) -> None:
    with pytest.raises(SliceRejected):
        world.run(72)
    world.run(72, accept="a sale")
    assert verdicts(world) == ["accepted: a sale", "passed", "passed"]
    assert total_of_sale(world) == 106
    assert any(LIMIT in line for line in world.said), "it says what was accepted"


def test_a_run_accepts_one_slice_and_no_other_one(world: World) -> None:
    world.append([Event(60.5, 61, 300, "b", 80)])
    with pytest.raises(SliceRejected, match=r"k b, 2013-01-03 12:00–14:00: 80"):
        world.run(96, accept="a sale")
    assert verdicts(world) == ["accepted: a sale", "passed"]


def test_what_is_staged_with_an_acceptance_is_published_without_another(world: World) -> None:
    world.run(48, accept="a sale", publish=False)
    attempts = world.tables.attempts.newest_rows()
    assert [attempt.outcome for attempt in attempts] == ["staged", "staged"]
    assert [attempt.verdict for attempt in attempts] == ["accepted: a sale", "passed"]


def test_an_accepted_window_is_not_rejected_again_when_late_rows_revise_it(world: World) -> None:
    world.run(24, accept="a sale")
    world.run(48)
    assert verdicts(world) == ["accepted: a sale", "passed"]
    [check] = [
        row
        for row in world.table("validations").read().to_pylist()
        if row["expectation"] == LIMIT and row["passed"]
    ]
    assert check["observed"].endswith("; 1 value of windows that were accepted before")
    assert total_of_sale(world) == 106


def test_another_window_is_rejected_beside_an_accepted_one(world: World) -> None:
    world.append([Event(40.5, 41, 300, "b", 80)])
    world.run(24, accept="a sale")
    with pytest.raises(SliceRejected, match=f"{LIMIT}: 1 of .* values.* k b, 2013-01-02 16:00–18:00: 80\n"):
        world.run(48)


def test_an_acceptance_ends_with_its_expectation(world: World) -> None:
    world.run(24, accept="a sale")
    world.declare(expect=[expect.between("total", max=49)])
    with pytest.raises(SliceRejected, match="total <= 49"):
        world.run(48)


@pytest.mark.slow
def test_a_restatement_keeps_what_was_accepted(world: World) -> None:
    world.run(72, accept="a sale")
    world.append([Event(21.25, 22.75, 301, "a", 4)])
    world.backfill(0, 24, reason="one was missing")
    assert total_of_sale(world) == 110
    assert not any("accepted" in str(row.verdict) for row in world.ledger.rows()[3:])
