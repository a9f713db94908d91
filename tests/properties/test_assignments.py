"""Each (element, window) assignment that was accepted is accounted for, whatever a lineage has been through:
it is in the open window's contents, or in the live firing that counts. Histories of runs, restatements and
redrives, between which the allowed lateness changes.

Every row of the source has a bit of its own, so a sum says which rows it holds. What is counted stands in the
tables alone; what is published is held against the brute-force model, too.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import agg
from slackwater.pipelines.window_columns import WINDOW_BOUNDS
from slackwater.tables.ledger.overrides import OverridesReader
from slackwater.tables.run_files.staging import read_staged
from slackwater.windowing import (
    CalendarEventTimeWindows,
    CumulateEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tests.model import brute_force
from tests.model import records as model
from tests.runs.restating.test_redrive import redrive, restate
from tests.runs.world import DAILY, HOUR, Event, World, moment, ms

pytestmark = pytest.mark.slow

LENGTH = 4  # hours of a slice
SLICES = 6
HOUR_MS = 3_600_000
DAYS_OF_KATHMANDU = model.Periods(
    tuple(ms(18.25 + 24 * day) for day in range(-3, 4)), "Asia/Kathmandu", "days"
)  # 5 h 45 min before UTC
WINDOWS = {
    "tumbling": (TumblingEventTimeWindows.of(2 * HOUR), model.Tumbling(2 * HOUR_MS)),
    "sliding": (SlidingEventTimeWindows.of(3 * HOUR, HOUR), model.Sliding(3 * HOUR_MS, HOUR_MS)),
    "cumulative": (CumulateEventTimeWindows.of(3 * HOUR, HOUR), model.Cumulative(3 * HOUR_MS, HOUR_MS)),
    "session": (EventTimeSessionWindows.with_gap(HOUR), model.Session(HOUR_MS)),
    "calendar": (CalendarEventTimeWindows.days("Asia/Kathmandu"), DAYS_OF_KATHMANDU),
}

# Hours of delay, hours into the slice, key. The last row of a slice is one in time, which moves the
# watermark.
rows_of_a_slice = st.lists(
    st.tuples(
        st.sampled_from([0.1, 2, 5, 7, 9, 14]), st.sampled_from([0.0, 0.3, 1.5, 2.7]), st.sampled_from("ab")
    ),
    min_size=1,
    max_size=5,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), rows_of_a_slice),
        st.tuples(st.just("run"), rows_of_a_slice),
        st.tuples(st.just("allow"), st.sampled_from([0, 1, 4, 12, 40])),
        st.tuples(st.just("redrive")),
        st.tuples(st.just("restate"), st.integers(0, SLICES - 1), st.integers(1, 3)),
    ),
    min_size=5,
    max_size=10,
)


@dataclass
class History:
    """A world whose allowed lateness changes.

    Attributes:
        latenesses: hash of the declarations → allowed lateness in hours.
        events: rows of the source so far.
        reached: how many slices have been run.
    """

    world: World
    latenesses: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    reached: int = 0

    def allow(self, hours: int) -> None:
        self.world.declare(allowed_lateness=hours * HOUR)
        self.latenesses[self.world.code] = hours

    def run(self, drawn: list[tuple[float, float, str]]) -> None:
        if self.reached == SLICES:
            return
        start, first = self.reached * LENGTH, len(self.events)
        facts = [*drawn, (0.1, 3.4, "a")]
        new = [
            Event(start + into - delay, start + into + 0.01 * at, first + at, key, 2 ** (first + at))
            for at, (delay, into, key) in enumerate(facts)
        ]
        self.events += new
        self.world.append(new)
        self.reached += 1
        self.world.run(self.reached * LENGTH)

    def redrive(self) -> None:
        """And restate what it prints."""
        late = {row["row"] for row in self.world.live("late_events")}
        if late:
            restate(self.world, done := redrive(self.world))
            assert len(done.overrides) + done.unmoved_rows == len(late)
            assert not late & {row["row"] for row in self.world.live("late_events")}, (
                "what is redriven is taken"
            )

    def restate(self, first: int, slices: int) -> None:
        if first < self.reached:
            self.world.backfill(first * LENGTH, min(first + slices, self.reached) * LENGTH)

    # --- what the tables hold

    def pieces(self, purges: bool) -> Iterator[int]:
        """Sums of rows, none of which may have a row in common with another of the same window."""
        world = self.world
        live = world.ledger.live_runs(world.main)
        place = {row.run_id: number for number, row in enumerate(live)}
        panes = world.tables["panes"].read(where=pc.field("run_id").isin(pa.array(list(place)))).to_pylist()
        panes.sort(key=lambda pane: (place[pane["run_id"]], pane["firing"]))
        fired: dict[Any, list[int]] = {}
        for pane in panes:
            firings = fired.setdefault((pane["k"], pane["window_start"], pane["window_end"]), [])
            if not purges:
                firings.clear()
            firings.append(pane["total"] or 0)  # a withdrawn session has none
        for row in read_staged(
            world.tables, "window_state", live[-1].files.get("window_state", ())
        ).to_pylist():
            window, held = (row["k"], row["window_start"], row["window_end"]), int(row["total__sum"] or 0)
            if purges:
                fired.setdefault(window, []).append(held)
            else:
                assert all(not total & ~held for total in fired.get(window, ())), (
                    "an open window holds what it has fired"
                )
                fired[window] = [held]
        for totals in fired.values():
            yield from totals

    def check(self, purges: bool, assigner: Any) -> None:
        live = self.world.ledger.live_runs(self.world.main)
        held = Counter(event.row for total in self.pieces(purges) for event in self.events if total & event.x)
        late = {row["row"] for row in self.world.live("late_events")}
        assert set(held) == {event.row for event in self.events} - late
        accepted, missed = (
            sum(getattr(row, name) for row in live) for name in ("rows_accepted", "assignments_missed")
        )
        assert len(held) == accepted
        windows = {
            event.row: len(brute_force.windows_of(ms(event.event), assigner))
            for event in self.events
            if event.row in held
        }
        assert held.total() == sum(windows.values()) - missed
        assert all(count <= windows[row] for row, count in held.items())

    def published_by_the_model(self, assigner: Any) -> dict[Any, tuple[int, int]]:
        """Key and bounds of a window → rows and their sum, of one replay over the rows with their new
        arrivals and each live run's lateness.
        """
        live = self.world.ledger.live_runs(self.world.main)
        latenesses = {
            ms((row.slice_start - moment(0)) / HOUR): self.latenesses[row.config_hash or ""] * HOUR_MS
            for row in live
            if row.slice_start
        }
        overrides = OverridesReader(self.world.tables["overrides"]).rows()
        moved = {row.true_arrival: row.arrival_time for row in overrides}
        events = []
        for event in self.events:
            arrival = moment(event.arrival or 0)
            arrival_ms = ms((moved.get(arrival, arrival) - moment(0)) / HOUR)
            events.append(
                model.Event(ms(event.event), arrival_ms, "", (arrival, event.row), event.key, {"x": event.x})
            )
        rules = model.Replay(
            start=ms(0),
            to=ms(self.reached * LENGTH),
            tick=HOUR_MS // 6,
            bound=HOUR_MS,
            assigner=assigner,
            allowed_lateness=latenesses[ms(0)],
            aggregates=(model.Aggregate("n", "count"), model.Aggregate("total", "sum", "x")),
        )
        found = brute_force.replay(
            events, rules, {at: {"allowed_lateness": hours} for at, hours in latenesses.items() if at > ms(0)}
        )
        return {
            (pane.key, *pane.window): (pane.results["n"], pane.results["total"])
            for pane in found.published
            if pane.results
        }


@given(
    st.sampled_from(sorted(WINDOWS)),
    st.booleans(),
    st.sampled_from([OperatorEngine(), ColumnarEngine()]),
    st.lists(rows_of_a_slice, min_size=2, max_size=2),
    steps,
)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_every_accepted_assignment_is_in_an_open_window_or_in_the_firing_that_counts(
    kind: str, purges: bool, engine: Any, first: list[list[tuple]], program: list[tuple]
) -> None:
    window, assigner = WINDOWS[kind]
    trigger = PurgingTrigger.of(EventTimeTrigger()) if purges else None
    pipeline = replace(
        DAILY,
        window=window,
        trigger=trigger,
        slice=LENGTH * HOUR,
        select={"n": agg.count(), "total": agg.sum("x")},
    )
    with tempfile.TemporaryDirectory() as folder:
        history = History(World(Path(folder) / "world", pipeline, engine=engine))
        history.allow(1)
        for drawn in first:
            history.run(drawn)
        for step, *arguments in program:
            getattr(history, step)(*arguments)
            history.check(purges, assigner)
        if not purges:
            published = {
                (row["k"], *(ms((row[bound] - moment(0)) / HOUR) for bound in WINDOW_BOUNDS)): (
                    row["n"],
                    row["total"],
                )
                for row in history.world.published()
            }
            assert published == history.published_by_the_model(assigner)
