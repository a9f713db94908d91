"""Staged rows come back as they were written, belong to one run, and are described so that publish needs
nothing else.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.errors import NewerFormat
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.run_files.staging import (
    declaration_of,
    pack,
    read_staged,
    stack,
    unpack,
    write_staged,
)
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import Tables, Warehouse
from tests.tables.ledger.ledger_rows import clock, day, run_row

SHAPE = Shape(
    keys=(("origin", pa.string()),), results=(("n", pa.int64()),), parts=(), source=(("origin", pa.string()),)
)
MOMENT = datetime(2013, 1, 1, 20, 45, 59, 999000, tzinfo=UTC)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Warehouse(str(tmp_path)).tables("p", SHAPE)
    tables.ensure()
    return tables


def test_a_staged_row_and_its_parent_survive_packing() -> None:
    row, parent = (
        run_row("child", watermark_out=MOMENT, files={"panes": ("run_id=child/x.parquet",)}),
        run_row("parent", seq=3),
    )
    assert unpack(pack(row, parent, {})) == ("parent", row)
    assert unpack(pack(row, None, {})) == (None, row)


def test_the_declarations_of_a_run_are_found_by_its_id(tables: Tables) -> None:
    writer = AttemptsWriter(tables["attempts"])
    attempt = Attempt(run_id="known", parent_seq=None, slice_start=day(0), slice_end=day(1), at=clock())
    writer.record(attempt, clock())
    assert declaration_of(writer, "known") is None
    writer.record(
        attempt,
        clock(),
        outcome="staged",
        ledger_row=pack(run_row("known"), None, {"window": {"size_ms": 5}}),
    )
    assert declaration_of(writer, "known") == {"window": {"size_ms": 5}}
    assert declaration_of(writer, "unknown") is None


def test_a_row_that_a_newer_version_staged_is_refused() -> None:
    with pytest.raises(NewerFormat, match="run later was written in format 99"):
        unpack(pack(run_row("later", format_version=99), None, {}))


def test_rows_of_several_tasks_are_stacked_in_the_tables_columns(tables: Tables) -> None:
    schema = tables["timers"].schema
    parts = [
        pa.table({"origin": ["EWR"], "key_group": pa.array([5], pa.int64())}),
        pa.table(
            {"key_group": pa.array([6, 7], pa.int32()), "origin": ["JFK", "LGA"], "service": ["window", None]}
        ),
    ]
    rows = stack(parts, schema, "r1")
    assert rows.schema.equals(schema)
    assert rows.select(["run_id", "key_group", "origin", "service", "time"]).to_pylist() == [
        {"run_id": "r1", "key_group": 5, "origin": "EWR", "service": None, "time": None},
        {"run_id": "r1", "key_group": 6, "origin": "JFK", "service": "window", "time": None},
        {"run_id": "r1", "key_group": 7, "origin": "LGA", "service": None, "time": None},
    ]
    assert stack([], schema, "r1").equals(schema.empty_table())


def test_a_staged_file_is_read_by_path_before_it_is_committed_and_by_run_after(tables: Tables) -> None:
    folder = tables["timers"]
    rows = stack(
        [pa.table({"origin": ["EWR", "JFK"], "key_group": pa.array([5, 6], pa.int32())})], folder.schema, "r1"
    )
    files = [
        write_staged(folder.uri, "r1", part, rows.slice(start, 1))
        for start, part in enumerate(("driver", "range-00001"))
    ]
    assert all(file.path.startswith("run_id=r1/") and file.partition == {"run_id": "r1"} for file in files)

    staged_rows = read_staged(tables, "timers", tuple(file.path for file in files))
    assert staged_rows.equals(rows.drop_columns(["run_id"]))
    assert folder.read().num_rows == 0
    folder.commit_files(files)
    assert folder.read().sort_by("origin").equals(rows)


def test_rows_of_a_run_are_found_by_run_wherever_upkeep_has_put_them(tables: Tables) -> None:
    folder = tables["panes"]
    for run_id, origins in (("r1", ["EWR", "JFK"]), ("r2", ["LGA"])):
        part = pa.table({"origin": origins, "key_group": pa.array([5] * len(origins), pa.int32())})
        written = write_staged(
            folder.uri, run_id, "driver", stack([part], folder.schema, run_id).drop_columns(["run_id"])
        )
        assert written.partition == {} and json.loads(written.statistics)["minValues"]["run_id"] == run_id
        folder.commit_files([written])
    for has_been_compacted in (False, True):
        assert not has_been_compacted or TableUpkeep(folder).compact() == 1
        assert sorted(folder.read().column("run_id").to_pylist()) == ["r1", "r1", "r2"]
        origins = folder.read(["origin"], pc.field("run_id") == "r1", Within.only("run_id", "r1"))
        assert origins.column("origin").to_pylist() == ["EWR", "JFK"]


def test_two_files_of_one_part_do_not_overwrite_each_other(tables: Tables) -> None:
    """A task that Spark runs twice writes twice; only what its result names is committed."""
    rows = tables["timers"].schema.empty_table()
    first, second = (write_staged(tables["timers"].uri, "r1", "range-00000", rows) for _ in range(2))
    assert first.path != second.path


def test_no_files_are_an_empty_table_without_the_run(tables: Tables) -> None:
    rows = read_staged(tables, "panes", ())
    assert rows.num_rows == 0 and rows.schema.names == tables["panes"].schema.names[1:]


def test_how_staged_rows_are_encoded_is_no_readers_business(tables: Tables) -> None:
    """Differences for what hardly repeats and for small integers, dictionaries that differ from chunk to
    chunk for texts, bounds of key groups alone, and nothing about nulls where there are none: rows as they
    were, in plain types."""
    folder, rows = tables["timers"], 10_000
    moments = pa.array([MOMENT.replace(microsecond=i) for i in range(rows)], folder.schema.field("time").type)

    def texts(value: str, count: int) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), pa.array([value]))

    staged_rows = pa.table(
        {
            "key_group": pa.array([i // 100 for i in range(rows)], pa.int32()),
            "origin": pa.chunked_array([texts("EWR", 4_000), texts("LGA", rows - 4_000)]),
            "time": moments,
        }
    )
    plain = staged_rows.set_column(1, "origin", pa.array(["EWR"] * 4_000 + ["LGA"] * (rows - 4_000)))
    written = write_staged(folder.uri, "r1", "range-0", staged_rows)
    path = f"{folder.uri}/{written.path}"
    group = pq.ParquetFile(path).metadata.row_group(0)
    encodings = "DELTA_BINARY_PACKED", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"
    assert [name in group.column(number).encodings for number, name in enumerate(encodings)] == [
        True,
        True,
        True,
    ]
    assert [group.column(number).is_stats_set for number in range(3)] == [True, False, False], (
        "what row groups are chosen by"
    )
    assert json.loads(written.statistics)["maxValues"].keys() == {"key_group", "origin", "time"}, (
        "what files are chosen by"
    )
    assert [pq.ParquetFile(path).schema.column(number).max_definition_level for number in range(3)] == [
        0,
        0,
        0,
    ]
    assert pq.ParquetFile(path).read().cast(plain.schema) == plain
    with duckdb.connect() as connection:
        assert (
            connection.sql(f"SELECT key_group, origin, time FROM '{path}'")
            .to_arrow_table()
            .cast(plain.schema)
            == plain
        )
