"""Reads rows of a plain Delta table from only the files that may hold them, chosen by whole columns of the
log's statistics. A dataset over every file, each with its bounds as an expression, would cost more the longer
a table has lived. Knows no table by name.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs
from deltalake import DeltaTable

from slackwater.tables.delta.parquet import (
    check_contents,
    check_footer,
    checked_bytes,
    damaged_file,
    file_format,
    lost_file,
    naming_damaged_file,
)
from slackwater.tables.delta.statistics import widen_bounds
from slackwater.tables.stores import filesystem

_BATCH_ROWS = 1 << 17
# To hand so few bytes to threads takes as long as to read them.
FEW_BYTES = 1 << 20
_PARTITION = "partition."


class Within(NamedTuple):
    """The values that a reader wants of a column, both bounds included; None for no bound. Never a null."""

    column: str
    least: Any
    greatest: Any

    @classmethod
    def only(cls, column: str, value: Any) -> "Within":
        return cls(column, value, value)


def actions_of(table: DeltaTable) -> pa.Table:
    """The table's files, one a row (delta-rs calls them add actions): path, size_bytes, num_records,
    ``partition.<column>``, and statistics ``min.<column>``, ``max.<column>``, ``null_count.<column>``.
    """
    return pa.table(table.get_add_actions(flatten=True))


def files_within(actions: pa.Table, *bounds: Within) -> pa.Table:
    for one in bounds if actions.num_rows else ():
        actions = actions.filter(_may_hold(actions, one))
    return actions


@dataclass(frozen=True)
class StoredFiles:
    """Some files of a table: `actions` as of `actions_of`, and its folder. Texts in `dictionary_columns` are
    read as dictionaries.
    """

    actions: pa.Table
    uri: str
    folder: pafs.FileSystem
    schema: pa.Schema
    dictionary_columns: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the folder itself."""
        return _reopen, (self.actions, self.uri, self.schema, self.dictionary_columns)

    @property
    def read_schema(self) -> pa.Schema:
        kind = pa.dictionary(pa.int32(), pa.string())
        return pa.schema(
            [
                field.with_type(kind) if field.name in self.dictionary_columns else field
                for field in self.schema
            ]
        )

    @property
    def rows(self) -> int:
        """How many rows the files hold by the log; files without a count add none."""
        return self._sum("num_records")

    @property
    def _bytes(self) -> int:
        return self._sum("size_bytes")

    def _sum(self, name: str) -> int:
        return pc.sum(self.actions.column(name)).as_py() or 0 if self.actions.num_rows else 0

    @property
    def paths(self) -> list[str]:
        """The files' paths in the table's folder, unquoted."""
        if not self.actions.num_rows:
            return []
        return [unquote(path) for path in self.actions.column("path").to_pylist()]

    def one_by_one(self) -> "list[StoredFiles]":
        return [
            replace(self, actions=self.actions.slice(number, 1)) for number in range(self.actions.num_rows)
        ]

    def within(self, *bounds: Within) -> "StoredFiles":
        return replace(self, actions=files_within(self.actions, *bounds))

    def may_have_nulls(self, column: str) -> bool:
        """Whether the log leaves open that a row is null in a column."""
        name = f"null_count.{column}"
        if not self.actions.num_rows:
            return False
        if name not in self.actions.column_names:
            return True
        return bool(pc.any(pc.fill_null(pc.greater(self.actions.column(name), 0), True)).as_py())

    def count_within(self, within: Within) -> int:
        """How many rows lie within the bounds of a column of integers. Files are read only where the log's
        own bounds do not answer it.
        """
        column, least, greatest = within
        files, where = self.within(within), pc.field(column).is_valid()
        where = where if least is None else where & (pc.field(column) >= least)
        where = where if greatest is None else where & (pc.field(column) <= greatest)
        low, high, nulls = (f"{side}.{column}" for side in ("min", "max", "null_count"))
        if not {low, high, nulls} <= set(files.actions.column_names):
            return sum(part.num_rows for part in files.scan([column], where, _BATCH_ROWS))
        is_inside = pc.equal(files.actions.column(nulls), 0)
        if least is not None:
            is_inside = pc.and_(is_inside, pc.greater_equal(files.actions.column(low), least))
        if greatest is not None:
            is_inside = pc.and_(is_inside, pc.less_equal(files.actions.column(high), greatest))
        is_inside = pc.fill_null(is_inside, False)
        inner, others = (
            replace(files, actions=files.actions.filter(mask)) for mask in (is_inside, pc.invert(is_inside))
        )
        return inner.rows + sum(part.num_rows for part in others.scan([column], where, _BATCH_ROWS))

    def have_only(self, column: str, values: pa.Array) -> bool:
        """Whether the log shows that `column` has one of `values` in every row, so that a reader needs no
        filter on it.
        """
        low, high, nulls = (f"{side}.{column}" for side in ("min", "max", "null_count"))
        names = set(self.actions.column_names)
        if f"{_PARTITION}{column}" in names:
            has_only = pc.is_in(self.actions.column(f"{_PARTITION}{column}"), value_set=values)
        elif {low, high, nulls} <= names:
            least, greatest, null_count = (self.actions.column(name) for name in (low, high, nulls))
            has_one = pc.and_(pc.equal(least, greatest), pc.equal(null_count, 0))
            has_only = pc.fill_null(pc.and_(has_one, pc.is_in(least, value_set=values)), False)
        else:
            return False
        return bool(pc.all(has_only, min_count=0).as_py())

    def values_in_log(self, *columns: str, prefixes: Collection[str] = ()) -> dict[str, tuple[Any, ...]]:
        """Path → the values of `columns` in files of one row, as far as the log has all of them whole, for
        integers, texts and whole milliseconds. A long text of a column in `prefixes` may be cut.
        """
        names = [f"{side}.{column}" for column in columns for side in ("min", "max")]
        if not {*names, "num_records"} <= set(self.actions.column_names):
            return {}
        # A text that the log has cut has other bounds above than below.
        names = [f"min.{name[4:]}" if name[4:] in prefixes else name for name in names]
        sides = [self.actions.column(name).to_pylist() for name in names]
        lows, highs = zip(*sides[::2], strict=True), zip(*sides[1::2], strict=True)
        rows = zip(self.paths, self.actions.column("num_records").to_pylist(), lows, highs, strict=True)
        return {
            path: low for path, count, low, high in rows if count == 1 and low == high and None not in low
        }

    def among(self, paths: Iterable[str]) -> "StoredFiles":
        if not self.actions.num_rows:
            return self
        path_set = set(paths)
        is_among = pa.array([path in path_set for path in self.paths])
        return replace(self, actions=self.actions.filter(is_among))

    def read(self, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        with self._naming_damaged_file():
            return self.dataset().to_table(
                columns=list(columns), filter=where, use_threads=self._bytes > FEW_BYTES
            )

    def scan(self, columns: Sequence[str], where: pc.Expression | None, most: int) -> Iterator[pa.Table]:
        """`read` in tables of about `most` rows, none of them empty, so that few rows are held at once."""
        batches: list[pa.RecordBatch] = []
        with self._naming_damaged_file():
            for batch in self.dataset().to_batches(
                columns=list(columns), filter=where, batch_size=min(most, _BATCH_ROWS)
            ):
                if batch.num_rows:
                    batches.append(batch)
                if sum(one.num_rows for one in batches) >= most:
                    yield pa.Table.from_batches(batches)
                    batches = []
        if batches:
            yield pa.Table.from_batches(batches)

    def check_contents(self, most_bytes: int | None = None) -> None:
        """Check the files for a reader that checks nothing: every byte, or only the footers where the files
        have more than `most_bytes` together. Raises DamagedFile: a file was changed, or is not there.
        """
        check = check_contents if most_bytes is None or self._bytes <= most_bytes else check_footer
        with self._naming_damaged_file():
            for file in self._rows_of_log():
                path = unquote(file["path"])
                self._check_size(file, check(self.folder, path))

    def descriptions(self) -> Iterator[tuple[str, int, dict[str, str | None]]]:
        """For each file: (path as in the log, size in bytes, partition column → value as text)."""
        for file in self._rows_of_log():
            values = {name: None if file[name] is None else str(file[name]) for name in self._partitions}
            partition = {name.removeprefix(_PARTITION): value for name, value in values.items()}
            yield file["path"], file["size_bytes"], partition

    @contextmanager
    def _naming_damaged_file(self) -> Iterator[None]:
        paths = self.paths
        try:
            with naming_damaged_file(self.uri, self.folder, paths):
                yield
        except FileNotFoundError as error:
            for path in paths:
                if self.folder.get_file_info(path).type is pafs.FileType.NotFound:
                    raise lost_file(self.uri, path) from error
            raise

    def _rows_of_log(self) -> list[dict[str, Any]]:
        if not self.actions.num_rows:
            return []
        return list(self.actions.select(["path", "size_bytes", *self._partitions]).to_pylist())

    def _check_size(self, file: dict[str, Any], size: int) -> None:
        """Refuse another file in the place of this one, whose own checksums agree."""
        recorded_size = file["size_bytes"]
        if recorded_size is not None and size != recorded_size:
            wrong = f"it has {size:,} bytes, and the table's log says {recorded_size:,}"
            raise damaged_file(self.uri, unquote(file["path"]), wrong)

    @property
    def _partitions(self) -> list[str]:
        return [name for name in self.actions.column_names if name.startswith(_PARTITION)]

    def dataset(self) -> pads.FileSystemDataset:
        kind, is_small = file_format(dictionary_columns=self.dictionary_columns), self._bytes <= FEW_BYTES
        fragments = []
        for file in self._rows_of_log():
            path = unquote(file["path"])
            conditions = [
                _equals(name.removeprefix(_PARTITION), file[name], self.schema) for name in self._partitions
            ]
            partition = reduce(and_, conditions) if conditions else None
            if is_small:  # one request to storage for each file
                content = checked_bytes(self.folder, path)
                self._check_size(file, content.size)
                fragments.append(kind.make_fragment(pa.BufferReader(content), partition_expression=partition))
            else:
                self._check_size(file, check_footer(self.folder, path))
                fragments.append(kind.make_fragment(path, self.folder, partition_expression=partition))
        return pads.FileSystemDataset(fragments, self.read_schema, kind, self.folder)


def _reopen(actions: pa.Table, uri: str, *columns: Any) -> StoredFiles:
    return StoredFiles(actions, uri, filesystem(uri), *columns)


def _equals(name: str, value: Any, schema: pa.Schema) -> pc.Expression:
    if value is None:
        return pc.field(name).is_null()
    return pc.field(name) == pa.scalar(value, schema.field(name).type)


def _may_hold(actions: pa.Table, within: Within) -> pa.Array:
    """For each file, whether it may hold rows within the bounds, as one without statistics may."""
    column, least, greatest = within
    is_partition = f"partition.{column}" in actions.column_names
    low, high = (f"partition.{column}",) * 2 if is_partition else (f"min.{column}", f"max.{column}")
    if low not in actions.column_names or high not in actions.column_names:
        return pa.array([True] * actions.num_rows, pa.bool_())
    lower, upper = actions.column(low), actions.column(high)
    if not is_partition:
        lower, upper = widen_bounds(lower, upper)
    may_hold = pa.array([True] * actions.num_rows, pa.bool_())
    for bound, is_wide_enough, value in ((lower, pc.less_equal, greatest), (upper, pc.greater_equal, least)):
        # NaN, as a limit, is greater than every number for SQL, and compares with nothing for Arrow.
        if value is not None and not (isinstance(value, float) and math.isnan(value)):
            holds = is_wide_enough(bound, pa.scalar(value, bound.type))
            may_hold = pc.and_(may_hold, pc.fill_null(holds, not is_partition))
    return may_hold
