"""Staged rows: how they are written, found again and described, before and after a ledger row names them.

A run writes files of its own. Those of the snapshot stay so, in the partition of its run_id; of panes, late
rows, quarantine and side outputs upkeep may put several runs into one file, so `run_id` is a column there,
and readers select by it.
"""

import json
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from slackwater.jobs.tables.delta.parquet import check_footer, file_format, naming_damaged_file, open_verified
from slackwater.jobs.tables.delta.stored_files import Within
from slackwater.jobs.tables.delta.written_files import WrittenFile, filesystem, hardly_repeats, write_file
from slackwater.jobs.tables.errors import SnapshotGone
from slackwater.jobs.tables.ledger.attempts import AttemptsReader
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.schemas import ADDED_COLUMNS, partitioned_by
from slackwater.jobs.tables.warehouse import Tables

# What tasks choose row groups by. Of all else the log has the bounds of each file, which is seldom more than
# one row group.
_COLUMNS_WITH_BOUNDS = ("key_group",)


def pack(row: LedgerRow, parent: LedgerRow | None, declaration: Mapping[str, Any]) -> str:
    """A staged ledger row for `attempts`: the row as JSON and, under keys of their own, the run_id of its
    parent (staged rows have no seq yet) and the pipeline's declarations as plain values, of which the ledger
    itself has the hash."""
    parent_run_id = None if parent is None else parent.run_id
    packed = {"parent_run_id": parent_run_id, "row": json.loads(row.to_json()), "declaration": declaration}
    return json.dumps(packed, sort_keys=True)


def unpack(text: str) -> tuple[str | None, LedgerRow]:
    """The inverse of `pack`: (run_id of the parent, row)."""
    values: dict[str, Any] = json.loads(text)
    return values["parent_run_id"], LedgerRow.from_json(json.dumps(values["row"]))


def declaration_of(attempts: AttemptsReader, run_id: str) -> dict[str, Any] | None:
    """The declarations that a run was staged with, as plain values; None where they were not recorded."""
    attempt = attempts.find(run_id)
    values = {} if attempt is None or attempt.ledger_row is None else json.loads(attempt.ledger_row)
    return values.get("declaration")


def stack(parts: list[pa.Table], schema: pa.Schema, run_id: str) -> pa.Table:
    """Rows of several tasks as one table of `schema`; `run_id` is filled in, columns that no part has are
    null.
    """
    whole = []
    for part in parts:
        columns = []
        for field in schema:
            if field.name == "run_id":
                columns.append(pa.repeat(pa.scalar(run_id), part.num_rows))
            elif field.name in part.column_names:
                columns.append(part.column(field.name).cast(field.type))
            else:
                columns.append(pa.nulls(part.num_rows, field.type))
        whole.append(pa.table(columns, schema=schema))
    return pa.concat_tables(whole) if whole else schema.empty_table()


def write_staged(uri: str, run_id: str, part: str, rows: pa.Table) -> WrittenFile:
    """Write staged rows (without run_id) as one file of the table that the last part of `uri` names: a table
    of snapshots has it in the partition of `run_id`, another as a column. Commits nothing.

    Spark may run a task twice, so no two writers share a name; only the file that the driver hears of counts.
    """
    unique = f"{uuid.uuid4().hex[:8]}.parquet"
    write = partial(
        write_file,
        as_differences=[name for name in rows.column_names if hardly_repeats(rows.column(name))],
        columns_with_bounds=_COLUMNS_WITH_BOUNDS,
    )
    if partitioned_by(uri.rstrip("/").rsplit("/", 1)[-1]):
        return write(uri, f"run_id={run_id}/{part}-{unique}", rows, {"run_id": run_id})
    run_ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, np.int32)), [run_id])
    return write(uri, f"{part}-{run_id}-{unique}", rows.add_column(0, "run_id", run_ids), {})


def staged(tables: Tables, name: str, paths: tuple[str, ...]) -> pads.Dataset:
    """Rows of files that a run has just staged, without run_id, for who looks at some columns of many."""
    folder = tables[name]
    schema = pa.schema([field for field in folder.schema if field.name != "run_id"])
    kind, files = file_format(), filesystem(folder.uri)
    with naming_damaged_file(folder.uri, files, paths):
        for path in paths:
            check_footer(files, path)
    return pads.FileSystemDataset([kind.make_fragment(path, files) for path in paths], schema, kind, files)


def rows_of_run(tables: Tables, name: str, run_id: str) -> pa.Table:
    """Rows of panes, late rows, quarantine or a side output that a run has staged, without run_id, in
    whichever files they are now.
    """
    rows = tables[name].read(where=pc.field("run_id") == run_id, within=Within.only("run_id", run_id))
    return rows.drop_columns(["run_id"])


def read_staged(tables: Tables, name: str, paths: tuple[str, ...]) -> pa.Table:
    """Rows of files that a run has staged, without run_id.

    Raises:
        SnapshotGone: a file is not there any more.
    """
    folder = tables[name]
    files = filesystem(folder.uri)
    schema = pa.schema([field for field in folder.schema if field.name != "run_id"])
    parts = []
    for path in paths:
        try:
            with open_verified(folder.uri, files, path) as file:
                rows = _with_added_columns(file.read(use_threads=False), name, schema)
                parts.append(rows.select(schema.names).cast(schema))
        except FileNotFoundError as error:
            raise SnapshotGone(
                f"{folder.uri}: {path}, which a run had staged, is gone. `slackwater maintain` drops "
                "snapshots that are neither among the "
                "newest nor the last of a period; the rows of `runs` stay, and newer snapshots can be looked "
                "at.",
                path=path,
            ) from error
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _with_added_columns(rows: pa.Table, table: str, schema: pa.Schema) -> pa.Table:
    """Rows of a file of `table`, with nulls in those columns of `schema` that files of an earlier format
    lack.
    """
    for name in ADDED_COLUMNS.get(table, ()):
        if name in schema.names and name not in rows.column_names:
            rows = rows.append_column(schema.field(name), pa.nulls(rows.num_rows, schema.field(name).type))
    return rows
