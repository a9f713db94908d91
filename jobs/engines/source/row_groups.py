"""Files of the source piece by piece: a few row groups at once, so that a task's memory does not grow with
the file, and of single rows only the row groups that hold them.

Which files there are, and what a row means, is decided elsewhere.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.jobs.engines.source.batches import SourceBatch, read
from slackwater.jobs.engines.source.files import ColumnStatistics, InputFile
from slackwater.jobs.tables.delta.parquet import open_verified
from slackwater.jobs.tables.delta.written_files import filesystem
from slackwater.windowing.times import floor_to_ms

ROWS_AT_ONCE = (
    1_000_000  # a larger batch takes longer for each row: its columns do not stay near the processor
)


@dataclass(frozen=True)
class Arrivals:
    """The arrivals that are wanted: those in [from_ms, to_ms), and in the milliseconds `also`; of files that
    may hold unread rows also earlier ones, and rows without one."""

    column: str
    from_ms: int
    to_ms: int
    also: tuple[int, ...] = ()

    def may_be_in(self, statistics: ColumnStatistics, unit: str, earlier: bool) -> bool:
        """Whether rows of which the file says this may be wanted; `earlier`: whether they may be unread
        ones.
        """
        if statistics.bounds is None or (earlier and not statistics.is_complete):
            return True
        least, greatest = (floor_to_ms(bound, unit) for bound in statistics.bounds)
        in_slice = least < self.to_ms and (earlier or greatest >= self.from_ms)
        return in_slice or any(least <= ms <= greatest for ms in self.also)


@dataclass(frozen=True)
class SourceFile:
    """One file of a source at `uri` whose columns are those of `schema`."""

    uri: str
    file: InputFile
    schema: pa.Schema

    @cached_property
    def _metadata(self) -> pq.FileMetaData:
        with open_verified(self.uri, filesystem(self.uri), self.file.path) as file:
            return file.metadata

    @cached_property
    def _sizes(self) -> list[int]:
        """Rows of each row group."""
        return [self._metadata.row_group(number).num_rows for number in range(self._metadata.num_row_groups)]

    def batches(
        self,
        columns: Sequence[str],
        first: Sequence[str] | None,
        may_lack: Sequence[str] = (),
        rows_at_once: int = ROWS_AT_ONCE,
        arrivals: Arrivals | None = None,
    ) -> Iterator[SourceBatch]:
        """The file's share in pieces of whole row groups, about `rows_at_once` rows each, of those that may
        hold `arrivals` (None: all). Of every row the columns `first` are read (None: all); the rest of
        `columns` when they are asked for. Those in `may_lack` are not, where the file says that they hold no
        null."""
        file = self.file
        for groups in self._pieces(self._shared(self._wanted(arrivals)), rows_at_once):
            statistics = _Statistics(self, groups)
            lacked = {name for name in may_lack if statistics(name).is_complete}
            eager = tuple(name for name in columns if (first is None or name in first) and name not in lacked)
            rows = read(self.uri, file, self.schema, eager, groups, self._metadata)
            whole_rows = None if len(eager) == len(columns) else _WholeRows(self, tuple(columns), groups)
            yield SourceBatch(rows, file.path, file.may_hold_unread, file.read_to_ms, whole_rows, statistics)

    def statistics(self, name: str, groups: Sequence[int]) -> ColumnStatistics:
        """What the footer says of a column in these row groups; nothing of partition columns, whose values
        stand in the log.
        """
        place = None if name in dict(self.file.partition) else self._places.get(name)
        chunks = (
            []
            if place is None
            else [self._metadata.row_group(group).column(place).statistics for group in groups]
        )
        if not chunks or any(chunk is None for chunk in chunks):
            return ColumnStatistics(False, None)
        is_complete = all(chunk.has_null_count and chunk.null_count == 0 for chunk in chunks)
        if not self._is_stored_as_read(name) or not all(chunk.has_min_max for chunk in chunks):
            return ColumnStatistics(is_complete, None)
        return ColumnStatistics(
            is_complete, (min(chunk.min_raw for chunk in chunks), max(chunk.max_raw for chunk in chunks))
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where in a row group each column is."""
        return {
            self._metadata.schema.column(number).path: number for number in range(self._metadata.num_columns)
        }

    @cached_property
    def _stored(self) -> pa.Schema:
        return self._metadata.schema.to_arrow_schema()

    def _is_stored_as_read(self, name: str) -> bool:
        """Whether a column's bounds are integers that mean in the file what they do in a batch."""
        stored, read_as = self._stored.field(name).type, self.schema.field(name).type
        return (
            pa.types.is_timestamp(stored) and pa.types.is_timestamp(read_as) and stored.unit == read_as.unit
        )

    def _wanted(self, arrivals: Arrivals | None) -> list[int]:
        """The row groups that may hold such rows."""
        groups = [number for number, size in enumerate(self._sizes) if size]
        if arrivals is None:
            return groups
        unit, earlier = self.schema.field(arrivals.column).type.unit, self.file.may_hold_unread
        return [
            group
            for group in groups
            if arrivals.may_be_in(self.statistics(arrivals.column, [group]), unit, earlier)
        ]

    def _shared(self, groups: list[int]) -> list[int]:
        """Of row groups those of the file's share: each is of the one in which its middle row lies."""
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
        self, columns: Sequence[str], groups: Sequence[int], positions: npt.NDArray[np.int64]
    ) -> pa.Table:
        """`columns` of the rows at ascending `positions`, counted from the first of `groups`."""
        ends = np.cumsum([self._sizes[number] for number in groups])
        owners = np.searchsorted(ends, positions, side="right")
        used = np.unique(owners)
        sizes = np.array([self._sizes[groups[owner]] for owner in used], np.int64)
        shifts = np.cumsum(sizes) - sizes  # where each used row group begins in what is read
        table = read(
            self.uri, self.file, self.schema, columns, [groups[owner] for owner in used], self._metadata
        )
        begins = ends[used] - sizes
        place = np.searchsorted(used, owners)
        return table.take(pa.array(positions - begins[place] + shifts[place]))


@dataclass(frozen=True)
class _Statistics:
    """Statistics of the columns of one batch."""

    file: SourceFile
    groups: list[int]

    def __call__(self, name: str) -> ColumnStatistics:
        return self.file.statistics(name, self.groups)


@dataclass(frozen=True)
class _WholeRows:
    """Reads whole rows of one batch."""

    file: SourceFile
    columns: tuple[str, ...]
    groups: list[int]

    def __call__(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        return self.file.rows(self.columns, self.groups, positions)
