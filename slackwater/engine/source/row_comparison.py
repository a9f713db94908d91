"""Compares rows of files as multisets: which of them some files have and others lack. They are grouped by
DuckDB, on disk where memory does not hold them.
"""

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.source.files import InputFile
from slackwater.engine.source.lost_rows import MEMORY_LIMIT
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.row_groups import SourceFile

_ROWS_AT_ONCE = 250_000
_COMPARISON = """
    SELECT {keys}, sum(greatest(__rows, 0))::BIGINT AS added, sum(greatest(-__rows, 0))::BIGINT AS removed
    FROM (
        SELECT {columns}, sum(__sign) AS __rows
        FROM (SELECT *, 1 AS __sign FROM added_rows UNION ALL SELECT *, -1 AS __sign FROM removed_rows)
        GROUP BY {columns} HAVING sum(__sign) <> 0
    )
    GROUP BY {keys} ORDER BY {keys}
"""


def count_changed_rows(
    source: PinnedSource,
    removed_files: Sequence[InputFile],
    added_files: Sequence[InputFile],
    keys: Sequence[str],
) -> pa.Table:
    """How many rows `added_files` have that `removed_files` lack (`added`), and how many it is the other way
    round (`removed`), for each of the different values of the columns `keys`, ascending. Files that are gone
    raise FileNotFoundError.
    """
    import duckdb  # few sources change rows that they have

    with tempfile.TemporaryDirectory(prefix="slackwater-comparison-") as folder:
        settings: dict[str, Any] = {
            "threads": 1,
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": folder,
        }
        with duckdb.connect(config=settings) as connection:
            errors: list[Exception] = []
            connection.register("added_rows", _reader(source, added_files, errors))
            connection.register("removed_rows", _reader(source, removed_files, errors))
            columns, key_columns = (", ".join(map(_quoted, names)) for names in (source.schema.names, keys))
            try:
                return connection.sql(_COMPARISON.format(keys=key_columns, columns=columns)).to_arrow_table()
            except duckdb.Error:
                if errors:  # that of storage, which DuckDB has made its own
                    raise errors[0] from None
                raise


def in_microseconds(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64()).to_numpy()


def _reader(
    source: PinnedSource, files: Sequence[InputFile], errors: list[Exception]
) -> pa.RecordBatchReader:
    """The rows of `files`, a few at a time, under the source's columns; errors are added to `errors`, too."""
    schema = pa.schema([pa.field(field.name, field.type) for field in source.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for file in files:
                pieces = SourceFile(source.uri, file, source.schema).batches(
                    schema.names, None, rows_at_once=_ROWS_AT_ONCE
                )
                for piece in pieces:
                    yield from piece.rows.cast(schema).to_batches()
        except Exception as error:
            errors.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, batches())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
