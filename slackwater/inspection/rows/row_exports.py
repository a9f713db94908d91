"""Rows as CSV, JSON or Parquet, written piece by piece while they are read, so any number of rows takes the
memory of one batch. Times are ISO 8601 in UTC; a list or a structure in CSV is JSON.
"""

import io
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from slackwater.inspection.sql.locked_database import RowBatches
from slackwater.tables.arrow_values import python_values

_ROW_GROUP_ROWS = 1 << 17
_PLAIN_TYPES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_string,
)
# Microseconds of the first and last moment that Python can express.
_FIRST_MOMENT = -62_135_596_800_000_000
_LAST_MOMENT = 253_402_300_799_999_999


def csv_pieces(stream: RowBatches) -> Iterator[bytes]:
    """A CSV file with a header; null is an empty field, an empty text is quoted."""
    columns = pa.schema([field.with_type(_csv_type(field.type)) for field in stream.schema])
    sink = io.BytesIO()
    with pacsv.CSVWriter(sink, columns) as writer:
        for batch in stream.batches:
            values = [column if _is_plain(column.type) else _texts(column) for column in batch.columns]
            writer.write(pa.RecordBatch.from_arrays(values, schema=columns))
            yield _empty(sink)
    yield _empty(sink)


def parquet_pieces(stream: RowBatches) -> Iterator[bytes]:
    sink = io.BytesIO()
    with pq.ParquetWriter(pa.PythonFile(_AppendingFile(sink), mode="w"), stream.schema) as writer:
        for rows in _groups(stream.batches):
            writer.write_table(rows)
            yield _empty(sink)
    yield _empty(sink)


def json_pieces(stream: RowBatches) -> Iterator[str]:
    names = stream.schema.names
    separator = "["
    for batch in stream.batches:
        for row in rows_of(batch):
            values = map(_finite, row)
            yield f"{separator}\n {json.dumps(dict(zip(names, values, strict=True)), default=json_value)}"
            separator = ","
    yield "\n]" if separator == "," else "[]"


def rows_of(rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows as Python values, in the order of the columns: whole decimals as int; times that Python can't
    express as text.
    """
    return zip(*map(_values, rows.columns), strict=True) if rows.num_columns else iter(())


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return [None if value is None else int(value) for value in column.to_pylist()]
    return python_values(column)


def _has_far_moments(column: pa.Array) -> bool:
    bounds = pc.min_max(_microseconds(column)).as_py()
    return bounds["max"] is not None and (bounds["min"] < _FIRST_MOMENT or bounds["max"] > _LAST_MOMENT)


def _microseconds(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())


def _finite(value: Any) -> Any:
    """The value, or None for a float that JSON can't express."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_value(value: Any) -> Any:
    """A value that JSON has no form for: times in ISO 8601 UTC, durations in milliseconds, bytes as hex."""
    match value:
        case datetime():
            return _iso(value)
        case date():
            return value.isoformat()
        case timedelta():
            return value / timedelta(milliseconds=1)
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _iso(moment: datetime) -> str:
    value = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return value.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def _is_plain(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _PLAIN_TYPES)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    return kind if _is_plain(kind) else pa.string()


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type) and not _has_far_moments(column):
        texts = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
        return pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])?\.?0*Z$", r"\1Z")
    texts = [
        None if value is None else value if isinstance(value, str) else _cell(value)
        for value in _values(column)
    ]
    return pa.array(texts, pa.string())


def _cell(value: Any) -> str:
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=json_value)
    return str(value if isinstance(value, int) else json_value(value))


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        parts.append(batch)
        if sum(part.num_rows for part in parts) >= _ROW_GROUP_ROWS:
            yield pa.Table.from_batches(parts)
            parts = []
    if parts:
        yield pa.Table.from_batches(parts)


class _AppendingFile:
    """A file object for Arrow that appends to a buffer which is emptied meanwhile."""

    closed = False

    def __init__(self, sink: io.BytesIO) -> None:
        self._sink = sink
        self._position = 0

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        self._sink.write(content)
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The buffer stays."""


def _empty(sink: io.BytesIO) -> bytes:
    content = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return content
