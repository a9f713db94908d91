"""Files of the source piece by piece: a few row groups at once, so that a task's memory does not grow with the file, and of single rows
only the row groups that hold them.

Which files there are, and what a row means, is decided elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.engines.inputs import InputFile, SourceBatch, read
from jobs.tables.delta import filesystem

ROWS_AT_ONCE = 1_000_000  # a larger batch takes longer for each row: its columns do not stay near the processor


@dataclass(frozen=True)
class SourceFile:
    """One file of a source at `uri` whose columns are those of `schema`."""

    uri: str
    file: InputFile
    schema: pa.Schema

    @cached_property
    def _sizes(self) -> list[int]:
        """Rows of each row group."""
        with filesystem(self.uri).open_input_file(self.file.path) as data:
            metadata = pq.read_metadata(data)
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def batches(self, columns: Sequence[str], first: Sequence[str] | None, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[SourceBatch]:
        """The file in pieces of whole row groups, about `rows_at_once` rows each. Of every row the columns `first` are read (None: all);
        the rest of `columns` when they are asked for."""
        file = self.file
        eager = tuple(columns) if first is None else tuple(name for name in columns if name in first)
        for groups in self._pieces(rows_at_once):
            rows = read(self.uri, file, self.schema, eager, groups)
            is_whole = len(eager) == len(columns)
            rest = None if is_whole else _WholeRows(self, tuple(columns), groups)
            yield SourceBatch(rows, file.path, file.may_hold_unread, file.read_to_ms, rest)

    def _pieces(self, rows_at_once: int) -> Iterator[list[int] | None]:
        if self.file.rows is not None and self.file.rows <= rows_at_once:
            yield None
            return
        piece: list[int] = []
        held = 0
        for number, size in enumerate(self._sizes):
            if piece and held + size > rows_at_once:
                yield piece
                piece, held = [], 0
            piece.append(number)
            held += size
        yield piece

    def rows(self, columns: Sequence[str], groups: Sequence[int] | None, positions: npt.NDArray[np.int64]) -> pa.Table:
        """`columns` of the rows at ascending `positions`, counted from the first of `groups`."""
        numbers = list(range(len(self._sizes))) if groups is None else list(groups)
        ends = np.cumsum([self._sizes[number] for number in numbers])
        owners = np.searchsorted(ends, positions, side="right")
        used = np.unique(owners)
        sizes = np.array([self._sizes[numbers[owner]] for owner in used], np.int64)
        shifts = np.cumsum(sizes) - sizes  # where each used row group begins in what is read
        table = read(self.uri, self.file, self.schema, columns, [numbers[owner] for owner in used])
        begins = ends[used] - sizes
        place = np.searchsorted(used, owners)
        return table.take(pa.array(positions - begins[place] + shifts[place]))


@dataclass(frozen=True)
class _WholeRows:
    """Reads whole rows of one batch."""

    file: SourceFile
    columns: tuple[str, ...]
    groups: list[int] | None

    def __call__(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        return self.file.rows(self.columns, self.groups, positions)
