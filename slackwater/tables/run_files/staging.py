"""Writes and reads the rows that a run stages, gives them to its content hash, and packs its ledger row for
`attempts`.

A run writes files of its own. Files of the snapshot are in the partition of the run's run_id. In panes, late
rows, quarantine and side outputs `run_id` is a column, because upkeep may merge the files of several runs.

A kind of pane that was renamed is hashed under its former name, and a column that source progress has gained
only where it says something: hashes that earlier versions recorded stay the hashes of their runs.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables.delta.parquet import (
    check_footer,
    damaged_file,
    file_format,
    naming_damaged_file,
    open_verified,
)
from slackwater.tables.delta.written_files import WrittenFile, columns_as_differences, write_file
from slackwater.tables.errors import SnapshotGone
from slackwater.tables.ledger.attempts import AttemptsReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.schemas import partitioned_by
from slackwater.tables.stores import filesystem
from slackwater.tables.warehouse import Tables

EMITTED_KIND: Final = "emitted"  # the kind of panes that a KeyedProcessFunction has emitted
# Kind → its name in hashes, and in panes of versions before.
FORMER_KINDS: Final[Mapping[str, str]] = {EMITTED_KIND: "count"}
_CARRIED_WATERMARK: Final = "carried_watermark"


def as_hashed(table: str, rows: pa.Table) -> pa.Table:
    """Rows of `table` for `ContentHash.add`."""
    if table == "source_progress" and _CARRIED_WATERMARK in rows.column_names:
        watermarks = rows.column(_CARRIED_WATERMARK)
        return rows.drop_columns([_CARRIED_WATERMARK]) if watermarks.null_count == len(watermarks) else rows
    if table != "panes":
        return rows
    kinds = rows.column("kind")
    for kind, former_kind in FORMER_KINDS.items():
        is_renamed = pc.equal(kinds, kind)
        if pc.any(is_renamed).as_py():
            kinds = pc.if_else(is_renamed, former_kind, kinds.cast(pa.string()))
    return rows.set_column(rows.schema.get_field_index("kind"), "kind", kinds)


# Tasks choose row groups by this column. For all others the bounds of the file in Delta's log are enough: a
# file is seldom more than one row group.
_COLUMNS_WITH_BOUNDS = ("key_group",)
_ROWS_AT_ONCE = 1 << 18


def pack(row: LedgerRow, parent: LedgerRow | None, declaration: Mapping[str, Any]) -> str:
    """A staged ledger row as JSON, for the column `ledger_row` of `attempts`, with the run_id of the parent
    (a staged row has no seq yet) and the pipeline's declaration, which the ledger only has a hash of.
    """
    parent_run_id = None if parent is None else parent.run_id
    values = {"parent_run_id": parent_run_id, "row": json.loads(row.to_json()), "declaration": declaration}
    return json.dumps(values, sort_keys=True)


def unpack(text: str) -> tuple[str | None, LedgerRow]:
    """The inverse of `pack`: (run_id of the parent, row)."""
    values: dict[str, Any] = json.loads(text)
    return values["parent_run_id"], LedgerRow.from_json(json.dumps(values["row"]))


def declaration_of(attempts: AttemptsReader, run_id: str) -> dict[str, Any] | None:
    attempt = attempts.find(run_id)
    values = {} if attempt is None or attempt.ledger_row is None else json.loads(attempt.ledger_row)
    return values.get("declaration")


def stack(parts: list[pa.Table], schema: pa.Schema, run_id: str) -> pa.Table:
    """Rows of several tasks as one table of `schema`, with `run_id`; missing columns are null."""
    tables = []
    for part in parts:
        columns = []
        for field in schema:
            if field.name == "run_id":
                columns.append(pa.repeat(pa.scalar(run_id), part.num_rows))
            elif field.name in part.column_names:
                columns.append(part.column(field.name).cast(field.type))
            else:
                columns.append(pa.nulls(part.num_rows, field.type))
        tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def write_staged(uri: str, run_id: str, part: str, rows: pa.Table) -> WrittenFile:
    """Write staged rows (without run_id) as one file of the table at `uri`, which is partitioned by run_id or
    has it as a column. Commits nothing. Spark may run a task twice, so every file has a name of its own; only
    files that tasks report to the driver are committed.
    """
    unique = f"{uuid.uuid4().hex[:8]}.parquet"
    write = partial(
        write_file,
        as_differences=columns_as_differences(rows),
        columns_with_bounds=_COLUMNS_WITH_BOUNDS,
    )
    if partitioned_by(uri.rstrip("/").rsplit("/", 1)[-1]):
        return write(uri, f"run_id={run_id}/{part}-{unique}", rows, {"run_id": run_id})
    run_ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, np.int32)), [run_id])
    return write(uri, f"{part}-{run_id}-{unique}", rows.add_column(0, "run_id", run_ids), {})


def count_staged(tables: Tables, name: str, paths: tuple[str, ...]) -> int:
    """The number of rows in staged files, by their footers."""
    folder = tables[name]
    kind, files = file_format(), filesystem(folder.uri)
    with naming_damaged_file(folder.uri, files, paths):
        for path in paths:
            check_footer(files, path)
    fragments = [kind.make_fragment(path, files) for path in paths]
    return sum(fragment.count_rows() for fragment in fragments)


def read_staged(tables: Tables, name: str, paths: tuple[str, ...]) -> pa.Table:
    """The rows of staged files, without run_id. Raises SnapshotGone: a file is missing."""
    parts = [rows for path in paths for rows in scan_staged(tables, name, path)]
    return pa.concat_tables(parts) if parts else _without_run_id(tables[name].schema).empty_table()


def scan_staged(tables: Tables, name: str, path: str) -> Iterator[pa.Table]:
    """The rows of one staged file, without run_id, in batches. Raises SnapshotGone: it is missing."""
    folder = tables[name]
    schema = _without_run_id(folder.schema)
    try:
        with open_verified(folder.uri, filesystem(folder.uri), path) as file:
            count = 0
            for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                count += batch.num_rows
                yield with_columns(pa.Table.from_batches([batch]), schema)
            if count != file.metadata.num_rows:  # the head of a page has no checksum
                raise damaged_file(
                    folder.uri, path, f"it has {count:,} rows, and its end says {file.metadata.num_rows:,}"
                )
    except FileNotFoundError as error:
        raise SnapshotGone(
            f"{folder.uri}: {path}, which a run had staged, is gone. `slackwater maintain` drops "
            "snapshots that are neither among the "
            "newest nor the last of a period; the rows of `runs` stay, and newer snapshots can be looked "
            "at.",
            path=path,
        ) from error


def _without_run_id(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != "run_id"])


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the columns of `schema`; those that its table has got later are null."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)
