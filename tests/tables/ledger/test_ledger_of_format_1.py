"""Ledgers of format 1, whose inputs lack the id of their table: read as they are, and continued once they
have the field.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.stored_columns import ADDED_COLUMNS
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.ledger.spans import Span
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.schemas import INPUT, Shape
from slackwater.tables.warehouse import Tables, Warehouse
from tests.tables.ledger.ledger_rows import day, run_row

SHAPE = Shape(
    keys=(("origin", pa.string()),),
    results=(("n", pa.int64()),),
    parts=(("n__count", pa.int64()),),
    source=(),
)
FULL = run_row(
    "r1",
    seq=1,
    live=(Span(1, 1),),
    watermark_out=datetime(2013, 1, 1, 20, 45, 59, 999000, tzinfo=UTC),
    inputs=(
        Input(table="sources/departures", table_id="of-the-table", version=3, files=2, rows=800, bytes=12345),
    ),
    files={"panes": ("run_id=r1/a.parquet", "run_id=r1/b.parquet"), "timers": ()},
    phase_seconds={"replay": 1.25},
    started_at=day(3),
    committed_at=day(4),
)


def written_in_format_1(folder: Folder, rows: list[LedgerRow]) -> None:
    """A ledger as format 1 had it: inputs without the id of their table."""
    fields = [field for field in INPUT.fields if field.name != "table_id"]
    earlier = [
        earlier_field for column in folder.schema if (earlier_field := _earlier(column, fields)) is not None
    ]
    values = [json.loads(row.to_json()) for row in rows]
    for row in values:
        row["inputs"] = [
            {name: value for name, value in item.items() if name != "table_id"} for item in row["inputs"]
        ]
        row |= {
            name: row[name] and datetime.fromisoformat(row[name])
            for name in row
            if pa.types.is_timestamp(folder.schema.field(name).type)
        }
    Folder(folder.uri, pa.schema(earlier)).append(pa.Table.from_pylist(values, schema=pa.schema(earlier)))


def _earlier(column: pa.Field, fields: list[pa.Field]) -> pa.Field | None:
    if column.name in ADDED_COLUMNS["runs"]:
        return None
    return pa.field("inputs", pa.list_(pa.struct(fields))) if column.name == "inputs" else column


class TestInputsOfFormat1:
    @pytest.fixture
    def tables(self, tmp_path: Path) -> Tables:
        tables = Warehouse(str(tmp_path)).tables("p", SHAPE)
        written_in_format_1(tables["runs"], [FULL])
        return tables

    def test_they_are_read_as_of_no_known_table_before_and_after_the_ledger_has_the_field(
        self, tables: Tables, tmp_path: Path
    ) -> None:
        unknown = replace(FULL.inputs[0], table_id=None)
        assert tables.ledger.row(1).inputs == (unknown,)
        tables.ensure()
        for ledger in (tables.ledger, Warehouse(str(tmp_path)).stored_tables("p").ledger):
            assert ledger.row(1).inputs == (unknown,)
            assert ledger.row(1).files == FULL.files

    def test_the_field_is_added_once_and_later_rows_have_it(self, tables: Tables, tmp_path: Path) -> None:
        tables.ensure()
        version = tables["runs"].open().version()
        Warehouse(str(tmp_path)).tables("p", SHAPE).ensure()
        assert tables["runs"].open().version() == version == 2
        for writer in (
            LedgerWriter(tables["runs"]),
            LedgerWriter(Warehouse(str(tmp_path)).stored_tables("p")["runs"]),
        ):
            head = writer.head()
            assert head is not None
            writer.commit("main", head.seq, [replace(FULL, run_id=f"r{head.seq + 1}")], lambda: day(4))
        assert [row.inputs[0].table_id for row in tables.ledger.rows()] == [
            None,
            "of-the-table",
            "of-the-table",
        ]

    def test_a_staged_row_of_format_1_is_read(self) -> None:
        values = json.loads(FULL.to_json())
        del values["inputs"][0]["table_id"]
        assert LedgerRow.from_json(json.dumps(values)).inputs == (replace(FULL.inputs[0], table_id=None),)
