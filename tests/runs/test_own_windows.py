"""A lineage of windows of a user's own class: its declared columns stand in every table, tell windows apart
there and in sinks, and can't change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slackwater.engine.planner import choose
from slackwater.engine.transport.in_process import InProcess
from slackwater.inspection.inspection import Inspection
from slackwater.pipelines import Pipeline, agg, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.publishing.delivery import identity_of
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.redrive import Redrive
from slackwater.runs.staging.evolution import SettingsChanged, differences
from slackwater.runs.staging.shapes import shape_of
from slackwater.tables.errors import ShapeChanged
from slackwater.tables.schemas import table_columns
from slackwater.windowing import (
    CountTrigger,
    ProcessWindowFunction,
    TimeWindow,
    ValueStateDescriptor,
    WindowAssigner,
)
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.snapshot import SnapshotValueError
from slackwater.windowing.times import to_datetime
from tests.properties.own_windows import Lane, Lanes, tier_of
from tests.runs.own_lanes import LANES, PIPELINES, SESSIONS, TURNS, TWO_HOURS, lanes_of_a_day
from tests.runs.world import DAILY, SCHEMA, Event, World, every_hour, moment, perfect


def columns_of(pipeline: Pipeline) -> dict[str, list[str]]:
    tables = table_columns(shape_of(pipeline, SCHEMA))
    return {table: [name for name, _ in columns] for table, columns in tables.items()}


def test_declared_columns_stand_beside_the_bounds_in_every_table() -> None:
    tables = columns_of(LANES)
    for table in ("published", "panes", "corrections", "window_state", "timers"):
        place = tables[table].index("window_end")
        assert tables[table][place + 1] == "tier", table
    place = tables["window_state"].index("state_window_end")
    assert tables["window_state"][place + 1] == "state_window_tier"
    assert "namespace_tier" in tables["keyed_state"]
    late = dict(table_columns(shape_of(LANES, SCHEMA))["late_events"])
    assert [field.name for field in late["windows"].value_type] == ["start", "end", "tier"]


def test_other_pipelines_have_the_tables_and_the_declaration_that_they_had() -> None:
    assert "window_columns" not in DAILY.describe()
    assert columns_of(DAILY)["published"][:4] == ["k", "window_start", "window_end", "n"]


def test_the_planner_says_why_they_run_element_by_element() -> None:
    choice = choose(LANES, SCHEMA)
    assert (choice.engine, choice.why) == ("operator", "not columnar: Lanes has no columnar form")


# Of each pipeline the windows of `lanes_of_a_day` that have fired: start, end, tier, elements.
FIRED = {
    "lanes": [(0, 2, "gold", 2), (0, 2, "silver", 1), (22, 24, "silver", 2), (22, 24, "ж", 1)],
    "turns": [(None, 2, "gold", 2), (None, 2, "silver", 1), (None, 24, "silver", 2), (None, 24, "ж", 1)],
    "sessions": [
        (0.1, 3.9, "gold", 2),
        (0.2, 2.2, "silver", 1),
        (23.0, 25.5, "silver", 2),
        (23.2, 25.2, "ж", 1),
    ],
}
# How these windows change when the day's rows are two: one of the tier gold and one of the tier ж.
RESTATED = [("gold", "update"), ("silver", "withdraw"), ("silver", "update"), ("ж", "insert")]
RESTATED_SESSIONS = [
    *(("gold", "withdraw"), ("gold", "insert")),
    *(("silver", "withdraw"), ("silver", "withdraw"), ("silver", "insert")),
    ("ж", "insert"),
]


@pytest.mark.first_fast
@pytest.mark.parametrize("name", PIPELINES)
def test_windows_are_parked_fired_and_published_by_lane(name: str, tmp_path: Path) -> None:
    world = lanes_of_a_day(PIPELINES[name], tmp_path)
    assert Counter(
        (row["window_start"], row["window_end"], row["tier"], row["n"]) for row in world.published()
    ) == Counter(
        (None if start is None else moment(start), moment(end), tier, elements)
        for start, end, tier, elements in FIRED[name]
    )
    assert world.left() == perfect(world, tmp_path / "perfect")


@pytest.mark.first_fast
@pytest.mark.parametrize("name", PIPELINES)
def test_a_restatement_changes_the_lanes_that_its_rows_touch(name: str, tmp_path: Path) -> None:
    world = lanes_of_a_day(PIPELINES[name], tmp_path)
    world.rewrite(0, 24, [Event(0.1, 0.2, 0, x=0), Event(0.2, 0.3, 1, x=2)])
    world.backfill(0, 24)
    assert world.left() == perfect(world, tmp_path / "perfect")
    corrections = world.table("corrections").read().to_pylist()
    ops = Counter((row["tier"], row["op"]) for row in corrections if row["cause"] == "restatement")
    assert ops == Counter(RESTATED_SESSIONS if name == "sessions" else RESTATED)


def test_open_windows_and_timers_are_listed_with_their_lanes(tmp_path: Path) -> None:
    world = lanes_of_a_day(LANES, tmp_path)
    inspection = Inspection.of("daily", str(world.folder))
    assert inspection.window_columns() == ["window_start", "window_end", "tier"]
    at_first = inspection.snapshot("window_state", 1).to_pylist()
    assert [(row["window_start"], row["tier"], row["elements"]) for row in at_first] == [
        (moment(22), "silver", 1)
    ]
    differing = [(row["what"], row["tier"], row["there"]) for row in inspection.differences("1", "2")[0]]
    assert ("window", "silver", "left") in differing
    assert ("timer", "silver", "left") in differing


def test_a_window_without_bounds_of_its_own_ends_after_its_last_instant(tmp_path: Path) -> None:
    world = lanes_of_a_day(TURNS, tmp_path)
    for row in world.published():
        assert row["window_start"] is None
        assert row["window_end"] == to_datetime((row["number"] + 1) * TWO_HOURS)
        last = row["window_end"] - timedelta(milliseconds=1)
        assert row["window_date"] == last.date()


class Wider(NamedTuple):
    """A lane with one more column."""

    start: int
    end: int
    tier: str
    weight: int
    columns = "tier string, weight long"

    def max_timestamp(self) -> int:
        return self.end - 1


class Open(NamedTuple):
    """A lane that does not say when it starts."""

    end: int
    tier: str
    columns = "tier string"

    def max_timestamp(self) -> int:
        return self.end - 1


class OpenLanes(Lanes):
    window_type = Open

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Open]:
        return [Open(*lane[1:]) for lane in super().assign_windows(element, timestamp, context)]


class WiderLanes(Lanes):
    window_type = Wider

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Wider]:
        return [Wider(*lane, 1) for lane in super().assign_windows(element, timestamp, context)]


def test_the_columns_of_a_class_last_as_long_as_the_lineage(tmp_path: Path) -> None:
    world = lanes_of_a_day(LANES, tmp_path)
    recorded = LANES.describe()
    assert recorded["window_columns"] == ["start", "end", "tier string"]
    wider = replace(LANES, window=WiderLanes(LANES.windows.plain))
    [change] = [item for item in differences(recorded, wider.describe()) if item.path == "window_columns"]
    assert (change.kind, change.after) == ("lasting", ["start", "end", "tier string", "weight long"])
    world.pipeline, world.code = wider, "wider"
    with pytest.raises(ShapeChanged, match=r"weight \(stored not, declared int64\).*begin a new lineage"):
        world.run(72)
    world.pipeline, world.code = replace(LANES, window=OpenLanes(LANES.windows.plain)), "open"
    with pytest.raises(SettingsChanged, match=r"window_columns: \[start, end, tier string\] → \[end, tier"):
        world.run(72)


class Odd(NamedTuple):
    start: int
    columns = "tier string"

    def max_timestamp(self) -> int:
        return self.start


class Odds(WindowAssigner):
    window_type = Odd


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"window": Odds()}, "Odd has the fields start and declares the columns tier"),
        ({"select": {"tier": agg.count()}}, "must differ, also in lower case"),
        ({"select": {"namespace_tier": agg.count()}}, "must differ, also in lower case"),
        ({"key_by": "tier"}, "must differ, also in lower case"),
    ],
)
def test_declarations_that_do_not_go_together_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        replace(LANES, **changes)


def test_an_expectation_may_be_about_a_declared_column() -> None:
    shape_of(replace(LANES, expect=[expect.in_set("tier", ["gold", "silver", "ж"])]), SCHEMA)
    with pytest.raises(PipelineError, match="column 'tier' is string"):
        shape_of(replace(LANES, expect=[expect.in_set("tier", [1])]), SCHEMA)


class Lost(Lanes):
    """Gives an element a window without a lane."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
        windows = super().assign_windows(element, timestamp, context)
        return [window._replace(tier=None) for window in windows] if element.x == 7 else windows


def test_an_element_whose_window_has_no_value_goes_to_quarantine(tmp_path: Path) -> None:
    world = World(tmp_path, replace(LANES, window=Lost(LANES.windows.plain), on_error="quarantine"))
    world.append([Event(0.1, 0.2, 0), Event(0.2, 0.3, 1, x=7)])
    [run] = world.run(24)
    assert (run.rows_accepted, run.rows_quarantined) == (1, 1)
    [row] = world.live("quarantine")
    assert "the field tier is declared as string and can't be None" in row["reason"]


def verify(world: World, seq: int) -> list[Any]:
    """What a repetition of run `seq` computes otherwise."""
    code = world.code
    repeated = Verifier(world.warehouse, world.pipeline, code, world.engine, InProcess()).verify(seq)
    return [fact for fact in repeated.facts if not fact.is_equal]


class Endless(NamedTuple):
    """A lane that never ends."""

    tier: str
    columns = "tier string"

    def max_timestamp(self) -> int:
        return LONG_MAX


@dataclass(frozen=True)
class EndlessLanes(WindowAssigner):
    window_type = Endless

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Endless]:
        return [Endless(tier_of(element.x))]


ENDLESS = replace(DAILY, window=EndlessLanes(), trigger=CountTrigger.of(1))


@pytest.mark.slow
def test_firings_of_windows_that_never_end_replace_each_other(tmp_path: Path) -> None:
    world = lanes_of_a_day(ENDLESS, tmp_path)
    rows = {row["tier"]: row for row in world.published()}
    assert {tier: (row["n"], row["firing"], row["kind"]) for tier, row in rows.items()} == {
        "gold": (3, 3, "early"),
        "silver": (3, 3, "early"),
        "ж": (1, 1, "early"),
    }
    assert len(rows) == len(world.published())
    assert {(row["window_start"], row["window_end"], row["window_date"]) for row in rows.values()} == {
        (None, None, None)
    }
    assert identity_of(ENDLESS) == ("k", "tier")
    world.rewrite(0, 24, [Event(0.1, 0.2, 0, x=0), Event(0.2, 0.3, 1, x=2)])
    world.backfill(0, 24)
    assert world.left() == perfect(world, tmp_path / "perfect")


@pytest.mark.first_fast
@pytest.mark.parametrize("pipeline", [TURNS, SESSIONS, ENDLESS], ids=["turns", "sessions", "endless"])
def test_a_run_repeated_from_its_inputs_and_parents_snapshot_is_the_same(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    world = lanes_of_a_day(pipeline, tmp_path)
    assert [verify(world, seq) for seq in (1, 2)] == [[], []]


class Renamed(NamedTuple):
    """Lane under another name, with a method more."""

    start: int
    end: int
    tier: str
    columns = "tier string"

    def max_timestamp(self) -> int:
        return self.end - 1

    def length(self) -> int:
        return self.end - self.start


def lanes_giving(window_class: Any) -> WindowAssigner:
    """Lanes of a class, whatever its name."""

    class Given(Lanes):
        window_type = window_class

        def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
            return [window_class(*lane) for lane in super().assign_windows(element, timestamp, context)]

    return Given(LANES.windows.plain)


def test_a_class_may_have_another_name_from_one_run_to_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, replace(LANES, window=lanes_giving(Lane)))
    world.append([Event(23.5, 23.6, 3, x=1)])
    world.run(24)
    world.declare(window=lanes_giving(Renamed))
    world.append([Event(23.6, 24.1, 4, x=1), Event(30, 30.5, 6, x=0)])
    world.run(48)
    assert [(row["tier"], row["n"]) for row in world.published()] == [("silver", 2)]


class Remembering(ProcessWindowFunction):
    """Names the window of each firing, and of the one before of its key."""

    LAST = ValueStateDescriptor("last")

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        last = context.global_state().get_state(self.LAST)
        before = last.value()
        last.update(context.window)
        yield (context.window.tier, None if before is None else before.tier)


def test_functions_see_the_windows_and_may_keep_them_in_state(tmp_path: Path) -> None:
    own = {"select": {}, "process": Remembering(), "output": "own_tier string, tier_before string"}
    world = lanes_of_a_day(replace(LANES, **own), tmp_path)
    rows = world.published()
    assert all(row["own_tier"] == row["tier"] for row in rows)
    assert [row["tier_before"] for row in rows].count(None) == 1
    [state] = Inspection.of("daily", str(world.folder)).snapshot("keyed_state", 2).to_pylist()
    assert "$record" in state["value_json"]
    assert world.left() == perfect(world, tmp_path / "perfect")


def test_rows_of_own_windows_may_be_deduplicated(tmp_path: Path) -> None:
    world = World(tmp_path / "world", replace(LANES, distinct_by=("row",)))
    world.append([Event(23.0, 23.1, 0, x=1), Event(23.1, 23.2, 0, x=1)])
    world.run(24)
    world.append([Event(23.1, 24.2, 0, x=1), Event(30, 30.5, 6, x=0)])
    world.run(48)
    assert [(row["tier"], row["n"]) for row in world.published()] == [("silver", 1)]
    assert world.left() == perfect(world, tmp_path / "perfect")


def test_a_late_row_is_redriven_into_its_lane(tmp_path: Path) -> None:
    world = World(tmp_path / "world", TURNS)
    world.append([*every_hour(0, 48), Event(3.25, 30.2, 100, x=2)])
    world.run(48)
    [late] = world.live("late_events")
    assert [(window["start"], window["end"], window["tier"]) for window in late["windows"]] == [
        (None, moment(4), "ж")
    ]
    rolling = RollForward.from_stored(world.pipeline, world.tables)
    late_rows = Inspection.of("daily", str(world.folder)).late().rows
    redriven = Redrive(world.warehouse, world.pipeline, rolling, InProcess).run(late_rows, "a reason")
    # The window that ends at 4 h takes rows until 7 h, which the watermark reaches after 8:30.
    assert [override.arrival_time for override in redriven.overrides] == [moment(8.5)]
    world.backfill(0, 48)
    assert [row["n"] for row in world.published() if row["tier"] == "ж"] == [1]


class Strays(Lanes):
    """Forgets to say which class its windows are of."""

    window_type = TimeWindow


def test_windows_of_another_class_than_the_assigner_says_fail_the_run(tmp_path: Path) -> None:
    world = World(tmp_path, replace(LANES, window=Strays(LANES.windows.plain)))
    world.append([Event(23.5, 23.6, 3, x=1)])
    with pytest.raises(
        SnapshotValueError, match=r"got Lane\(.*; let the assigner's window_type be its class"
    ):
        world.run(24)
