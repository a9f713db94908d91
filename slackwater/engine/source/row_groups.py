"""Source files read a few row groups at a time, so that memory is bounded; and single rows from them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.source.batches import SourceBatch, name_in_files, read_computed, read_stored
from slackwater.engine.source.computed_column_files import ComputedColumnFiles
from slackwater.engine.source.computed_columns import (
    ComputedRows,
    compute,
    explodes,
    is_computed,
    stored_names,
)
from slackwater.engine.source.deletion_vectors import hidden_rows
from slackwater.engine.source.files import ColumnStatistics, InputFile
from slackwater.tables.delta.parquet import damaged_file, open_verified
from slackwater.tables.stores import filesystem
from slackwater.windowing.columnar.arrays.orders import distinct_values
from slackwater.windowing.times import LATEST_MS, floor_to_ms

ROWS_AT_ONCE = 1_000_000  # in a larger batch each row takes longer: its columns outgrow the caches


@dataclass(frozen=True)
class Arrivals:
    """The arrivals that a scan reads: those in [from_ms, to_ms) and in the milliseconds `also`; in files that
    may hold unread rows also earlier ones, rows without an arrival time, and such as no slice can hold."""

    column: str
    from_ms: int
    to_ms: int
    also: tuple[int, ...] = ()

    def may_be_in(self, statistics: ColumnStatistics, unit: str, earlier: bool) -> bool:
        """Whether row groups with these statistics may hold such rows, unread `earlier` ones included."""
        if statistics.bounds is None or (earlier and not statistics.is_complete):
            return True
        least, greatest = (floor_to_ms(bound, unit) for bound in statistics.bounds)
        if earlier and greatest > LATEST_MS:
            return True
        in_slice = least < self.to_ms and (earlier or greatest >= self.from_ms)
        return in_slice or any(least <= ms <= greatest for ms in self.also)


@dataclass(frozen=True)
class SourceFile:
    """One file of a source at `uri` with the columns `schema`."""

    uri: str
    file: InputFile
    schema: pa.Schema

    @cached_property
    def _metadata(self) -> pq.FileMetaData:
        with open_verified(self.uri, filesystem(self.uri), self.file.path) as file:
            metadata = file.metadata
        recorded_rows = self.file.stored_rows
        if recorded_rows is not None and recorded_rows != metadata.num_rows:  # another file under its name
            wrong = f"it has {metadata.num_rows:,} rows, and the source's log says {recorded_rows:,}"
            raise damaged_file(self.uri, self.file.path, wrong)
        return metadata

    @cached_property
    def _sizes(self) -> list[int]:
        """Rows of each row group, without those that the file's deletion vector hides."""
        metadata = self._metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        if self.file.vector is None:
            return sizes
        ends = np.cumsum([0, *sizes])
        hidden = np.searchsorted(hidden_rows(self.uri, self.file.vector), ends)
        return [size - int(count) for size, count in zip(sizes, np.diff(hidden), strict=True)]

    def batches(
        self,
        columns: Sequence[str],
        first: Sequence[str] | None,
        null_checked: Sequence[str] = (),
        rows_at_once: int = ROWS_AT_ONCE,
        arrivals: Arrivals | None = None,
        *,
        column_files: ComputedColumnFiles | None = None,
    ) -> Iterator[SourceBatch]:
        """The file's share in batches of whole row groups, about `rows_at_once` rows each.

        Args:
            first: the columns read of every row; `SourceBatch.full_rows` reads the others. None: all.
            null_checked: columns whose null mask alone is read, and nothing where the file says that they
                hold no null.
            arrivals: row groups that can't hold any of these are left out; None: none is.
            column_files: hold computed columns from one pass over a slice for the next; None: nothing does.
        """
        if explodes(self.schema):  # positions are those of items, so all columns are read at once
            first, null_checked = None, ()
        for groups in self._pieces(self._groups_of_share(self._groups_with_arrivals(arrivals)), rows_at_once):
            complete_columns = {name for name in null_checked if self.statistics(name, groups).is_complete}
            eager = tuple(
                name for name in columns if (first is None or name in first) and name not in complete_columns
            )
            # No variable holds a batch: its caller may be done with it before the next one is read.
            yield self._batch(groups, tuple(columns), eager, column_files)

    def _batch(
        self,
        groups: Sequence[int],
        columns: tuple[str, ...],
        eager: tuple[str, ...],
        column_files: ComputedColumnFiles | None,
    ) -> SourceBatch:
        """The rows of some row groups, with the `eager` ones of their `columns` read."""
        file = self.file
        computed_rows = self._computed_rows(eager, groups, column_files)
        rows_at_hand = computed_rows.rows if computed_rows.stored_rows is None else computed_rows.stored_rows
        full_rows = (
            None
            if len(eager) == len(columns)
            else partial(self.rows, columns, groups, rows_at_hand=rows_at_hand, column_files=column_files)
        )
        keep_rows = (
            partial(column_files.keep_rows, file, groups, rows_at_hand)
            if column_files is not None and column_files.columns
            else None
        )
        return SourceBatch(
            rows=computed_rows.rows,
            failures=computed_rows.failures,
            item_numbers=computed_rows.item_numbers,
            path=file.path,
            may_hold_unread=file.may_hold_unread,
            read_to_ms=file.read_to_ms,
            is_part=file.is_part,
            read_full_rows=full_rows,
            keep_rows=keep_rows,
            statistics=partial(self.statistics, groups=groups),
        )

    def _computed_rows(
        self, columns: Sequence[str], groups: Sequence[int], column_files: ComputedColumnFiles | None
    ) -> ComputedRows:
        """`columns` of some row groups, the computed ones from `column_files` if they have them."""
        read = partial(
            read_computed, self.uri, self.file, self.schema, row_groups=groups, metadata=self._metadata
        )
        if column_files is None or not column_files.columns:
            return read(columns)
        columns_in_file = column_files.read(self.file, groups)
        if columns_in_file is None:
            computed_rows = read(tuple(dict.fromkeys((*columns, *column_files.columns))))
            column_files.write(self.file, groups, computed_rows)
            return replace(computed_rows, rows=computed_rows.rows.select(columns))
        other_rows = read(tuple(name for name in columns if name not in column_files.columns))
        tables = [columns_in_file.rows, other_rows.rows]
        arrays = {name: table.column(name) for table in tables for name in table.column_names}
        return ComputedRows(
            rows=pa.table({name: arrays[name] for name in columns}),
            failures=(*columns_in_file.failures, *other_rows.failures),
            stored_rows=other_rows.rows if other_rows.stored_rows is None else other_rows.stored_rows,
        )

    def statistics(self, name: str, groups: Sequence[int]) -> ColumnStatistics:
        """The footer's statistics of a column over these row groups; none of partition and computed ones."""
        column = self.schema.field(name)
        is_stored = name not in dict(self.file.partition) and not is_computed(column)
        place = self._places.get(name_in_files(column)) if is_stored else None
        chunks = (
            []
            if place is None
            else [self._metadata.row_group(group).column(place).statistics for group in groups]
        )
        if not chunks or any(chunk is None for chunk in chunks):
            return ColumnStatistics(False, None)
        is_complete = all(chunk.has_null_count and chunk.null_count == 0 for chunk in chunks)
        if not self._has_same_unit(name) or not all(chunk.has_min_max for chunk in chunks):
            return ColumnStatistics(is_complete, None)
        return ColumnStatistics(
            is_complete, (min(chunk.min_raw for chunk in chunks), max(chunk.max_raw for chunk in chunks))
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        return {
            self._metadata.schema.column(number).path: number for number in range(self._metadata.num_columns)
        }

    @cached_property
    def _file_schema(self) -> pa.Schema:
        return self._metadata.schema.to_arrow_schema()

    def _has_same_unit(self, name: str) -> bool:
        """Whether a column's times have the same unit in the file and in a batch, so that its bounds do."""
        column = self.schema.field(name)
        kind_in_file, kind_as_read = self._file_schema.field(name_in_files(column)).type, column.type
        return (
            pa.types.is_timestamp(kind_in_file)
            and pa.types.is_timestamp(kind_as_read)
            and kind_in_file.unit == kind_as_read.unit
        )

    def _groups_with_arrivals(self, arrivals: Arrivals | None) -> list[int]:
        groups = [number for number, size in enumerate(self._sizes) if size]
        if arrivals is None:
            return groups
        unit, earlier = self.schema.field(arrivals.column).type.unit, self.file.may_hold_unread
        return [
            group
            for group in groups
            if arrivals.may_be_in(self.statistics(arrivals.column, [group]), unit, earlier)
        ]

    def _groups_of_share(self, groups: list[int]) -> list[int]:
        """The row groups of the file's share: each belongs to the share in which its middle row lies."""
        number, count = self.file.share
        ends = list(itertools.accumulate(self._sizes[group] for group in groups))
        middles = (2 * end - self._sizes[group] for group, end in zip(groups, ends, strict=True))
        return [
            group
            for group, middle in zip(groups, middles, strict=True)
            if middle * count // (2 * ends[-1]) == number
        ]

    def _pieces(self, groups: list[int], rows_at_once: int) -> Iterator[list[int]]:
        piece: list[int] = []
        rows_in_piece = 0
        for group in groups:
            size = self._sizes[group]
            if piece and rows_in_piece + size > rows_at_once:
                yield piece
                piece, rows_in_piece = [], 0
            piece.append(group)
            rows_in_piece += size
        if piece:
            yield piece

    def rows(
        self,
        columns: Sequence[str],
        groups: Sequence[int],
        positions: npt.NDArray[np.int64],
        rows_at_hand: pa.Table | None = None,
        column_files: ComputedColumnFiles | None = None,
    ) -> pa.Table:
        """`columns` of the rows at ascending `positions`, counted from the first of `groups`. Stored columns
        that `rows_at_hand`, all rows of these groups, have are not read again, nor those that `column_files`
        keep of these rows.
        """
        names = stored_names(self.schema, columns)
        stored_columns: dict[str, pa.ChunkedArray] = {}
        if rows_at_hand is not None:
            table = rows_at_hand.select([name for name in names if name in rows_at_hand.column_names])
            stored_columns |= _columns_by_name(table.take(pa.array(positions)))
        if column_files is not None and not stored_columns.keys() >= set(names):
            kept_rows = column_files.kept_rows(self.file, groups, positions)
            stored_columns |= {} if kept_rows is None else _columns_by_name(kept_rows)
        if other_names := [name for name in names if name not in stored_columns]:
            stored_columns |= _columns_by_name(self._stored_rows(other_names, groups, positions))
        return compute(self.schema, columns, pa.table(stored_columns)).rows

    def _stored_rows(
        self, columns: Sequence[str], groups: Sequence[int], positions: npt.NDArray[np.int64]
    ) -> pa.Table:
        ends = np.cumsum([self._sizes[number] for number in groups])
        owners = np.searchsorted(ends, positions, side="right")
        read_positions = distinct_values(owners)
        sizes = np.array([self._sizes[groups[owner]] for owner in read_positions], np.int64)
        shifts = np.cumsum(sizes) - sizes  # where each of them begins in the table that is read
        stored_rows = read_stored(
            self.uri,
            self.file,
            self.schema,
            columns,
            row_groups=[groups[owner] for owner in read_positions],
            metadata=self._metadata,
        )
        begins = ends[read_positions] - sizes
        place = np.searchsorted(read_positions, owners)
        return stored_rows.take(pa.array(positions - begins[place] + shifts[place]))


def _columns_by_name(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(rows.column_names, rows.columns, strict=True))
