"""Settings change between runs, restatements and restores of one lineage, on real tables. What is refused
changes nothing; what is published is what the panes of the live runs say; where stragglers are folded
every row is read once; and a restatement from the start leaves what one run by today's settings does.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.pipelines import Pipeline, agg
from slackwater.runs.lineage.moves import Moves
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import RULES, SettingsChanged
from slackwater.windowing import (
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.properties.test_paths import by_the_model, pane_of
from tests.runs.world import DAILY, HOUR, Event, World, multiset, perfect_world, version

LENGTH = 4  # hours of a slice
SLICES = 6
BASE = replace(DAILY, slice=LENGTH * HOUR)
MINUTE = timedelta(minutes=1)
# What may change, each alone, and what may not as long as something is parked, or never.
CHANGES: list[dict[str, Any]] = [
    *({"allowed_lateness": hours * HOUR} for hours in (0, 1, 6, 30)),
    *(
        {"watermarks": (bound, interval, idle)}
        for bound, interval, idle in ((1, 10, None), (3, 10, None), (0, 20, 2), (1, 30, None))
    ),
    *({"watermarks": (1, 7, None)}, {"late_refires": "run"}, {"late_refires": "tick"}),
    *({"max_ahead": HOUR}, {"max_behind": 3 * HOUR}, {"max_behind": None}, {"distinct_by": "x"}),
    *({"on_error": "quarantine"}, {"stragglers": "restate"}, {"stragglers": "fold"}, {"expect": []}),
    *(
        {"trigger": CountTrigger.of(2)},
        {"trigger": None},
        {"window": TumblingEventTimeWindows.of(3 * HOUR)},
        {"flink_exact": True},
    ),
    *({"trigger": PurgingTrigger.of(EventTimeTrigger())}, {"max_parallelism": 64}),
    *({"select": {"n": agg.count(), "total": agg.sum("x"), "most": agg.max("x")}}, {"where": "x > -2"}),
    *({"select": {"n": agg.count(), "total": agg.sum("x"), "mean": agg.mean("x")}}, {"where": None}),
]
rows_of_a_slice = st.integers(0, 2**32)
steps = st.lists(
    st.one_of(
        *[st.tuples(st.just("run"))] * 2,
        *[st.tuples(st.just("change"), st.sampled_from(range(len(CHANGES))))] * 2,
        st.tuples(st.just("late"), st.integers(0, SLICES - 1), rows_of_a_slice),
        st.tuples(st.just("backfill"), st.integers(0, SLICES - 1), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("restore"), st.integers(0, 10)),
    ),
    min_size=4,
    max_size=12,
)


@dataclass
class ChangingLineage:
    """A world whose settings change.

    Attributes:
        base: what is declared but for the settings that change.
        declared: the settings that were accepted last.
        rows: (slice, version of the source that brought it) of each row.
    """

    world: World
    base: Pipeline
    declared: Mapping[str, Any] = field(default_factory=dict)
    rows: list[tuple[int, int]] = field(default_factory=list)

    def declare(self, changes: Mapping[str, Any]) -> None:
        made = dict(changes)
        if "watermarks" in made:
            bound, interval, idle = made["watermarks"]
            strategy = WatermarkStrategy.bounded_out_of_orderness(bound * HOUR).with_interval(
                interval * MINUTE
            )
            made["watermarks"] = strategy if idle is None else strategy.with_idleness(idle * HOUR)
        if getattr(made.get("trigger", self.base.trigger), "purges", False):
            made.pop("late_refires", None)
        self.world.pipeline, self.world.code = (
            replace(self.base, **made),
            repr(sorted(changes.items(), key=str)),
        )
        self.wanted = dict(changes)

    @property
    def reached(self) -> int:
        """How many slices main has run."""
        return round(self.world.slices(self.world.ledger.live_runs(self.world.main))[-1][1]) // LENGTH

    def arrive(self, slice_: int, seed: int) -> None:
        """Some rows that arrive in a slice, in time or late."""
        drawn = Random(seed)
        rows = []
        for _ in range(drawn.randint(0, 4)):
            arrival = slice_ * LENGTH + drawn.choice([0.0, 0.3, 1.5, 2.7, 3.9])
            delay = drawn.choice([-0.5, 0.1, 0.5, 2, 5, 9])
            rows.append(
                Event(
                    arrival - delay,
                    arrival,
                    len(self.rows) + len(rows),
                    drawn.choice("ab"),
                    drawn.randint(-3, 3),
                )
            )
        if rows:
            self.world.append(rows)
            self.rows += [(slice_, version(self.world))] * len(rows)

    def attempt(self, command: Callable[[], Any]) -> bool:
        """Run a command by the settings that are wanted. If they are refused nothing has changed, and
        those from before are declared."""
        published, live = multiset(self.world.published()), self.world.main.live
        try:
            command()
        except SettingsChanged:
            assert (multiset(self.world.published()), self.world.main.live) == (published, live)
            self.declare(self.declared)
            return False
        self.declared = self.wanted
        return True

    def change(self, number: int) -> None:
        self.declare({**self.declared, **CHANGES[number]})

    def run(self) -> None:
        if self.reached < SLICES:
            self.attempt(lambda: self.world.run((self.reached + 1) * LENGTH))

    def late(self, slice_: int, seed: int) -> None:
        """Rows appear in a slice that was run, or before it is."""
        self.arrive(slice_, seed)

    def backfill(self, first: int, count: int, whatever_the_code: bool) -> None:
        if first < self.reached:
            last = min(first + count, self.reached) * LENGTH
            self.attempt(
                lambda: self.world.backfill(first * LENGTH, last, whatever_the_code=whatever_the_code)
            )

    def restore(self, number: int) -> None:
        rows = [row for row in self.world.ledger.rows() if row.branch == "main"]
        runner = self.world.runner()
        rolling = RollForward.of(self.world.pipeline, runner.tables, runner.shape)
        declared = Declarations(self.world.pipeline, self.world.code, runner.tables)
        moves = Moves(self.world.pipeline.name, runner.tables, rolling, declared)
        with suppress(SettingsChanged):  # of what the row was run with, which today's settings need not be
            moves.restore(rows[number % len(rows)].seq)

    def check(self) -> None:
        rows = [pane_of(row) for row in self.world.published()]
        assert sorted(map(repr, rows)) == sorted(map(repr, by_the_model(self.world, self.base.purges)))
        live = self.world.ledger.live_runs(self.world.main)
        if "restate" not in live[-1].config_hash:
            # Of each slice the newest version that its run or a later one has pinned.
            pinned = [max(row.inputs[0].version for row in live[place:]) for place in range(len(live))]
            read = sum(slice_ < len(live) and brought <= pinned[slice_] for slice_, brought in self.rows)
            assert sum(row.rows_read for row in live) == read


def check_lineage(base: Pipeline, seeds: list[int], program: list[tuple], folder: Path) -> None:
    lineage = ChangingLineage(World(folder / "world", base), base)
    lineage.declare({})
    lineage.world.append([Event(-1, -0.5, -1)])  # before the lineage: the source is never empty
    for slice_, seed in enumerate(seeds):
        lineage.arrive(slice_, seed)
    lineage.world.run(LENGTH)
    for step, *arguments in program:
        getattr(lineage, step)(*arguments)
        lineage.check()
    lineage.declare(lineage.declared)
    if not lineage.attempt(lambda: lineage.world.backfill(0, lineage.reached * LENGTH)):
        return
    perfect = perfect_world(lineage.world, folder / "perfect")
    assert lineage.world.left_by_column() == perfect.left_by_column()
    if lineage.world.table("panes").schema.equals(perfect.table("panes").schema):
        assert lineage.world.left() == perfect.left()


bases = st.sampled_from(
    [
        *(BASE, BASE),
        replace(BASE, trigger=PurgingTrigger.of(EventTimeTrigger())),
        replace(BASE, distinct_by="x"),
    ]
)
seeds_of_slices = st.lists(st.integers(1, 2**32), min_size=SLICES, max_size=SLICES)


@pytest.mark.slow
@given(bases, seeds_of_slices, steps)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_settings_change_in_a_lineage_or_are_refused(
    base: Pipeline, seeds: list[int], program: list[tuple]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_lineage(base, seeds, program, Path(folder))


def test_every_setting_that_has_a_meaning_for_what_is_parked_is_among_the_changes() -> None:
    meaning = {
        path.split(".")[0]
        for path, kind in RULES.items()
        if kind in ("converted", "at a tick boundary", "lasting")
    }
    of_user_code = {"pickled_state", "window_columns"}
    assert meaning - {name for change in CHANGES for name in change} == of_user_code
