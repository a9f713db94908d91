"""The runs that make up a branch, as rows and as columns.

A ledger of years has 100,000 of them, and most readers ask for the last one, for the ones in a range, or for
one column: a row is made when it is asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables import schemas
from slackwater.tables.ledger.erasures import Remainders
from slackwater.tables.ledger.ledger_files import LedgerFile, rows_at
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs

# The columns of a ledger row that an erasure of its rows revises.
REVISED_COLUMNS = frozenset({"state_hash", "output_hash", "files", "windows_open", "timers_pending"})


def revised_rows(rows: Sequence[LedgerRow], remainders: Remainders) -> list[LedgerRow]:
    """`rows` with the hashes, files and counts of what erasures have left of them."""
    return [revised_row(row, remainders) if row.run_id in remainders.of_runs else row for row in rows]


def revised_row(row: LedgerRow, remainders: Remainders) -> LedgerRow:
    return replace(
        row,
        state_hash=remainders.state_hash(row.run_id, row.state_hash),
        output_hash=remainders.output_hash(row.run_id, row.output_hash),
        files=remainders.files(row.run_id, row.files),
        windows_open=row.windows_open - remainders.rows(row.run_id, "window_state"),
        timers_pending=row.timers_pending - remainders.rows(row.run_id, "timers"),
    )


@dataclass(frozen=True, eq=False)
class LiveRuns(Sequence[LedgerRow]):
    """The run and close rows that make up a branch, in slice order. Equal to a list of the same rows.

    Attributes:
        files: the files of the ledger that hold them.
        places: int64[n]: the place of each among the rows of `files`, counted from file to file.
        remainders: what erasures have left of them.
    """

    files: Sequence[LedgerFile]
    places: Longs
    remainders: Remainders

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> LedgerRow: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> LedgerRow | Self:
        if isinstance(place, slice):
            return self._at(self.places[place])
        if "_rows" in self.__dict__:
            return self._rows[place]
        return revised_rows(rows_at(self.files, self.places[[place]]), self.remainders)[0]

    def __iter__(self) -> Iterator[LedgerRow]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        raise TypeError("live runs are compared by their rows")

    def where(self, is_wanted: Booleans) -> Self:
        return self._at(self.places[is_wanted])

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all of them, n values, but none of `REVISED_COLUMNS`: those are read row by row."""
        assert name not in REVISED_COLUMNS, name
        kind = dict(schemas.RUNS)[name]
        chunks = pa.chunked_array([file.column(name) for file in self.files], kind)
        return chunks.take(pa.array(self.places))

    def ends_after(self, since: datetime) -> Booleans:
        """bool[n]: whether the slice of each ends after `since`."""
        ends = self.column("slice_end")
        is_later: Booleans = pc.greater(ends, pa.scalar(since, ends.type)).to_numpy()
        return is_later

    def times_ms(self, name: str) -> Longs:
        """int64[n]: a column of times, without nulls, in milliseconds."""
        times: Longs = self.column(name).cast(pa.int64()).to_numpy() // 1000
        return times

    @cached_property
    def _rows(self) -> list[LedgerRow]:
        return revised_rows(rows_at(self.files, self.places), self.remainders)

    def _at(self, places: Longs) -> Self:
        return type(self)(self.files, places, self.remainders)


NO_RUNS = LiveRuns((), np.zeros(0, np.int64), Remainders())
