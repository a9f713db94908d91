"""The columns of one of several sources under the names and types that all of them have in common, and the
three columns that a union adds.

    source A    clicked_at, page, shard            clicked_at ─┐
    source B    seen_at, url                       seen_at ────┴─ clicked_at,  page ─┬─ page
                                                                               url ──┘

    a row of A  clicked_at, page, source = "a", source_partition = "a/3", source_order = "0000…"

Looks at columns alone; which of them are brought together is decided in
`slackwater.engine.rows.union_columns`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.computed_columns import ExpressionFailure
from slackwater.engine.source.files import ColumnStatistics
from slackwater.pipelines.sources import SOURCE, SOURCE_ORDER, SOURCE_PARTITION, UNION_COLUMNS


@dataclass(frozen=True)
class Naming:
    """How the rows of a pipeline with several sources are made from the rows of one source.

    Attributes:
        position: of the source in the list.
        own_names: common column → the source's own; None where it lacks the column.
        partition, order: the source's own columns of these roles; None where it has none.
        schema: the columns of the pipeline's rows.
        own_schema: the source's columns; common ones have the common types.
    """

    title: str
    table: str
    position: int
    own_names: Mapping[str, str | None]
    partition: str | None
    order: str | None
    schema: pa.Schema
    own_schema: pa.Schema

    def own_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        own_names = {
            **self.own_names,
            SOURCE: None,
            SOURCE_PARTITION: self.partition,
            SOURCE_ORDER: self.order,
        }
        names = (own_names[name] for name in columns)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def failure(self, own_failure: ExpressionFailure) -> ExpressionFailure:
        """The failure of an own column as one of the common column that it is called."""
        common_names = {own_name: name for name, own_name in self.own_names.items()}
        return replace(own_failure, column=common_names.get(own_failure.column, own_failure.column))

    def rows(self, own_rows: pa.Table, columns: Iterable[str]) -> pa.Table:
        """`columns` of the pipeline's rows, but those whose column `own_rows` lacks."""
        arrays = {name: self._column(own_rows, name) for name in columns}
        arrays_present = {name: array for name, array in arrays.items() if array is not None}
        return pa.table(arrays_present) if arrays_present else own_rows.select([])

    def _column(self, own_rows: pa.Table, name: str) -> pa.ChunkedArray | pa.Array | None:
        count = own_rows.num_rows
        if name == SOURCE:
            return pa.repeat(pa.scalar(self.title), count)
        if name == SOURCE_PARTITION:
            return self._partitions(own_rows)
        if name == SOURCE_ORDER:
            return self._orders(own_rows)
        own_name = self.own_names[name]
        if own_name is None:
            return pa.nulls(count, self.schema.field(name).type)
        return own_rows.column(own_name) if own_name in own_rows.column_names else None

    def _partitions(self, own_rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """``title``, or ``title/partition``; a title has no slash."""
        if self.partition is None:
            return pa.repeat(pa.scalar(self.title), own_rows.num_rows)
        partitions = pc.fill_null(own_rows.column(self.partition).cast(pa.string()), "")
        codes = partitions.combine_chunks().dictionary_encode()
        names = pc.binary_join_element_wise(f"{self.title}/", codes.dictionary, "")
        return names.take(codes.indices)

    def _orders(self, own_rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Text that sorts by the source's position, then by its order column, nulls first."""
        prefix = f"{self.position:04d}"
        if self.order is None:
            return pa.repeat(pa.scalar(prefix), own_rows.num_rows)
        values = own_rows.column(self.order).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
        texts = pc.binary_join_element_wise(f"{prefix}:", sortable_texts(values), "")
        return pc.fill_null(texts, prefix)


def has_sortable_texts(kind: pa.DataType) -> bool:
    """Whether values of a type have texts that sort alike."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def sortable_texts(values: pa.Array) -> pa.Array:
    """A text for each value; texts sort, byte by byte, as the values do, NaN last. Null stays null.

    Numbers and times are 16 hexadecimal digits: of integers with the sign bit turned round, of floats with
    all bits turned round where they are negative.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.string())
    is_null = np.asarray(values.is_null())
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
        is_negative = bits >> np.uint64(63) == 1
        words = np.where(is_negative, ~bits, bits ^ _SIGN)
    elif pa.types.is_uint64(kind):
        words = values.fill_null(0).to_numpy(zero_copy_only=False)
    else:
        if pa.types.is_date32(kind):
            values = values.cast(pa.int32())
        integers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        words = integers.view(np.uint64) ^ _SIGN
    return _hexadecimal(words, is_null)


_SIGN = np.uint64(1 << 63)
_DIGITS = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), np.uint16)


def _hexadecimal(words: npt.NDArray[np.uint64], is_null: npt.NDArray[np.bool_]) -> pa.Array:
    digits = _DIGITS[words.astype(">u8").view(np.uint8)]
    offsets = np.arange(len(words) + 1, dtype=np.int32) * 16
    texts = pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(digits))
    return pc.if_else(pa.array(is_null), pa.scalar(None, pa.string()), texts) if is_null.any() else texts


def _statistics(naming: Naming, batch: SourceBatch, name: str) -> ColumnStatistics:
    """A file's statistics of one of the pipeline's columns."""
    if name in UNION_COLUMNS:
        return ColumnStatistics(True, None)
    own_name = naming.own_names[name]
    if own_name is None or batch.statistics is None:
        return ColumnStatistics(False, None)
    return batch.statistics(own_name)


def _full_rows(
    naming: Naming, batch: SourceBatch, columns: tuple[str, ...], positions: npt.NDArray[np.int64]
) -> pa.Table:
    return naming.rows(batch.full_rows(positions), columns)


def common_batch(
    naming: Naming, batch: SourceBatch, columns: tuple[str, ...], eager: Iterable[str]
) -> SourceBatch:
    """A batch of one source as a batch of the pipeline's rows, with the `eager` columns read of every row,
    but those that `batch` lacks because they hold no null.
    """
    return SourceBatch(
        rows=naming.rows(batch.rows, eager),
        path=None if batch.path is None else f"{naming.table.rstrip('/')}/{batch.path}",
        may_hold_unread=batch.may_hold_unread,
        read_to_ms=batch.read_to_ms,
        is_part=batch.is_part,
        read_full_rows=partial(_full_rows, naming, batch, columns),
        keep_rows=batch.keep_rows,
        statistics=None if batch.statistics is None else partial(_statistics, naming, batch),
        source=naming.position,
        failures=tuple(naming.failure(failure) for failure in batch.failures),
        item_numbers=batch.item_numbers,
    )
