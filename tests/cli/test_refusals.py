"""A plan refuses what a run would refuse, in the same words, and a refused command leaves nothing behind."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.errors import PermanentError
from slackwater.runs.staging.run import Runner
from tests.cli.own_source import SCHEMA, OwnPipeline, every_hour

# What each change of the declarations, or of the source, is told by.
CHANGES = {
    'select={"n": agg.count(), "total": agg.max("x")}': "select.total.kind: sum → max",
    "window=TumblingEventTimeWindows.of(HOUR)": "window.size_ms: 7200000 → 3600000",
    'source=DeltaSource("sources/own", event_time="e", arrival_time="a", '
    'order_by="x")': "source.order_by: none → x",
    "max_parallelism=64": "max_parallelism: 128 → 64",
}


@pytest.fixture
def own_pipeline(tmp_path: Path) -> OwnPipeline:
    own_pipeline = OwnPipeline(tmp_path)
    own_pipeline.append(every_hour(0, 96))
    assert own_pipeline("run", "own", "--to", "2013-01-03") == 0
    return own_pipeline


def refusal(own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str], *verb: str) -> str:
    """What a verb that is a usage error says."""
    capsys.readouterr()
    assert own_pipeline(*verb) == 2
    told = capsys.readouterr().err
    return told[told.index("slackwater: ") :]


@pytest.mark.first_fast
@pytest.mark.parametrize(("settings", "told"), CHANGES.items())
def test_a_plan_refuses_what_the_run_refuses_in_its_words(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str], settings: str, told: str
) -> None:
    own_pipeline.declare(settings)
    for options in (("--to", "2013-01-04"), ("--from", "2013-01-02", "--to", "2013-01-03")):
        planned = refusal(own_pipeline, capsys, "plan", "own", *options)
        verb = "backfill" if "--from" in options else "run"
        assert told in planned and planned == refusal(own_pipeline, capsys, verb, "own", *options)
    own_pipeline.declare()
    assert own_pipeline("plan", "own", "--to", "2013-01-04") == 0


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("settings", CHANGES)
def test_a_refused_backfill_leaves_no_branch_and_no_row(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str], settings: str
) -> None:
    before = own_pipeline.rows("runs")
    own_pipeline.declare(settings)
    refusal(own_pipeline, capsys, "backfill", "own", "--from", "2013-01-02", "--to", "2013-01-03")
    assert own_pipeline.rows("runs") == before
    own_pipeline.declare()
    assert own_pipeline("backfill", "own", "--from", "2013-01-02", "--to", "2013-01-03") == 0


def test_a_backfill_whose_first_slice_fails_for_good_leaves_no_branch(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise PermanentError("the data is at fault")

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "stage", fail)
        assert own_pipeline("backfill", "own", "--from", "2013-01-02", "--to", "2013-01-03") == 1
    assert own_pipeline.json(capsys, "branches", "list", "own") == []
    assert own_pipeline("backfill", "own", "--from", "2013-01-02", "--to", "2013-01-03") == 0


@pytest.mark.usefixtures("without_spark")
def test_a_plan_refuses_a_closed_lineage_as_a_run_does(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own_pipeline("state", "close", "own") == 0
    planned = refusal(own_pipeline, capsys, "plan", "own", "--to", "2013-01-04")
    assert "was closed by row 3" in planned and planned == refusal(
        own_pipeline, capsys, "run", "own", "--to", "2013-01-04"
    )


@pytest.mark.slow
def test_a_retyped_column_of_the_source_is_told_by_its_own_name(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    retyped = pa.schema([field if field.name != "x" else pa.field("x", pa.float64()) for field in SCHEMA])
    write_deltalake(
        own_pipeline.source,
        pa.Table.from_pylist(every_hour(0, 96), SCHEMA).cast(retyped),
        mode="overwrite",
        schema_mode="overwrite",
    )
    for verb in ("run", "plan"):
        told = refusal(own_pipeline, capsys, verb, "own", "--to", "2013-01-04")
        assert "x (it was int64, and is double)" in told and "total" not in told
        assert "derive={'as_before': 'CAST(\"x\" AS BIGINT)'}" in told
    own_pipeline.declare(
        """derive={'as_before': 'CAST("x" AS BIGINT)'},
        select={"n": agg.count(), "sum_of_x": agg.sum("as_before")}"""
    )
    assert own_pipeline("run", "own", "--to", "2013-01-04") == 0


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["the key", "the source"])
def test_a_change_that_a_lineage_can_not_take_begins_a_new_one_under_the_same_name(
    own_pipeline: OwnPipeline, changed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if changed == "the key":
        numbers = pa.array([hour % 3 for hour in range(96)], pa.int64())
        rows = pa.Table.from_pylist(every_hour(0, 96), SCHEMA)
        rows = rows.set_column(rows.schema.get_field_index("k"), "k", numbers)
        write_deltalake(own_pipeline.source, rows, mode="overwrite", schema_mode="overwrite")
    else:
        shutil.copytree(own_pipeline.source, own_pipeline.warehouse / "sources" / "other")
        own_pipeline.declare('source=DeltaSource("sources/other", event_time="e", arrival_time="a")')
    error = refusal(own_pipeline, capsys, "run", "own", "--to", "2013-01-04")
    assert ("A key keeps its type: write k into the source as it was" in error) == (changed == "the key")
    assert "move the folder own out of the warehouse, then run `slackwater run own --to TIME`" in error
    shutil.move(own_pipeline.warehouse / "own", own_pipeline.root / "own-before")
    assert own_pipeline("run", "own", "--to", "2013-01-04") == 0
    assert sum(row["n"] for row in own_pipeline.rows("published")) == 70
