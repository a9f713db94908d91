"""A pipeline gains and loses results in the middle of a lineage, on real tables: what stands where was
counted by hand. Windows are of two hours, slices of four.

    row    x    event    arrives    window      slice
    0      5    00:30    01:00      [0, 2)      1
    1      7    03:00    03:30      [2, 4)      1
    2      9    03:12    04:30      [2, 4)      2
    3      2    04:30    04:54      [4, 6)      2
    4      1    03:18    07:54      [2, 4)      2
    5      3    09:00    10:00      [8, 10)     3
    6      8    13:00    13:30      [12, 14)    4, and is not over at its end
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import UsageError
from slackwater.pipelines import agg, expect
from slackwater.pipelines.registry import config_hash
from slackwater.runs.lineage.maintain import Maintenance
from slackwater.runs.lineage.moves import Moves, close
from slackwater.runs.lineage.table_checks import TableChecks
from slackwater.runs.lineage.verify import CannotRepeat, Verifier
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.publishing.rebuild import Rebuild
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.declarations import Declarations
from slackwater.tables.errors import ShapeChanged
from slackwater.windowing import ProcessWindowFunction
from tests.runs.world import DAILY, HOUR, SCHEMA, Event, World, moment, perfect

pytestmark = pytest.mark.first_fast

EVENTS = [
    Event(0.5, 1, 0, x=5),
    Event(3, 3.5, 1, x=7),
    Event(3.2, 4.5, 2, x=9),
    Event(4.5, 4.9, 3, x=2),
    Event(3.3, 7.9, 4, x=1),
    Event(9, 10, 5, x=3),
    Event(13, 13.5, 6, x=8),
]
COUNT, SUM, MOST = {"n": agg.count()}, {"total": agg.sum("x")}, {"most": agg.max("x")}


@pytest.fixture(params=[OperatorEngine, ColumnarEngine])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    world = World(
        tmp_path / "world", replace(DAILY, slice=4 * HOUR, allowed_lateness=9 * HOUR), engine=request.param()
    )
    world.append(EVENTS)
    return world


def declare(world: World, **settings: Any) -> None:
    world.pipeline = replace(world.pipeline, **settings)
    world.code = config_hash(world.pipeline)


def published(world: World) -> dict[float, tuple]:
    """Start of each window, in hours → its results: n, total, most, as far as there are columns."""
    rows = world.published()
    names = [name for name in ("n", "total", "most") if rows and name in rows[0]]
    return {
        (row["window_start"] - moment(0)).total_seconds() / 3600: tuple(row[name] for name in names)
        for row in rows
    }


def corrections(world: World, seq: int) -> list[tuple]:
    rows = [row for row in world.table("corrections").read().to_pylist() if row["seq"] == seq]
    return [(row["op"], row["old"], row["new"]) for row in rows]


def verified(world: World, seq: int) -> tuple[bool, tuple[str, ...]]:
    code = world.code
    result = Verifier(world.warehouse, world.pipeline, code, OperatorEngine(), InProcess()).verify(seq)
    return result.is_equal, result.notes


def damaged(world: World) -> list[Any]:
    rolling = RollForward.from_stored(world.pipeline, world.tables)
    return [fact for fact in TableChecks("daily", world.tables, rolling).facts() if not fact.is_equal]


def test_a_new_result_is_null_in_windows_that_were_open_and_whole_in_those_opened_since(
    world: World,
) -> None:
    declare(world)
    world.run(4)
    declare(world, select=COUNT | SUM | MOST)
    world.run(16)
    assert published(world) == {0: (1, 5, None), 2: (3, 17, None), 4: (1, 2, 2), 8: (1, 3, 3)}
    assert damaged(world) == []


def test_a_removed_result_stays_a_column_that_is_null_in_new_rows(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, select=COUNT)
    world.run(16)
    assert published(world) == {0: (1, 5), 2: (3, None), 4: (1, None), 8: (1, None)}
    assert damaged(world) == []


def test_a_window_that_fires_again_loses_the_value_of_a_removed_result(world: World) -> None:
    declare(world)
    world.append([Event(0.6, 5, 7, x=4)])
    world.run(4)
    seq = world.main.seq
    assert corrections(world, seq) == [("insert", None, {"n": 1, "total": 5})]
    declare(world, select=COUNT | MOST)
    world.run(8)
    assert corrections(world, world.main.seq)[0] == (
        "update",
        {"n": 1, "total": 5, "most": None},
        {"n": 2, "total": None, "most": None},
    )


def test_a_result_that_comes_back_counts_from_there_on(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, select=COUNT)
    world.run(8)
    declare(world, select=SUM | COUNT)
    world.run(16)
    assert published(world) == {0: (1, 5), 2: (3, None), 4: (1, None), 8: (1, 3)}


@pytest.mark.slow
def test_a_backfill_from_the_start_leaves_what_a_lineage_does_that_was_always_declared_so(
    world: World, tmp_path: Path
) -> None:
    declare(world)
    world.run(12)
    declare(world, select=COUNT | MOST)
    world.backfill(0, 12)
    assert published(world) == {0: (1, None, 5), 2: (3, None, 9), 4: (1, None, 2)}
    rows = [{name: value for name, value in row.items() if name != "total"} for row in world.published()]
    assert sorted(repr(sorted(row.items())) for row in rows) == perfect(world, tmp_path / "p")["published"]
    world.run(16)
    assert published(world)[8] == (1, None, 3)
    assert damaged(world) == []


def test_the_snapshot_before_the_oldest_open_window_is_where_the_plan_says_to_restate_from(
    world: World,
) -> None:
    declare(world, allowed_lateness=0 * HOUR)
    world.run(12)
    declare(world, select=COUNT | MOST)
    plan = RangePlanner(world.warehouse, world.pipeline).plan()
    assert plan.changes == (
        "select.most: none → max(x): from here on; null in the 1 window that is open now, and in all rows of "
        "before",
        "select.total: sum(x) → none: its column stays, and is null in new rows",
        "by today's settings restates what is open, from the snapshot before its first element: `slackwater "
        "backfill daily --from 2013-01-01T08:00:00Z --to 2013-01-01T12:00:00Z`; all of it by `slackwater "
        "backfill daily --from 2013-01-01T00:00:00Z --to 2013-01-01T12:00:00Z`",
    )
    world.backfill(8, 12)
    world.run(16)
    assert published(world) == {0: (1, 5, None), 2: (3, None, None), 4: (1, None, None), 8: (1, None, 3)}


def test_the_run_notes_which_results_are_null_from_here_on(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, select=COUNT | SUM | MOST)
    world.run(8)
    rows = world.table("validations").read().to_pylist()
    notes = {row["expectation"]: row["observed"] for row in rows if row["severity"] == "note"}
    assert notes["setting changed: select.most"] == "none → max(x)"
    assert notes["null from here on: most"] == "in the 2 windows that run 1 left open"


def test_every_run_is_verified_by_the_results_that_it_was_declared_with(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, select=COUNT | SUM | MOST, where="x > 1")
    world.run(8)
    declare(world, select=MOST | COUNT, expect=[expect.between("most", min=0)])
    world.run(12)
    equal, notes = verified(world, 1)
    assert equal and "replayed as it was declared then; since: where: none → x > 1" in notes
    assert verified(world, 2)[0] and verified(world, 3) == (True, ())


def test_a_restore_goes_back_behind_a_change_and_the_next_run_takes_it_up_again(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, select=COUNT | MOST)
    world.run(12)
    runner = world.runner()
    rolling = RollForward.of(world.pipeline, runner.tables, runner.shape)
    declarations = Declarations(world.pipeline, world.code, runner.tables)
    Moves("daily", runner.tables, rolling, declarations).restore(1)
    assert published(world) == {0: (1, 5, None)}
    world.run(16)
    assert published(world) == {0: (1, 5, None), 2: (3, None, None), 4: (1, None, 2), 8: (1, None, 3)}


def test_a_close_fires_windows_without_a_result_that_was_added_last(world: World) -> None:
    declare(world)
    world.run(8)
    declare(world, select=COUNT | MOST)
    close(Evaluator(world.runner(), world.said.append))
    assert published(world) == {0: (1, 5, None), 2: (3, None, None), 4: (1, None, None)}
    assert verified(world, world.main.seq)[0] and damaged(world) == []


def test_a_condition_counts_from_here_on(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, where="x > 2")
    world.run(16)
    assert published(world) == {0: (1, 5), 2: (2, 16), 8: (1, 3)}
    world.backfill(0, 16)
    assert published(world) == {0: (1, 5), 2: (2, 16), 8: (1, 3)}


def test_a_column_is_derived_for_a_new_result(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, derive={"twice": "x * 2"}, select=COUNT | SUM | {"most": agg.max("twice")})
    world.run(16)
    assert published(world) == {0: (1, 5, None), 2: (3, 17, None), 4: (1, 2, 4), 8: (1, 3, 6)}
    assert verified(world, 1)[0] and verified(world, 2) == (True, ())
    declare(world, derive={"twice": "x * 3"})
    with pytest.raises(UsageError, match=r"derive.twice: x \* 2 → x \* 3"):
        world.run(20)


def test_a_result_reads_a_column_that_the_source_has_gained(world: World) -> None:
    declare(world)
    world.run(4)
    rows = [{**event.values(), "y": event.x * 10} for event in (Event(3.5, 5, 8), Event(4.6, 5.5, 9, x=3))]
    schema = SCHEMA.append(pa.field("y", pa.int64()))
    write_deltalake(
        world.source, pa.Table.from_pylist(rows, schema=schema), mode="append", schema_mode="merge"
    )
    declare(world, select=COUNT | SUM | {"most": agg.max("y")})
    world.run(8)
    world.backfill(0, 8)
    world.run(16)
    assert published(world) == {0: (1, 5, None), 2: (4, 18, 10), 4: (2, 5, 30), 8: (1, 3, None)}
    assert verified(world, 1)[0]


@pytest.mark.parametrize(
    "select",
    [{"n": agg.count(), "total": agg.mean("x")}, {"n": agg.count(), "total": agg.max("x")}],
    ids=["of another type", "of another definition"],
)
def test_a_result_of_another_definition_needs_another_name(world: World, select: dict[str, Any]) -> None:
    declare(world)
    world.run(4)
    before = published(world)
    declare(world, select=select)
    with pytest.raises(UsageError, match="total"):
        world.run(8)
    assert published(world) == before


def test_a_result_that_had_another_type_before_is_refused_also_from_the_start(world: World) -> None:
    declare(world)
    world.run(4)
    declare(world, select={"n": agg.mean("x")})
    with pytest.raises(ShapeChanged, match=r"n \(stored int64, declared double\)"):
        world.backfill(0, 4)


class Totals(ProcessWindowFunction):
    """Emits what the class says; it holds all elements of a window."""

    emits = ("n", "total")

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[dict[str, int]]:
        values = [element.x for element in elements]
        results = {"n": len(values), "total": sum(values), "most": max(values)}
        yield {name: results[name] for name in Totals.emits}


@pytest.fixture
def emitting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *names: monkeypatch.setattr(Totals, "emits", names)


@pytest.mark.slow
def test_a_function_emits_another_column_of_all_elements_that_it_finds(
    tmp_path: Path, emitting: Callable[..., None]
) -> None:
    world = World(tmp_path, replace(DAILY, slice=4 * HOUR, allowed_lateness=9 * HOUR))
    world.append(EVENTS)
    declare(world, select={}, process=Totals(), output="n long, total long")
    world.run(4)
    emitting("n", "most")
    declare(world, output="most long, n long")
    change = RangePlanner(world.warehouse, world.pipeline).plan().changes[0]
    assert change.startswith(
        "output: n long, total long → most long, n long: from here on; a new column is null"
    )
    world.run(16)
    assert published(world) == {0: (1, 5, None), 2: (3, None, 9), 4: (1, None, 2), 8: (1, None, 3)}
    world.backfill(0, 16)
    assert published(world) == {0: (1, None, 5), 2: (3, None, 9), 4: (1, None, 2), 8: (1, None, 3)}
    assert damaged(world) == [] and verified(world, 2)[0]
    with pytest.raises(CannotRepeat, match="declared otherwise than today"):
        verified(world, 1)


@pytest.mark.slow
def test_upkeep_and_a_rebuild_keep_the_columns_of_results_that_were_removed(world: World) -> None:
    declare(world)
    world.append([Event(0.6, 5, 7, x=4)])
    for to in (4, 8):
        world.run(to)
    declare(world, select=COUNT | MOST)
    world.run(16)
    before = published(world)
    assert before[0] == (2, 9, None)
    rolling = RollForward.from_stored(world.pipeline, world.tables)
    Maintenance(world.pipeline, world.tables, rolling, lease=False).run()
    Rebuild("daily", world.tables, rolling).run()
    assert published(world) == before and damaged(world) == []
    world.run(20)
    assert damaged(world) == []


ENGINES: list[tuple[Callable[[], Engine], Callable[[], Engine]]] = [
    (OperatorEngine, ColumnarEngine),
    (ColumnarEngine, OperatorEngine),
]


@pytest.mark.parametrize("engines", ENGINES)
def test_what_is_unknown_stays_so_in_the_other_engine(
    tmp_path: Path, engines: tuple[Callable[[], Engine], Callable[[], Engine]]
) -> None:
    world = World(tmp_path, replace(DAILY, slice=4 * HOUR, allowed_lateness=9 * HOUR))
    world.append(EVENTS)
    declare(world)
    for to, engine in ((4, 0), (8, 1), (12, 0), (16, 1)):
        world.engine = engines[engine]()
        if to == 8:
            declare(world, select=COUNT | SUM | MOST)
        world.run(to)
    assert published(world) == {0: (1, 5, None), 2: (3, 17, None), 4: (1, 2, 2), 8: (1, 3, 3)}
