"""A redriven row is taken in by the next restatement and by every later one, as if it had arrived when its
window was open.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.transport.in_process import InProcess
from slackwater.inspection.inspection import Inspection
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.redrive import Redrive, RedriveResult
from slackwater.tables.ledger.overrides import OverridesReader, count_known_to
from tests.runs.world import HOUR, Event, World, every_hour, moment, multiset

MS = timedelta(milliseconds=1)
# Windows of two hours, three hours of lateness, a bound of one: [2, 4) closes when the watermark reaches 7 h
# − 1 ms, that is when a row of 8 h has been seen. That one arrives at 8:30 exactly, where a tick ends before
# it: the watermark reaches 7 h at the next, 8:40.
LATE = Event(3.25, 30.2, 100)
REDRIVEN_TO = 8.5


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three days, a row an hour, and one row of the first day that arrives on the second."""
    world = World(tmp_path / "w")
    world.append(every_hour(0, 72))
    world.append([LATE])
    world.run(72)
    return world


def redrive(world: World, *, is_dry: bool = False, key: str | None = None) -> RedriveResult:
    late = Inspection(world.pipeline.name, world.tables).late(key).rows
    runner = world.runner()
    rolling = RollForward.of(runner.pipeline, world.tables, runner.shape)
    return Redrive(world.warehouse, world.pipeline, rolling, InProcess).run(late, "a reason", is_dry=is_dry)


def restate(world: World, done: RedriveResult) -> None:
    """What a redrive prints."""
    assert done.to_restate is not None
    first, last = ((bound - moment(0)) / HOUR for bound in done.to_restate)
    world.backfill(first, last)


def waiting(world: World, seq: int) -> list[str]:
    """What the checks of a run say of rows that it leaves to a restatement."""
    checks = Inspection(world.pipeline.name, world.tables).checks(seq)
    return [
        check["observed"]
        for check in checks
        if check["expectation"] == "redriven rows wait for a restatement"
    ]


def as_if_it_had_arrived(
    world: World, folder: Path, moved: Sequence[tuple[Event, float]], others: Sequence[Event], last: float
) -> dict[str, Any]:
    """What one run over a source leaves in which the moved rows stand with their new arrival."""
    perfect = World(folder, world.pipeline)
    perfect.append([*others, *(replace(event, arrival=new) for event, new in moved)])
    perfect.run(last, slice_=last * HOUR)
    return perfect.left()


def test_a_late_row_arrives_in_the_last_tick_that_would_have_taken_it(world: World) -> None:
    [late] = world.live("late_events")
    assert late["row"] == LATE.row
    [override] = redrive(world).overrides
    assert (override.true_arrival, override.arrival_time, override.reason) == (
        moment(30.2),
        moment(REDRIVEN_TO),
        "a reason",
    )
    [stored] = OverridesReader(world.tables["overrides"]).rows()
    assert replace(stored, at=override.at) == override
    done = redrive(world)
    assert (len(done.overrides), done.new) == (1, 0), "once is enough"
    assert done.to_restate == (moment(REDRIVEN_TO), moment(30.2) + (moment(0.001 / 3600) - moment(0)))


def test_a_dry_run_writes_nothing(world: World) -> None:
    assert redrive(world, is_dry=True).new == 1
    assert OverridesReader(world.tables["overrides"]).rows() == []
    assert redrive(world, key="nobody").overrides == ()


@pytest.mark.slow
def test_the_restated_range_has_it_and_so_has_every_later_restatement(world: World, tmp_path: Path) -> None:
    before = world.left()
    redrive(world)
    world.append(every_hour(72, 96))
    world.run(96)
    assert multiset(world.live("late_events")) == before["late"], (
        "main goes on without it until the range is restated"
    )
    assert {count_known_to(row) for row in world.ledger.live_runs(world.main)} == {0}
    assert waiting(world, 4) == ["1 rows, from 2013-01-01T08:30:00Z on"]
    wanted = as_if_it_had_arrived(world, tmp_path / "p", [(LATE, REDRIVEN_TO)], every_hour(0, 96), 96)
    assert wanted["late"] == []
    world.backfill(REDRIVEN_TO, 31)
    assert world.left() == wanted
    assert sum(row.rows_read for row in world.ledger.live_runs(world.main)) == 97, "each row once"
    for first, last in ((0, 20), (25, 40)):
        world.backfill(first, last)
        assert world.left() == wanted, (first, last)
    world.append(every_hour(96, 120))
    world.run(120)
    assert waiting(world, world.main.seq) == []
    assert world.left() == as_if_it_had_arrived(
        world, tmp_path / "q", [(LATE, REDRIVEN_TO)], every_hour(0, 120), 120
    )


@pytest.mark.slow
def test_rows_are_redriven_behind_a_restatement_that_main_has_resumed(world: World, tmp_path: Path) -> None:
    later = Event(75.25, 102.2, 200, "b")
    regular = every_hour(0, 120)
    world.append([*regular[72:], later])
    world.run(120)
    redrive(world, key="a")
    world.backfill(REDRIVEN_TO, 31)
    assert [count_known_to(row) for row in world.ledger.live_runs(world.main)] == [1, 1, 0, 0, 0], (
        "main's later runs have stayed"
    )
    [override] = redrive(world, key="b").overrides
    assert override.arrival_time == moment(80.5)
    world.backfill(80.5, 103)
    moved = [(LATE, REDRIVEN_TO), (later, 80.5)]
    assert world.left() == as_if_it_had_arrived(world, tmp_path / "p", moved, regular, 120)


def test_a_restatement_that_begins_behind_the_new_arrival_loses_no_row(world: World) -> None:
    before = world.left()
    redrive(world)
    world.backfill(25, 40)
    assert world.left() == before, "the row is late where it was"


@pytest.mark.slow
def test_runs_of_before_repeat_without_it_and_runs_of_after_with_it(world: World) -> None:
    from slackwater.runs.lineage.verify import Verifier

    redrive(world)
    world.backfill(REDRIVEN_TO, 31)
    runner = world.runner()
    verifier = Verifier(world.warehouse, world.pipeline, runner.code_hash, runner.engine, InProcess())
    # The hash of a declaration is the harness's own word, and the verifier asks for the real one.
    for row in [row for row in world.ledger.rows() if row.kind == "run"]:
        found = verifier.verify(row.seq)
        assert found.is_equal, [str(fact) for fact in found.facts if not fact.is_equal]


@pytest.mark.slow
def test_a_lateness_that_takes_the_row_where_it_is_needs_no_redrive(world: World) -> None:
    world.declare(allowed_lateness=40 * HOUR)
    done = redrive(world)
    assert (done.overrides, done.unmoved_rows) == ((), 1)
    assert done.to_restate == (moment(0), moment(30.2) + MS), (
        "the snapshot of the first day has collected its window"
    )
    restate(world, done)
    assert world.live("late_events") == []


@pytest.mark.slow
def test_a_row_that_is_late_again_by_another_lateness_is_redriven_again(world: World) -> None:
    restate(world, redrive(world))
    assert world.live("late_events") == []
    world.declare(allowed_lateness=HOUR)  # [2, 4) closes two hours earlier
    world.backfill(0, 72)
    [late] = world.live("late_events")
    assert late["arrival_time"] == moment(REDRIVEN_TO)
    done = redrive(world)
    [override] = done.overrides
    assert (override.true_arrival, override.arrival_time) == (moment(30.2), moment(REDRIVEN_TO - 2))
    restate(world, done)
    assert world.live("late_events") == []
    [window] = [row for row in world.published() if row["window_start"] == moment(2)]
    assert window["n"] == 3 and not any("not taken in" in sentence for sentence in world.said)


@pytest.mark.slow
def test_under_a_raised_lateness_the_range_begins_where_the_window_is_not_collected_yet(world: World) -> None:
    world.append([replace(LATE, arrival=90, row=101, x=10), *every_hour(72, 96)])
    world.run(96)
    world.declare(allowed_lateness=26 * HOUR)  # takes neither row: [2, 4) closes at 30 h, on the second day
    done = redrive(world)
    assert {override.arrival_time for override in done.overrides} == {moment(31.5)} and done.unmoved_rows == 1
    assert done.to_restate == (moment(0), moment(90) + MS), (
        "which the snapshot of the first day has collected by three hours"
    )
    restate(world, done)
    [window] = [row for row in world.published() if row["window_start"] == moment(2)]
    assert (window["n"], window["total"]) == (4, 13) and world.live("late_events") == []


def test_where_the_watermarks_are_gone_the_row_moves_to_the_start_of_that_slice(world: World) -> None:
    for file in (world.folder / "events").glob("*.parquet"):
        file.unlink()
    done = redrive(world)
    assert [row.arrival_time for row in done.overrides] == [moment(0)]
    assert "are gone (vacuumed)" in done.notes[0] and "moved to the start of its slice" in done.notes[0]


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 30), st.sampled_from(["a", "b"])), min_size=1, max_size=5
    ),
    st.sampled_from([6, 10, 24]),
)
def test_any_late_rows_are_all_taken_in_as_of_their_new_arrival(
    tmp_path_factory: Any, rows: list[tuple[int, int, str]], slice_: int
) -> None:
    folder = tmp_path_factory.mktemp("redrive")
    world = World(folder / "w")
    regular = every_hour(0, 72)
    # No two arrive at once: an override is told by the arrival that its row had.
    delayed = [
        Event(at + 0.25, at + 0.25 + delay + number / 64, 200 + number, key)
        for number, (at, delay, key) in enumerate(rows)
    ]
    world.append(regular)
    world.append(delayed)
    world.run(72, slice_=slice_ * HOUR)
    late = {row["row"] for row in world.live("late_events")}
    done = redrive(world)
    assert len(done.overrides) == len(late)
    if not late:
        return
    new = {override.true_arrival: override.arrival_time for override in done.overrides}
    moved = [
        (event, (new[moment(event.arrival or 0)] - moment(0)) / HOUR)
        for event in delayed
        if event.row in late
    ]
    world.backfill(min(arrival for _, arrival in moved), 72)
    others = [*regular, *(event for event in delayed if event.row not in late)]
    assert world.left() == as_if_it_had_arrived(world, folder / "p", moved, others, 72)
    assert world.left()["late"] == []


@pytest.mark.slow
@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(5, 40), st.sampled_from(["a", "b"])), min_size=3, max_size=8
    ),
    st.sampled_from([6, 10, 24]),
    st.lists(st.sampled_from([0, 3, 10, 26, 60]), min_size=3, max_size=3),
    st.sampled_from([ColumnarEngine(), OperatorEngine()]),
)
def test_the_printed_range_takes_every_late_row_in_whatever_became_of_the_lateness(
    tmp_path_factory: Any,
    rows: list[tuple[int, int, str]],
    slice_: int,
    latenesses: list[int],
    engine: Engine,
) -> None:
    world = World(tmp_path_factory.mktemp("redrive") / "w", engine=engine)
    world.append([replace(event, x=0) for event in every_hour(0, 96)])
    delayed = [
        Event(at + 0.25, at + 0.25 + delay + number / 64, 200 + number, key, 2**number)
        for number, (at, delay, key) in enumerate(rows)
    ]
    world.append(delayed)
    for until, lateness in zip((36, 72), latenesses, strict=False):
        world.declare(allowed_lateness=lateness * HOUR)
        world.run(until, slice_=slice_ * HOUR)
    world.declare(allowed_lateness=latenesses[-1] * HOUR)
    redriven = {row["row"] for row in world.live("late_events")}
    done = redrive(world)
    assert len(done.overrides) + done.unmoved_rows == len(redriven)
    if redriven:
        restate(world, done)
    late = {row["row"] for row in world.live("late_events")}
    assert not late & redriven, "others may be late where today's lateness is less than it was"
    firings: dict[tuple[str, Any], int] = {
        (row["k"], row["window_start"]): row["total"] for row in world.published()
    }
    accepted = [event for event in delayed if (event.arrival or 0) < 72 and event.row not in late]
    for event in accepted:  # each has a bit of its own
        assert firings[(event.key, moment(event.event // 2 * 2))] & event.x, event
    assert sum(firings.values()) == sum(event.x for event in accepted)
