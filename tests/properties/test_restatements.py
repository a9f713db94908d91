"""However a lineage came about, by runs and restatements over a source that was corrected under it, it ends
as one run over that source.

Histories are random: rows come late or are rewritten, ranges are restated in any width, cut otherwise, by
other code, from anywhere.
"""

import tempfile
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    CalendarEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.properties.own_windows import Lanes, LaneSessions, Turns
from tests.runs.world import DAILY, FOLDER, UNION, Event, World, perfect

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)
MIXED = replace(UNION, source=[*UNION.sources[:2], replace(FOLDER.sources[0], name="folder")])
RESULTS = {"share": "total / n", "rest": "total % n"}
LENGTH = 4  # hours of a slice
SLICES = 6

events = st.builds(
    lambda delay, into, row, key, x: (delay, into, row, key, x),
    st.sampled_from([0.1, 0.5, 2, 5, 9]),
    st.sampled_from([0.0, 0.3, 1.5, 2.7, 3.9]),
    st.integers(0, 10**6),
    st.sampled_from(["a", "b"]),
    st.integers(-3, 3),
)
rows_of_a_slice = st.lists(events, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), rows_of_a_slice),
        st.tuples(st.just("late"), st.integers(0, SLICES - 1), rows_of_a_slice.filter(bool)),
        st.tuples(st.just("write_again"), st.integers(0, 2)),
        st.tuples(st.just("rewrite"), st.integers(0, SLICES - 1), rows_of_a_slice.filter(bool)),
        st.tuples(
            st.just("restate"),
            st.integers(0, SLICES - 1),
            st.integers(1, 3),
            st.sampled_from([None, 3, 4, 8]),
            st.booleans(),
        ),
    ),
    min_size=4,
    max_size=11,
)


def hour_before_positive(row: Any, timestamp: int) -> int | None:
    """What rows carry: that all up to an hour before them have come, if their x says so."""
    return timestamp - HOUR // timedelta(milliseconds=1) if row.x > 0 else None


def pipelines() -> st.SearchStrategy[Pipeline]:
    windows = [
        TumblingEventTimeWindows.of(2 * HOUR),
        SlidingEventTimeWindows.of(3 * HOUR, HOUR),
        EventTimeSessionWindows.with_gap(2 * HOUR),
        CalendarEventTimeWindows.days("Asia/Kathmandu"),  # which begin at 18:15 UTC
        Lanes(TumblingEventTimeWindows.of(2 * HOUR)),
        LaneSessions(2 * 3_600_000),
        Turns(2 * 3_600_000),
    ]
    strategies = [DAILY.watermarks, WatermarkStrategy.punctuated(hour_before_positive)]
    return st.builds(
        lambda declared, window, purging, lateness, stragglers, key_by, distinct_by, watermarks, form: (
            replace(
                declared,
                **form,
                watermarks=watermarks,
                window=window,
                trigger=PurgingTrigger.of(EventTimeTrigger()) if purging else None,
                allowed_lateness=lateness * HOUR,
                stragglers=stragglers,
                key_by=key_by,
                # What is remembered for a bound needs one.
                distinct_by=distinct_by if watermarks is DAILY.watermarks else None,
                slice=LENGTH * HOUR,
            )
        ),
        st.sampled_from([DAILY, FOLDER, UNION, MIXED]),
        st.sampled_from(windows),
        st.booleans(),
        st.sampled_from([0, 1, 6]),
        st.sampled_from(["fold", "restate"]),
        st.sampled_from(["k", "k", None]),
        st.sampled_from([None, None, "x"]),
        st.sampled_from(strategies),
        st.sampled_from([{}, {}, {"having": "n > 1"}, {"results": RESULTS, "having": "share <> 1"}]),
    )


@dataclass
class History:
    """A world whose source changes, and what of it main has not seen yet.

    Attributes:
        reached: how many slices have been run.
        rows: rows of the source by slice of their arrival.
        changed: slices that were rewritten, or that have rows which main was not there for.
        has_shared_files: whether rows of several slices were put into one file.
    """

    world: World
    reached: int = 0
    rows: dict[int, list[Event]] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    has_shared_files: bool = False

    def events(self, slice_: int, drawn: list[tuple]) -> list[Event]:
        arrivals = [(slice_ * LENGTH + into, delay, row, key, x) for delay, into, row, key, x in drawn]
        return [Event(arrival - delay, arrival, row, key, x) for arrival, delay, row, key, x in arrivals]

    def run(self, drawn: list[tuple]) -> None:
        """The next slice arrives and is run. What was rewritten has to be restated before."""
        if self.reached == SLICES:
            return
        self.restate_changed()
        self.add(self.reached, drawn)
        try:
            self.world.run((self.reached + 1) * LENGTH)
        except SourceRewritten:
            # Rows that came after the run before share a file with rows that it has read: all are restated.
            assert self.has_shared_files
            self.world.backfill(0, self.reached * LENGTH)
            self.world.run((self.reached + 1) * LENGTH)
        self.reached += 1

    def add(self, slice_: int, drawn: list[tuple]) -> None:
        found = self.events(slice_, drawn)
        self.rows.setdefault(slice_, []).extend(found)
        for source in range(self.sources):
            if of_source := [event for event in found if event.row % self.sources == source]:
                self.world.append(of_source, source)

    @property
    def sources(self) -> int:
        """How many sources the pipeline has; a row's number says in which it stands."""
        return len(self.world.pipeline.sources)

    def late(self, slice_: int, drawn: list[tuple]) -> None:
        """Rows of a slice that was run appear."""
        if slice_ < self.reached:
            self.add(slice_, drawn)
            self.changed.add(slice_)

    def rewrite(self, slice_: int, drawn: list[tuple]) -> None:
        """Rows of a slice that was run are replaced in one of the sources, in files of their own."""
        source = drawn[0][2] % self.sources
        before = self.rows.get(slice_, [])
        if slice_ < self.reached and any(event.row % self.sources == source for event in before):
            new = [event for event in self.events(slice_, drawn) if event.row % self.sources == source]
            self.world.rewrite(slice_ * LENGTH, (slice_ + 1) * LENGTH, new, source)
            self.rows[slice_] = [event for event in before if event.row % self.sources != source] + new
            self.changed.add(slice_)

    def write_again(self, source: int) -> None:
        """All rows of a Delta source are put into one file, as a change of the data: later on a slice's rows
        share their file with all others. Files of a folder stay as they are.
        """
        self.restate_changed()
        self.world.write_again(source % self.sources)
        self.has_shared_files = True

    def restate(self, first: int, count: int, hours: int | None, new_code: bool) -> None:
        """A range is restated, with the changes outside of it, without which it would be refused."""
        if first >= self.reached:
            return
        wanted = {first, min(first + count, self.reached) - 1, *self.changed}
        self.world.code += "+" if new_code else ""
        slice_ms = None if hours is None else hours * 3_600_000
        try:
            self.world.backfill(min(wanted) * LENGTH, (max(wanted) + 1) * LENGTH, slice_ms=slice_ms)
        except SourceRewritten:
            # Rows that the branch would continue share a file with rows that came after them.
            self.world.backfill(0, (max(wanted) + 1) * LENGTH, slice_ms=slice_ms)
        self.changed.clear()

    def restate_changed(self) -> None:
        """Each slice that has changed, one by one, and nothing between them."""
        for slice_ in sorted(self.changed):
            self.changed = {slice_}
            self.restate(slice_, 1, None, False)


@given(pipelines(), st.lists(rows_of_a_slice, min_size=3, max_size=3), steps)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_history_with_restatements_ends_as_one_run_over_the_corrected_rows(
    pipeline: Pipeline, first: list[list[tuple]], program: list[tuple]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(World(Path(folder) / "world", pipeline))
        history.world.append([Event(-1, -0.5, 0)])  # before the lineage: the source is never empty
        for source in range(1, history.sources):
            history.world.append([], source)
        for drawn in first:
            history.run(drawn)
        for step, *arguments in program:
            getattr(history, step)(*arguments)
        history.restate_changed()
        assert history.world.left() == perfect(history.world, Path(folder) / "perfect")
        live = history.world.ledger.live_runs(history.world.main)
        assert sum(row.rows_read for row in live) == sum(map(len, history.rows.values())), (
            "each row is read once"
        )
