"""By whatever path main came to the same slices, by runs, backfills, branches published later, or
restores, `published` is the same, row by row, and what the model says of the panes of the live runs.
"""

import random
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.inspection.inspection import Inspection
from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.moves import Moves
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.publish_branch import (
    BranchBehind,
    BranchPublisher,
    ChangedSinceShown,
    ForkedFromAnotherPast,
)
from slackwater.runs.staging.declarations import Declarations
from tests.properties.test_restatements import pipelines
from tests.runs.published_model import PaneRow, newest_firings
from tests.runs.world import Event, World, multiset

pytestmark = pytest.mark.slow

LENGTH = 4  # hours of a slice
SLICES = 6

steps = st.lists(
    st.one_of(
        st.tuples(st.just("run")),
        st.tuples(st.just("backfill"), st.integers(0, SLICES - 1), st.integers(1, 3)),
        st.tuples(st.just("branch"), st.integers(0, SLICES - 1), st.integers(1, 3)),
        st.tuples(st.just("publish")),
        st.tuples(st.just("restore"), st.integers(0, 10)),
    ),
    min_size=3,
    max_size=10,
)


@dataclass
class WanderingLineage:
    """A lineage that comes to its slices in whatever way; the rows of the source are all there from the
    start."""

    world: World

    @property
    def reached(self) -> int:
        return round(self.world.slices(self.world.ledger.live_runs(self.world.main))[-1][1]) // LENGTH

    @property
    def _tools(self) -> tuple[Moves, BranchPublisher]:
        runner = self.world.runner()
        name, rolling = (
            self.world.pipeline.name,
            RollForward.of(self.world.pipeline, runner.tables, runner.shape),
        )
        declared = Declarations(self.world.pipeline, self.world.code, runner.tables)
        return Moves(name, runner.tables, rolling, declared), BranchPublisher(
            self.world.pipeline, self.world.warehouse, runner.tables, rolling
        )

    def run(self) -> None:
        if self.reached < SLICES:
            self.world.run((self.reached + 1) * LENGTH)

    def backfill(self, first: int, count: int, *, publish: bool = True) -> None:
        if first < self.reached:
            self.world.backfill(first * LENGTH, (first + count) * LENGTH, publish=publish)

    def branch(self, first: int, count: int) -> None:
        """Restate a range, and leave it on its branch."""
        self.backfill(first, count, publish=False)

    def publish(self) -> None:
        """Make the newest branch live, which changes what it said before; where main has moved too far, drop
        it.
        """
        moves, publisher = self._tools
        for branch in self.world.ledger.branches()[-1:]:
            with suppress(BranchBehind, ForkedFromAnotherPast):
                publication = publisher.publication_of(branch.name)
                told_changes = (
                    None
                    if publication is None
                    else PublishedChanges.of_branch(publisher, publication, limit=None)
                )
                if told_changes is not None and publication.as_of > branch.head.seq:
                    with pytest.raises(ChangedSinceShown):
                        publisher.publish_as_it_is(branch.name)
                row = publisher.publish_as_it_is(
                    branch.name,
                    None if publication is None else publication.as_of,
                )
                assert (row is None) == (told_changes is None)
                if row is not None:
                    inspection = Inspection(self.world.pipeline.name, self.world.tables)
                    assert PublishedChanges.of_row(inspection, row, limit=None) == told_changes
                return
            moves.drop(branch.name)

    def restore(self, number: int) -> None:
        rows = [row for row in self.world.ledger.rows() if row.branch == "main"]
        self._tools[0].restore(rows[number % len(rows)].seq)


def by_the_model(world: World, purging: bool) -> list[PaneRow]:
    """What stands of the panes of main's live runs."""
    runs = [row.run_id for row in world.ledger.live_runs(world.main)]
    panes: dict[str, list[PaneRow]] = {run_id: [] for run_id in runs}
    for row in world.tables["panes"].read().to_pylist():
        if row["run_id"] in panes:
            panes[row["run_id"]].append(pane_of(row))
    return list(newest_firings([panes[run_id] for run_id in runs], purging).values())


def pane_of(row: dict) -> PaneRow:
    # Windows of a class of the user have columns of their own; windows of all rows have no key.
    own = ("tier", "number", "size", "level")
    window = tuple(row.get(name) for name in ("k", *own, "window_start", "window_end"))
    return PaneRow(
        row["key_group"], window, row["firing"], row["ordinal"], row["kind"], (row["n"], row["total"])
    )


@given(pipelines(), st.integers(0, 2**32), st.lists(steps, min_size=2, max_size=2))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_published_is_the_same_by_any_path(
    pipeline: Pipeline, seed: int, programs: list[list[tuple]]
) -> None:
    pipeline = replace(pipeline, results={}, having=None)  # the model publishes every window
    drawn = random.Random(seed)
    arrivals = [drawn.uniform(0, SLICES * LENGTH) for _ in range(30)]
    events = [
        Event(
            arrival - drawn.choice([0.1, 0.5, 2, 5, 9]),
            arrival,
            row,
            drawn.choice("ab"),
            drawn.randint(-3, 3),
        )
        for row, arrival in enumerate(arrivals)
    ]
    published = []
    for program in ([("run",)], *programs):
        with tempfile.TemporaryDirectory() as folder:
            path = WanderingLineage(World(Path(folder), pipeline))
            count = len(pipeline.sources)
            for source in range(count):
                path.world.append([event for event in events if event.row % count == source], source)
            path.world.run(LENGTH)
            for step, *arguments in program:
                getattr(path, step)(*arguments)
            while path.reached < SLICES:
                path.run()
            published.append(multiset(path.world.published()))
            rows = [pane_of(row) for row in path.world.published()]
            assert sorted(map(repr, rows)) == sorted(map(repr, by_the_model(path.world, pipeline.purges)))
    assert published[1:] == published[:1] * len(programs)
