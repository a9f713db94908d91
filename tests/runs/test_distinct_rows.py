"""A lineage whose rows are deduplicated is run, verified, restated, forked and restored as any other, and
what it publishes is what the source would give that holds each row once.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.rows.columns_read import SourceColumnError
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import PermanentError
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.lineage.moves import Moves
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import SettingsChanged
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing import KeyedProcessFunction, ProcessWindowFunction, ValueStateDescriptor
from tests.runs.world import DAILY, HOUR, Event, World, every_hour, moment, perfect

pytestmark = pytest.mark.first_fast

ONCE = replace(DAILY, distinct_by=("row",))
BY_ENGINE = pytest.mark.parametrize(
    "engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"]
)


def delivered_twice(first: float, last: float, after: float = 0.25) -> list[Event]:
    """A row each hour, and each once more `after` hours later."""
    rows = every_hour(first, last)
    repeats = [replace(row, arrival=row.event + 0.5 + after) for row in rows]
    return sorted([*rows, *repeats], key=lambda row: row.arrival or 0.0)


def counts(world: World) -> dict[float, int]:
    """What is published: start of a window in hours → rows."""
    return {(row["window_start"] - moment(0)) / HOUR: row["n"] for row in world.published()}


def verify(world: World, seq: int) -> list[Any]:
    """The facts in which a repeated run differs from what the ledger says."""
    repeated = Verifier(world.warehouse, world.pipeline, world.code, world.engine, InProcess()).verify(seq)
    return [fact for fact in repeated.facts if not fact.is_equal]


@pytest.mark.slow
@BY_ENGINE
def test_rows_that_come_twice_count_once_in_every_verb(tmp_path: Path, engine: Engine) -> None:
    world = World(tmp_path / "w", ONCE, engine=engine)
    # The last row of each day comes again after the cut between the slices.
    world.append(delivered_twice(0, 72, after=1))
    rows = world.run(72)
    assert [(row.rows_read, row.rows_duplicate, row.rows_accepted) for row in rows] == [
        (47, 23, 24),
        (48, 24, 24),
        (48, 24, 24),
    ]
    assert counts(world) == dict.fromkeys(range(0, 70, 2), 2)
    assert [verify(world, row.seq) for row in rows] == [[], [], []]
    # The watermark is 1 ms before 70 h; a row is remembered below its time + 1 h of bound + 3 h of lateness.
    assert [(row["state_name"], row["map_key"]) for row in snapshot_rows(world)] == [
        ("distinct_by", f"[{number}]") for number in range(66, 72)
    ]
    assert world.left() == perfect(world, tmp_path / "perfect")

    rolling = RollForward.of(world.pipeline, world.tables, world.runner().shape)
    declarations = Declarations(world.pipeline, world.code, world.tables)
    Moves("daily", world.tables, rolling, declarations).restore(rows[0].seq)
    [second] = world.run(48)
    assert (second.rows_duplicate, verify(world, second.seq)) == (24, [])
    assert world.left() == perfect(world, tmp_path / "restored")

    world.rewrite(26, 27, [Event(26, 26.5, 26, x=50), Event(26, 26.6, 26, x=50)])
    world.backfill(0, 48)
    assert world.left() == perfect(world, tmp_path / "restated")
    assert {row["total"] for row in world.published() if row["window_start"] == moment(26)} == {51}


def snapshot_rows(world: World) -> list[dict[str, Any]]:
    owner = world.ledger.snapshot_owner(world.main)
    assert owner is not None
    rows = [row for row in world.table("keyed_state").read().to_pylist() if row["run_id"] == owner.run_id]
    return sorted(rows, key=lambda row: row["map_key"] or "")


@BY_ENGINE
def test_a_fork_remembers_what_its_run_has_remembered(tmp_path: Path, engine: Engine) -> None:
    world = World(tmp_path / "w", ONCE, engine=engine)
    world.append(delivered_twice(0, 48, after=1))
    world.run(24)
    rolling = RollForward.of(world.pipeline, world.tables, world.runner().shape)
    declarations = Declarations(world.pipeline, world.code, world.tables)
    Moves("daily", world.tables, rolling, declarations).fork("trial", 1)
    [row] = world.run(48, branch="trial")
    assert (row.branch, row.rows_duplicate, row.rows_accepted) == ("trial", 24, 24)


@BY_ENGINE
def test_a_straggler_that_is_folded_in_is_judged_by_what_was_remembered(
    tmp_path: Path, engine: Engine
) -> None:
    """Both arrive on the first day and appear after its run. The row of 23 h is a duplicate then; that of 1 h
    was forgotten, counts, and is late.
    """
    world = World(tmp_path / "w", ONCE, engine=engine)
    world.append(every_hour(0, 48))
    world.run(24)
    world.append([Event(23, 23.6, 23), Event(1, 1.6, 1), Event(22.5, 23.7, 500)])
    [row] = world.run(48)
    assert (row.rows_folded, row.rows_duplicate, row.rows_late, row.rows_accepted) == (3, 1, 1, 25)
    assert counts(world)[22] == 3
    assert verify(world, row.seq) == []


@BY_ENGINE
def test_a_straggler_comes_before_the_rows_of_its_slice_and_is_first(tmp_path: Path, engine: Engine) -> None:
    world = World(tmp_path / "w", ONCE, engine=engine)
    world.append(every_hour(0, 48))
    world.run(24)
    world.append([Event(24, 23.9, 24, x=7)])
    [row] = world.run(48)
    assert (row.rows_folded, row.rows_duplicate) == (1, 1)
    assert {row["total"] for row in world.published() if row["window_start"] == moment(24)} == {8}


def test_engines_may_change_between_two_runs(tmp_path: Path) -> None:
    worlds = []
    for name, engines in (
        ("a", (OperatorEngine(), ColumnarEngine())),
        ("b", (ColumnarEngine(), OperatorEngine())),
    ):
        world = World(tmp_path / name, ONCE)
        world.append(delivered_twice(0, 48, after=1))
        for engine, to in zip(engines, (24, 48), strict=True):
            world.engine = engine
            world.run(to)
        worlds.append(world)
    assert worlds[0].left() == worlds[1].left()


@BY_ENGINE
def test_a_lineage_without_it_can_take_it_up_only_from_its_start(tmp_path: Path, engine: Engine) -> None:
    world = World(tmp_path / "w", DAILY, engine=engine)
    world.append(delivered_twice(0, 48))
    world.run(24)
    assert counts(world)[0] == 4
    world.declare(distinct_by="row")
    with pytest.raises(SettingsChanged, match=r"distinct_by: none → \[row\]"):
        world.run(48)
    world.backfill(0, 24)
    world.run(48)
    assert counts(world) == dict.fromkeys(range(0, 46, 2), 2)


@BY_ENGINE
def test_without_a_key_all_rows_are_told_apart_together(tmp_path: Path, engine: Engine) -> None:
    keys = {"a": replace(ONCE, name="daily"), "none": replace(ONCE, name="daily", key_by=None)}
    duplicates = {}
    for name, pipeline in keys.items():
        world = World(tmp_path / name, pipeline, engine=engine)
        world.append(
            [
                row
                for hour in range(24)
                for row in (Event(hour, hour + 0.5, hour), Event(hour, hour + 0.6, hour, "b"))
            ]
        )
        [row] = world.run(24)
        duplicates[name] = row.rows_duplicate
    assert duplicates == {"a": 0, "none": 24}


def test_rows_are_told_apart_by_a_derived_column(tmp_path: Path) -> None:
    states = []
    for engine in (OperatorEngine(), ColumnarEngine()):
        pipeline = replace(DAILY, derive={"pair": "row // 2"}, distinct_by="pair", allowed_lateness=0 * HOUR)
        world = World(tmp_path / type(engine).__name__, pipeline, engine=engine)
        world.append([*every_hour(0, 24), Event(17, 20, 100), Event(17, 20.01, 101)])
        [row] = world.run(24)
        # Bound one hour, lateness none: at 20 h the watermark is 1 ms below 18 h: [16, 18) is late and the
        # row of 17:00 is remembered below 18:00.
        assert (row.rows_duplicate, row.rows_accepted, row.rows_late) == (13, 12, 1)
        assert [late["row"] for late in world.live("late_events")] == [100]
        states.append(world.left())
    assert states[0] == states[1]


class Counting(KeyedProcessFunction):
    """Counts the rows of a key and emits the count; a negative value raises."""

    states = (ValueStateDescriptor("rows", sql_type="long"),)

    def open(self, runtime_context):
        self.rows = runtime_context.get_state(self.states[0])

    def process_element(self, value, context):
        if value.x < 0:
            raise ValueError("negative")
        self.rows.update((self.rows.value() or 0) + 1)
        yield (self.rows.value(),)


def of_process(function: KeyedProcessFunction, **settings: Any):
    return replace(
        ONCE,
        window=None,
        select={},
        allowed_lateness=0 * HOUR,
        process=function,
        output="rows_of_key long",
        **settings,
    )


def test_a_process_function_sees_each_row_once_and_keeps_its_state_beside_what_is_remembered(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "w", of_process(Counting()))
    world.append(delivered_twice(0, 48))
    rows = world.run(48)
    assert sorted(row["rows_of_key"] for row in world.live("panes")) == list(range(1, 49))
    # The watermark is 1 ms before 46 h, and the bound one hour.
    kept = {(row["state_name"], row["map_key"], row["rows__value"]) for row in snapshot_rows(world)}
    assert kept == {("rows", None, 48), *(("distinct_by", f"[{number}]", None) for number in (45, 46, 47))}
    assert [verify(world, row.seq) for row in rows] == [[], []]
    assert world.left() == perfect(world, tmp_path / "perfect")


def test_the_duplicate_of_a_row_on_which_a_function_raises_is_a_duplicate(tmp_path: Path) -> None:
    """Deduplication stands before the function, so what becomes of the first row does not matter."""
    world = World(tmp_path / "w", of_process(Counting(), on_error="quarantine"))
    world.append([Event(1, 1.1, 1, x=-1), Event(1, 1.2, 1, x=5), Event(2, 2.1, 2), Event(2, 2.2, 2)])
    [row] = world.run(24)
    assert (row.rows_quarantined, row.rows_duplicate, row.rows_accepted) == (1, 2, 1)
    assert [item["reason_code"] for item in world.live("quarantine")] == ["user_code"]


class NamedLikeOurs(Counting):
    states = (ValueStateDescriptor("distinct_by", sql_type="long"),)


class OwnStateOfKeys(ProcessWindowFunction):
    """Keeps a state of the key under the name that is ours, without declaring it."""

    def process(self, key, context, elements):
        context.global_state().get_state(ValueStateDescriptor("distinct_by")).update(1)
        yield (len(list(elements)),)


def test_a_state_of_the_user_is_not_called_as_ours(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="state 'distinct_by' is called as the rows that distinct_by"):
        of_process(NamedLikeOurs())
    replace(of_process(Counting()), process=NamedLikeOurs(), distinct_by=None)
    own = replace(ONCE, select={}, process=OwnStateOfKeys(), output="rows_of_window long")
    world = World(tmp_path / "w", own)
    world.append(every_hour(0, 48))
    with pytest.raises(PermanentError, match="state 'distinct_by' is called as the rows that distinct_by"):
        world.run(24)


@pytest.mark.slow
def test_rows_that_are_remembered_count_as_parked_in_the_memory_of_a_plan(tmp_path: Path) -> None:
    """A row that is remembered takes as much as an open window, 400 bytes by the estimate."""
    estimates = {}
    for name, pipeline in (("once", ONCE), ("all", DAILY)):
        world = World(tmp_path / name, replace(pipeline, allowed_lateness=400 * HOUR))
        world.append([Event(1, 1.5, number) for number in range(30_000)])
        world.run(24)
        world.append(every_hour(24, 48))
        estimates[name] = RangePlanner(world.warehouse, world.pipeline).plan().memory_mb
    assert estimates["once"] - estimates["all"] == pytest.approx(30_000 * 400 / 2**20, abs=3)


def test_a_column_that_the_source_lacks_is_refused_before_a_run(tmp_path: Path) -> None:
    world = World(tmp_path / "w", replace(DAILY, distinct_by=("row", "event_id")))
    world.append(every_hour(0, 24))
    with pytest.raises(SourceColumnError, match="event_id"):
        world.run(24)


def test_ledger_rows_from_before_the_count_read_as_none_of_it(tmp_path: Path) -> None:
    world = World(tmp_path / "w")
    world.append(every_hour(0, 24))
    world.run(24)
    [values] = world.table("runs").read().drop_columns(["rows_duplicate"]).to_pylist()
    assert LedgerRow.from_values(values).rows_duplicate is None
    assert pa.types.is_int64(world.table("runs").schema.field("rows_duplicate").type)
