"""A source may have columns of any name, also the names of our own columns; key and result columns may have
any name but ours.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.own_source import SCHEMA, OwnPipeline, every_hour, moment

pytestmark = pytest.mark.usefixtures("without_spark")

OURS = [
    "seq",
    "run_id",
    "kind",
    "live",
    "key_group",
    "windows",
    "watermark",
    "late_by_ms",
    "event_time",
    "arrival_time",
    "op",
    "SEQ_",
]
# Columns that our own SQL might take for its own.
NASTY = [
    "low",
    "high",
    "number",
    "order",
    "Group",
    "log",
    "moved",
    "published",
    "standing",
    "touched",
    "newest",
    "before",
    "w",
    "p",
]


@pytest.fixture
def own_pipeline(tmp_path: Path) -> OwnPipeline:
    """A day of a row an hour, and a row that comes a day late; each row holds its number in columns that are
    named as ours.
    """
    own_pipeline = OwnPipeline(tmp_path, pa.schema([*SCHEMA, *((name, pa.int64()) for name in OURS)]))
    late = {"e": moment(3.5), "a": moment(30.5), "k": "a", "x": 100}
    own_pipeline.append([{**row, **dict.fromkeys(OURS, row["x"])} for row in [*every_hour(0, 48), late]])
    own_pipeline.declare(
        'source=DeltaSource("sources/own", event_time="e", arrival_time="a", order_by="seq")'
    )
    assert own_pipeline("run", "own", "--to", "2013-01-03") == 0
    return own_pipeline


@pytest.mark.slow
def test_late_rows_are_listed_with_the_seq_of_their_run_and_that_of_the_source(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    [row] = own_pipeline.json(capsys, "late", "list", "own")
    assert (row["seq"], row["source_seq"], row["kind"], row["live"], row["SEQ_"]) == (2, 100, 100, 100, 100)
    assert own_pipeline("late", "list", "own", "--run", "2", "--key", "a") == 0
    assert "2013-01-01 03:30" in capsys.readouterr().out


@pytest.mark.slow
def test_late_rows_are_reported_and_redriven(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    [*_, most] = own_pipeline.json(capsys, "late", "report", "own")
    assert most["rows_saved"] == 1
    assert own_pipeline("late", "redrive", "own", "--reason", "why not") == 0
    command = capsys.readouterr().err.split("`slackwater ")[1].split("`")[0].split()
    assert own_pipeline(*command) == 0
    assert own_pipeline.json(capsys, "late", "list", "own") == []
    assert {row["window_start"]: row["n"] for row in own_pipeline.rows("published")}[moment(2)] == 3


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("nasty", [NASTY[: len(NASTY) // 2], NASTY[len(NASTY) // 2 :]])
def test_keys_and_results_are_called_as_the_words_of_sql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nasty: list[str]
) -> None:
    """Runs, late firings, a restatement that takes rows in, a plan, a repetition: each joins user columns
    with ours.
    """
    keys, results = nasty[::2], nasty[1::2]
    own_pipeline = OwnPipeline(tmp_path, pa.schema([*SCHEMA, *((name, pa.string()) for name in keys)]))
    own_pipeline.declare(
        f"key_by={keys}, select={{{', '.join(f'{name!r}: agg.count()' for name in results)}}}, "
        f"expect=[expect.between({results[0]!r}, min=1)]"
    )
    rows: list[dict[str, Any]] = [
        *every_hour(0, 48),
        {"e": moment(23.5), "a": moment(25), "k": "a", "x": 0},
        {"e": moment(3.5), "a": moment(30.5), "k": "a", "x": 100},
    ]
    own_pipeline.append([{**row, **dict.fromkeys(keys, "of the row")} for row in rows])
    assert own_pipeline("run", "own", "--to", "2013-01-03") == 0
    assert own_pipeline("late", "redrive", "own", "--reason", "why not") == 0
    [found] = own_pipeline.json(capsys, "plan", "own", "--from", "2013-01-01", "--to", "2013-01-02")
    assert found["windows_published_touched"] == 12
    assert own_pipeline("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    assert own_pipeline("verify", "own", "1") == 0
    assert own_pipeline("state", "diff", "own", "1", "2") == 0
    counted = {row["window_start"]: row[results[0]] for row in own_pipeline.rows("published")}
    assert counted == {moment(hour): 2 + (hour in (2, 22)) for hour in range(0, 46, 2)}


def test_a_key_that_holds_a_comma_is_named_by_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_pipeline = OwnPipeline(tmp_path)
    late = {"e": moment(3.5), "a": moment(30.5), "x": 0}
    own_pipeline.append(
        [*every_hour(0, 48, "a,b"), *every_hour(0, 48, "a"), {**late, "k": "a,b"}, {**late, "k": "a"}]
    )
    assert own_pipeline("run", "own", "--to", "2013-01-03") == 0
    for verb in (("late", "list"), ("state", "windows"), ("state", "timers")):
        assert {row["k"] for row in own_pipeline.json(capsys, *verb, "own", "--key", "a,b")} == {"a,b"}
    [moved] = own_pipeline.json(
        capsys, "late", "redrive", "own", "--key", "a,b", "--reason", "one of two", "--dry-run"
    )
    assert moved["true_arrival"] == "2013-01-02T06:30:00Z"
