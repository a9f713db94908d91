"""Which rows of some files other files, into which these were written again, have no more: both are compared
as multisets of rows by DuckDB, on disk where memory does not hold them.

    before   a: r1 r2    b: r3 r3        after   c: r1 r3        lost   a: 1 (r2)    b: 1 (the second r3)

Of equal rows those of the last files count as lost.
"""

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.deletion_vectors import DeletionVector, hidden_rows
from slackwater.engine.source.files import InputFile
from slackwater.tables.delta.parquet import open_verified
from slackwater.tables.stores import filesystem

Int64s = npt.NDArray[np.int64]
MEMORY_LIMIT = "512MB"
# More is not read to find out about rows that are gone.
COMPARED_BYTES = 4 << 30
_FILE, _POSITION = "__file", "__position"
_LOST = """
    SELECT {file} AS file, {position} AS position, number > kept AS is_lost
    FROM (
        SELECT {file}, {position},
            row_number() OVER (PARTITION BY {columns}, {file} < 0 ORDER BY {file}, {position}) AS number,
            count(*) FILTER (WHERE {file} < 0) OVER (PARTITION BY {columns}) AS kept
        FROM rows
    )
    WHERE file >= 0
"""


def lost_positions(
    uri: str, schema: pa.Schema, before: Sequence[InputFile], after: Sequence[InputFile]
) -> list[Int64s] | None:
    """Of each file in `before` the ascending positions of the rows that `after` has no more, without those
    that the file's own vector hides. None where `after` has other rows, too, or where both are too large to
    compare.
    """
    import duckdb  # few sources lose rows

    if sum(file.bytes for file in (*before, *after)) > COMPARED_BYTES:
        return None
    with tempfile.TemporaryDirectory(prefix="slackwater-comparison-") as folder:
        settings: dict[str, Any] = {"threads": 1, "memory_limit": MEMORY_LIMIT, "temp_directory": folder}
        with duckdb.connect(config=settings) as connection:
            reader, counts = _reader(uri, schema, before, after)
            connection.register("rows", reader)
            columns = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
            query = _LOST.format(file=_FILE, position=_POSITION, columns=columns)
            rows = connection.sql(query).to_arrow_table()
    kept_rows = rows.num_rows - int(np.count_nonzero(rows.column("is_lost").to_numpy()))
    if kept_rows != counts["after"]:
        return None
    lost_rows = rows.filter(rows.column("is_lost"))
    files, positions = (lost_rows.column(name).to_numpy() for name in ("file", "position"))
    return [np.sort(positions[files == number]) for number in range(len(before))]


def vector_with(uri: str, file: InputFile, lost_rows: Int64s) -> DeletionVector:
    """The deletion vector that hides the rows at the positions `lost` of a file, and what its own hides."""
    hidden_positions = np.zeros(0, np.int64) if file.vector is None else hidden_rows(uri, file.vector)
    return DeletionVector.hiding(np.union1d(hidden_positions, lost_rows).tolist())


def _reader(
    uri: str, schema: pa.Schema, before: Sequence[InputFile], after: Sequence[InputFile]
) -> tuple[pa.RecordBatchReader, dict[str, int]]:
    """The rows of all files, those of `after` with a negative number of the file; how many these are is known
    when they were read.
    """
    plain_schema = pa.schema([pa.field(column.name, column.type) for column in schema])
    whole_schema = plain_schema.append(pa.field(_FILE, pa.int64())).append(pa.field(_POSITION, pa.int64()))
    counts = {"after": 0}

    def batches() -> Iterator[pa.RecordBatch]:
        numbered_files = [*enumerate(before), *((-1, file) for file in after)]
        for number, file in numbered_files:
            for rows, positions in _pieces(uri, schema, file):
                counts["after"] += rows.num_rows if number < 0 else 0
                columns = [
                    column.cast(field.type) for column, field in zip(rows.columns, plain_schema, strict=True)
                ]
                numbers = pa.array(np.full(rows.num_rows, number, np.int64))
                table = pa.table([*columns, numbers, pa.array(positions)], schema=whole_schema)
                yield from table.to_batches()

    return pa.RecordBatchReader.from_batches(whole_schema, batches()), counts


def _pieces(uri: str, schema: pa.Schema, file: InputFile) -> Iterator[tuple[pa.Table, Int64s]]:
    """The rows of a file that its vector does not hide, a row group at a time, and their positions in the
    file.
    """
    with open_verified(uri, filesystem(uri), file.path) as parquet:
        metadata = parquet.metadata
    hidden_positions = np.zeros(0, np.int64) if file.vector is None else hidden_rows(uri, file.vector)
    begin = 0
    for group in range(metadata.num_row_groups):
        end = begin + metadata.row_group(group).num_rows
        positions = np.setdiff1d(np.arange(begin, end, dtype=np.int64), hidden_positions, assume_unique=True)
        yield read_columns(uri, file, schema, schema.names, row_groups=[group], metadata=metadata), positions
        begin = end
