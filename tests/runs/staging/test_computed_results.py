"""What is published of panes: results that are computed of others, hidden ones, and a condition on windows,
on real tables; what stands where was counted by hand. Windows are of two hours, slices of four.

    row    x    event    arrives    window      fires in slice
    0      5    00:30    01:00      [0, 2)      1
    1      7    03:00    03:30      [2, 4)      3
    2      9    03:12    04:30      [2, 4)      3
    3      2    04:30    04:54      [4, 6)      3
    4      4    00:36    05:00      [0, 2)      2, late
    5      1    03:18    07:54      [2, 4)      3
    6      3    09:00    10:00      [8, 10)     4
    7      8    13:00    13:30      [12, 14)    not yet
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.transport.in_process import InProcess
from slackwater.inspection.changes.published_change import reason_of
from slackwater.inspection.changes.window_history import HistoryQuestion, history_of
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.windows.window_life import WindowQuestion, explain_window
from slackwater.inspection.windows.window_search import WindowName
from slackwater.pipelines import agg, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import config_hash
from slackwater.runs.lineage.table_checks import TableChecks
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runs.publishing.rebuild import Rebuild
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.staged_slice import SliceRejected
from slackwater.runs.staging.suite_checks import RowsToPublish
from slackwater.tables.ledger.lineage_rows import cause_of
from tests.runs.world import DAILY, HOUR, Event, World, moment, ms, perfect

pytestmark = pytest.mark.first_fast

EVENTS = [
    Event(0.5, 1, 0, x=5),
    Event(3, 3.5, 1, x=7),
    Event(3.2, 4.5, 2, x=9),
    Event(4.5, 4.9, 3, x=2),
    Event(0.6, 5, 4, x=4),
    Event(3.3, 7.9, 5, x=1),
    Event(9, 10, 6, x=3),
    Event(13, 13.5, 7, x=8),
]
SELECT = {"n": agg.count(), "total": agg.sum("x"), "most": agg.max("x")}


@pytest.fixture(params=[OperatorEngine, ColumnarEngine])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    pipeline = replace(DAILY, slice=4 * HOUR, allowed_lateness=9 * HOUR, select=SELECT)
    world = World(tmp_path / "world", pipeline, engine=request.param())
    world.append(EVENTS)
    return world


def declare(world: World, **settings: Any) -> None:
    world.pipeline = replace(world.pipeline, **settings)
    world.code = config_hash(world.pipeline)


def published(world: World, names: Sequence[str]) -> dict[float, tuple]:
    """Start of each window, in hours → its columns `names`."""
    return {
        (row["window_start"] - moment(0)) / HOUR: tuple(row[name] for name in names)
        for row in world.published()
    }


def corrections(world: World, seq: int) -> list[tuple]:
    rows = [row for row in world.table("corrections").read().to_pylist() if row["seq"] == seq]
    rows.sort(key=lambda row: row["window_start"])
    return [
        ((row["window_start"] - moment(0)) / HOUR, row["op"], row["cause"], row["old"], row["new"])
        for row in rows
    ]


def rolling(world: World) -> RollForward:
    return RollForward.from_stored(world.pipeline, world.runner().tables)


def compute_results(world: World) -> Any:
    return Rebuild("daily", world.runner().tables, rolling(world)).compute_results()


def damaged(world: World) -> list[Any]:
    return [fact for fact in TableChecks("daily", world.tables, rolling(world)).facts() if not fact.is_equal]


def test_computed_results_stand_in_published_and_hidden_ones_in_panes(world: World) -> None:
    results = {"twice": "mean * 2", "mean": "total / n", "hour": "hour(window_start)", "mine": "k || '!'"}
    declare(world, results=results, hidden=["total"])
    world.run(16)
    [row] = [row for row in world.published() if row["window_start"] == moment(2)]
    assert (row["n"], row["most"], row["hour"], row["mine"]) == (3, 9, 2, f"{row['k']}!")
    assert (row["mean"], row["twice"]) == (17 / 3, 34 / 3) and "total" not in row
    panes = world.live("panes")
    assert {row["total"] for row in panes} >= {5, 9, 17, 2, 3} and "mean" not in panes[0]
    assert "total" not in world.table("corrections").schema.field("new").type.names
    assert damaged(world) == []


def test_a_window_appears_and_goes_by_the_condition(world: World) -> None:
    declare(world, having="n < 2")
    world.run(4)
    assert published(world, ["n"]) == {0: (1,)}
    world.run(8)
    assert published(world, ["n"]) == {}
    assert [item[:3] for item in corrections(world, world.main.seq)] == [(0, "withdraw", "late")]
    declare(world, having="n >= 2")
    world.run(16)
    assert published(world, ["n"]) == {2: (3,)}  # no later run has a pane of the first window
    row = compute_results(world)
    assert published(world, ["n"]) == {0: (2,), 2: (3,)} and cause_of(row) == "results"
    assert compute_results(world) is None and damaged(world) == []


def test_a_late_row_lifts_a_window_over_the_condition(world: World) -> None:
    declare(world, having="n >= 2", hidden=["total", "most"])
    world.run(4)
    assert published(world, ["n"]) == {}
    world.run(8)
    assert corrections(world, world.main.seq) == [(0, "insert", "late", None, {"n": 2})]
    assert published(world, ["n"]) == {0: (2,)}


def test_other_results_are_corrections_of_their_own_cause(world: World) -> None:
    declare(world, results={"mean": "total / n"})
    world.run(8)
    declare(world, results={"mean": "total / n", "spare": "most - n"}, hidden=["total"])
    plan = RangePlanner(world.warehouse, world.pipeline).plan()
    assert plan.changes[0].startswith("hidden") and "publish daily --results" in plan.changes[0]
    world.run(16)
    names = ["n", "total", "mean", "spare"]
    later = {2: (3, None, 17 / 3, 6), 4: (1, None, 2.0, 1), 8: (1, None, 3.0, 2)}
    assert published(world, names) == {0: (2, 9, 4.5, None), **later}
    row = compute_results(world)
    assert [item[:3] for item in corrections(world, row.seq)] == [(0, "update", "results")]
    assert published(world, names) == {0: (2, None, 4.5, 3), **later}
    result = Verifier(world.warehouse, world.pipeline, world.code, OperatorEngine(), InProcess()).verify(2)
    assert result.is_equal and damaged(world) == []


def test_a_restatement_publishes_what_a_lineage_does_that_was_always_declared_so(
    world: World, tmp_path: Path
) -> None:
    declare(world, results={"share": "total / most"}, hidden=["most"], having="share > 1")
    world.run(12)
    before = {0: (9, 9 / 5), 2: (17, 17 / 9)}
    assert published(world, ["total", "share"]) == before
    world.append([Event(9.5, 11, 8, x=6), Event(4.6, 11.5, 9, x=1)])
    world.backfill(8, 12)
    assert published(world, ["total", "share"]) == {**before, 4: (3, 3 / 2)}
    world.run(16)
    assert published(world, ["total", "share"]) == {**before, 4: (3, 3 / 2), 8: (9, 9 / 6)}
    rows = sorted(repr(sorted(row.items())) for row in world.published())
    assert rows == perfect(world, tmp_path / "p")["published"]
    assert damaged(world) == []


def test_expectations_look_at_computed_results_of_windows_that_are_published(world: World) -> None:
    declare(world, results={"mean": "total / n"}, expect=[expect.between("mean", max=4)])
    with pytest.raises(SliceRejected, match="mean"):
        world.run(4)
    declare(world, having="mean <= 4")
    world.run(16)
    assert published(world, ["mean"]) == {4: (2.0,), 8: (3.0,)}


def rows_of_suites(world: World) -> RowsToPublish:
    """The rows of a run that suites get, where an earlier result is gone."""
    declare(world, results={"gone": "n + 1"})
    world.run(4)
    declare(world, results={"mean": "total / n"}, hidden=["total"], having="n >= 2")
    world.run(12)
    runner, row = world.runner(), world.main
    return RowsToPublish(world.pipeline, runner.shape, runner.tables["panes"], row.run_id, row.files["panes"])


SUITE_ROWS = [(2, 3, None, 9, 17 / 3, None)]
SUITE_COLUMNS = ["window_start", "n", "total", "most", "mean", "gone"]


def test_suites_get_the_rows_that_would_be_published(world: World) -> None:
    rows = rows_of_suites(world).table.select(SUITE_COLUMNS).to_pylist()
    assert [((row.pop("window_start") - moment(0)) / HOUR, *row.values()) for row in rows] == SUITE_ROWS


@pytest.mark.slow
def test_suites_on_spark_get_the_same_rows(tmp_path: Path) -> None:
    world = World(tmp_path, replace(DAILY, slice=4 * HOUR, allowed_lateness=9 * HOUR, select=SELECT))
    world.append(EVENTS)
    rows = [row.asDict() for row in rows_of_suites(world).spark().select(*SUITE_COLUMNS).collect()]
    starts = [(row.pop("window_start").replace(tzinfo=UTC) - moment(0)) / HOUR for row in rows]
    assert [(start, *row.values()) for start, row in zip(starts, rows, strict=True)] == SUITE_ROWS


def test_results_of_what_no_run_has_selected_yet_wait_for_it(world: World) -> None:
    declare(world, results={"mean": "total / n"})
    world.run(8)
    before = published(world, ["n", "mean"])
    more = {**SELECT, "least": agg.min("x")}
    declare(world, select=more, results={"mean": "total / n", "low": "least - 1"}, having="low > 0 AND n > 1")
    stored = RollForward.from_stored(world.pipeline, world.tables)
    assert Rebuild("daily", world.tables, stored).run().row is None
    assert published(world, ["n", "mean"]) == before
    world.run(16)
    assert published(world, ["n", "low"]) == {0: (2, None)}


def test_an_expression_that_fails_is_null(world: World) -> None:
    declare(world, results={"broken": "CAST(k AS BIGINT)"})
    world.run(4)
    assert published(world, ["n", "broken"]) == {0: (1, None)}


def test_history_and_explanation_know_what_panes_lack(world: World) -> None:
    declare(world, results={"mean": "total / n"}, hidden=["total"])
    world.run(16)
    declare(world, having="n >= 2")
    compute_results(world)
    name = WindowName(moment(0), {})
    firings = explain_window(world.pipeline, str(world.folder), WindowQuestion(key="a", name=name)).firings
    assert [(firing.values["total"], firing.values["mean"]) for firing in firings] == [(5, 5.0), (9, 4.5)]
    question = HistoryQuestion(key="a", window_ms=ms(4))
    changes = history_of(Inspection("daily", world.tables), question).changes
    assert [(change.op, change.new) for change in changes] == [
        ("withdraw", None),
        ("insert", {"n": 1, "most": 2, "mean": 2.0}),
    ]
    assert reason_of(changes[0]).endswith("are declared otherwise")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"results": {"n": "1"}}, "must differ"),
        ({"results": {"a": "b", "b": "a"}}, "read each other"),
        ({"results": {"mean": "total / nn"}}, "nn"),
        ({"hidden": ["nn"]}, "no result"),
        ({"hidden": ["n", "total", "most"]}, "nothing to be published"),
        ({"having": "n +"}, "having is 'n \\+'"),
        ({"having": "n"}, "it is a condition"),
        ({"results": ["n"]}, "a mapping"),
    ],
)
def test_what_cannot_be_published_is_refused(world: World, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        declare(world, **settings)
        world.runner()
