"""Late rows of several keys are redriven, restated or left alone, in any order, while runs go on: `published`
is what a model computes by hand from the arrival that each row has by then.

The model knows no snapshot, branch or override table. Its watermark is the greatest event of all earlier
ticks less the bound; a row is late where that has passed its window's end by the lateness.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.transport.in_process import InProcess
from slackwater.inspection.inspection import Inspection
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.redrive import Redrive, RedriveResult
from slackwater.tables.ledger.lineage_rows import cause_of
from tests.runs.world import DAILY, HOUR, Event, World, moment, ms

SLICE = 5  # hours
TICK = 600_000
H = 3_600_000
BOUND, LATENESS, SIZE = H, 3 * H, 2 * H
PIPELINE = replace(DAILY, slice=SLICE * HOUR)

delayed_rows = st.lists(
    st.tuples(st.integers(5, 17), st.integers(0, 29), st.sampled_from(["a", "b", "c"])), max_size=3
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), delayed_rows),
        st.tuples(st.just("redrive"), st.sampled_from(["a", "b", "c", None])),
        st.tuples(st.just("redrive and restate"), st.sampled_from(["a", "b", "c", None])),
        st.tuples(st.just("restate"), st.integers(0, 5), st.integers(1, 2)),
    ),
    min_size=3,
    max_size=8,
)


@dataclass
class Model:
    """What must be published, by hand. All times in milliseconds since 1970.

    Attributes:
        rows: every row that was run.
        arrivals: row number → the arrival that it has on main.
        wishes: row number → the arrivals that redrives have given it, oldest first.
    """

    rows: list[Event] = field(default_factory=list)
    arrivals: dict[int, int] = field(default_factory=dict)
    wishes: dict[int, list[int]] = field(default_factory=dict)
    end: int = 0

    def add(self, rows: Sequence[Event]) -> None:
        self.rows += rows
        self.arrivals |= {row.row: ms(row.arrival or 0) for row in rows}

    def watermark(self, tick_end: int) -> int:
        """Where a tick ends."""
        events = [ms(row.event) for row in self.rows if self.arrivals[row.row] < tick_end]
        return max(events, default=-(2**60)) - BOUND - 1

    def closing(self, row: Event) -> int:
        """The watermark at which the row's window closes."""
        return _start_of_window(row) + SIZE - 1 + LATENESS

    def late(self) -> list[Event]:
        return [
            row
            for row in self.rows
            if self.watermark(self.arrivals[row.row] // TICK * TICK) >= self.closing(row)
        ]

    def published(self) -> dict[tuple[str, int], int]:
        late, sums = {row.row for row in self.late()}, Counter[tuple[str, int]]()
        for row in self.rows:
            if row.row not in late and _start_of_window(row) + SIZE - 1 <= self.watermark(self.end):
                sums[row.key, _start_of_window(row)] += row.x
        return dict(sums)

    def redrive(self, key: str | None) -> None:
        for row in self.late():
            if key in (None, row.key):
                ticks = range(ms(0), self.end, TICK)
                last = next(tick for tick in ticks if self.watermark(tick + TICK) >= self.closing(row))
                self.wishes.setdefault(row.row, []).append(last)

    def restate(self, start: int) -> bool:
        """Restate main from `start` on; whether an arrival has changed."""
        before = dict(self.arrivals)
        for number, wishes in self.wishes.items():
            for wish in wishes:
                if min(wish, self.arrivals[number]) >= start:
                    self.arrivals[number] = wish
        return before != self.arrivals

    def waits_in(self, start: int, end: int) -> bool:
        """Whether a redriven row of this range has not the arrival that it was given."""
        return any(
            start <= arrival < end
            for number, wishes in self.wishes.items()
            if wishes[-1] != self.arrivals[number]
            for arrival in (wishes[-1], self.arrivals[number])
        )


def _start_of_window(row: Event) -> int:
    return ms(row.event) // SIZE * SIZE


def redrive(world: World, key: str | None) -> RedriveResult:
    late = Inspection(world.pipeline.name, world.tables).late(key).rows
    runner = world.runner()
    rolling = RollForward.of(runner.pipeline, world.tables, runner.shape)
    return Redrive(world.warehouse, world.pipeline, rolling, InProcess).run(late, "a reason")


def hours(time: Any) -> float:
    return float((time - moment(0)) / HOUR)


class Histories:
    """A world and the model of it, step by step."""

    def __init__(self, folder: Path) -> None:
        self.world, self.model = World(folder, PIPELINE, engine=ColumnarEngine()), Model()
        self.slices = 0

    def run(self, delayed: Sequence[tuple[int, int, str]] = ()) -> None:
        """The next slice: a row of a key every hour, and rows of which the event lies hours back."""
        first = self.slices * SLICE
        rows = [
            Event(first + n + 0.25, first + n + 0.5, 1000 * first + n, "abc"[n % 3]) for n in range(SLICE)
        ]
        for number, (delay, place, key) in enumerate(delayed):
            arrival = first + (place * 6 + number + 1) / 40
            rows.append(
                Event(max(arrival - delay, 0.1), arrival, 1000 * first + 100 + number, key, 3 + number)
            )
        self.world.append(rows)
        self.slices += 1
        self.world.run(self.slices * SLICE)
        self.model.add(rows)
        self.model.end = ms(self.slices * SLICE)

    def redrive(self, key: str | None, *, restates: bool = False) -> None:
        result = redrive(self.world, key)
        rows = [row for row in self.model.late() if key in (None, row.key)]
        self.model.redrive(key)
        assert {override.true_arrival: override.arrival_time for override in result.overrides} == {
            moment(row.arrival or 0): moment((self.model.wishes[row.row][-1] - ms(0)) / H) for row in rows
        }
        if restates and result.to_restate is not None:
            self.restate(*map(hours, result.to_restate))
            for row in rows:
                assert self.model.arrivals[row.row] == self.model.wishes[row.row][-1], (
                    "the range is long enough"
                )

    def restate(self, first: float, last: float) -> None:
        publication = self.world.backfill(first, last)
        start = int(first // SLICE * SLICE)
        is_redrive = self.model.restate(ms(start))
        assert publication is not None
        assert cause_of(publication) == ("redrive" if is_redrive else "restatement")
        if self.model.waits_in(ms(start), ms(last)):
            assert any("not taken in" in sentence for sentence in self.world.said), self.world.said

    def check(self) -> None:
        published = {
            (row["k"], ms(hours(row["window_start"]))): row["total"] for row in self.world.published()
        }
        assert published == self.model.published()
        assert {row["row"] for row in self.world.live("late_events")} == {
            row.row for row in self.model.late()
        }


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(delayed_rows, steps)
def test_every_redriven_row_counts_from_the_restatement_that_begins_early_enough(
    delayed: list[tuple[int, int, str]], steps: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = Histories(Path(folder))
        for rows in ((), (), (), delayed):
            history.run(rows)
        for step in steps:
            match step:
                case ("run", rows):
                    history.run(rows)
                case ("redrive", key):
                    history.redrive(key)
                case ("redrive and restate", key):
                    history.redrive(key, restates=True)
                case ("restate", first, width) if first < history.slices:
                    history.restate(first * SLICE, (first + width) * SLICE)
            history.check()


@pytest.mark.slow
def test_a_redrive_that_nobody_restates_holds_no_other_one_back_and_lends_it_no_name(tmp_path: Path) -> None:
    history = Histories(tmp_path)
    history.run()
    history.run()
    history.run([(12, 1, "a"), (7, 20, "b")])
    assert [row.key for row in history.model.late()] == ["a", "b"]
    history.redrive("a")
    history.redrive("b", restates=True)
    history.check()
    assert [row.key for row in history.model.late()] == ["a"]
    assert "1 row that was redriven is not taken in" in history.world.said[-1]
    history.restate(10, 15)
    assert history.world.main.run_id.startswith("publish-"), "no row is moved by it"
    first, last = (part.split(" ")[1].rstrip("`.") for part in history.world.said[-1].split("--")[1:])
    history.restate(*(hours(datetime.fromisoformat(text)) for text in (first, last)))
    history.check()
    assert history.model.late() == [] and history.world.main.run_id.startswith("redrive-")
