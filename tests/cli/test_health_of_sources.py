"""`slackwater health` beside `plan` and `run`, where the next run will refuse its source."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.cli.own_source import SCHEMA, OwnPipeline, every_hour


def health(own: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    exit_code = own("health", "own", "--output", "json")
    (answer,) = json.loads(capsys.readouterr().out)
    assert exit_code == (answer["health"] == "red")
    return answer


def renamed(**names: str) -> pa.Schema:
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in SCHEMA])


def retyped(name: str, kind: pa.DataType) -> pa.Schema:
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind))


def rows_like(schema: pa.Schema, first: int, last: int) -> pa.Table:
    rows = pa.Table.from_pylist(every_hour(first, last), schema=SCHEMA)
    columns = [
        pa.array(range(rows.num_rows), field.type)
        if pa.types.is_integer(field.type)
        else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (renamed(x="X"), "'x'"),
        (retyped("x", pa.float64()), "x (it was int64, and is double)"),
        (retyped("k", pa.int64()), "stored string, declared int64"),
    ],
    ids=["another case", "another type", "a key of another type"],
)
def test_what_the_next_run_refuses_of_a_delta_source_is_red_and_no_plan(
    tmp_path: Path, schema: pa.Schema, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnPipeline(tmp_path)
    own.append(every_hour(0, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert health(own, capsys)["health"] == "green"
    write_deltalake(own.source, rows_like(schema, 0, 40), mode="overwrite", schema_mode="overwrite")
    assert own("plan", "own", "--to", "2013-01-02T12:00") == 2
    assert own("run", "own", "--to", "2013-01-02T12:00") == 2
    refusal = capsys.readouterr().err
    answer = health(own, capsys)
    (reason,) = [text for text in answer["reasons"] if "the next run will refuse the source: " in text]
    assert answer["health"] == "red"
    assert named in reason
    assert reason.removeprefix("the next run will refuse the source: ")[:60] in refusal


def test_a_folder_whose_files_disagree_on_a_column_that_is_read_is_red(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnPipeline(tmp_path)
    own.declare('source=ParquetSource("landing/own", event_time="e", arrival_time="a")')
    own.file.write_text("from slackwater import ParquetSource\n" + own.file.read_text())
    folder = own.warehouse / "landing" / "own"
    folder.mkdir(parents=True)
    pq.write_table(rows_like(SCHEMA, 0, 24), folder / "first.parquet")
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert health(own, capsys)["health"] == "green"
    pq.write_table(rows_like(retyped("x", pa.string()), 24, 40), folder / "second.parquet")
    assert own("run", "own", "--to", "2013-01-02T12:00") == 2
    answer = health(own, capsys)
    assert answer["health"] == "red"
    assert "the pipeline reads the column 'x'" in answer["reasons"][0]
    (folder / "second.parquet").unlink()
    pq.write_table(rows_like(renamed(), 24, 40), folder / "third.parquet")
    assert health(own, capsys)["health"] == "green"
