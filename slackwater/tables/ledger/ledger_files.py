"""The files of a ledger, rows that read of them what is asked for, and the runs that make up a branch.

A process reads each column of a file once: a file that a log names never changes, and one that somebody has
changed all the same is recognised by size and time. Of a large file only the columns are read that somebody
asks for. A ledger of many runs is a few large files, which upkeep has made, and the small ones of the commits
since then. A branch of years has 100,000 runs, and most readers ask for the last one, for the ones in a
range, or for one column: a row is made when it is asked for.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables import schemas
from slackwater.tables.delta.parquet import read_small_file
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.ledger.erasures import Remainders
from slackwater.tables.ledger.rows import EARLIER_VERSIONS, LedgerRow, refuse_other_formats
from slackwater.tables.ledger.spans import Span
from slackwater.tables.stores import is_local, map_concurrently
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.times import EPOCH

# A year of daily runs is 365 files, of one row each, where nobody makes one of them.
_MOST_FILES = 20_000
# A smaller file is read as a whole, by one request to storage.
_SMALL_BYTES = 256 << 10
# So many values of a column are converted one by one, then all of them at once.
_SINGLE_VALUES = 64
_LIVE = "live"
# What is asked of each row by whoever goes through many.
_COLUMNS_OF_LOOPS = ("seq", "run_id", "kind", "branch", "slice_start", "slice_end")


class _Identity(NamedTuple):
    """What distinguishes a file from others; in an object store, where no name is used twice, its name."""

    uri: str
    path: str
    size: int | None
    mtime_ns: int | None


class LedgerFile:
    """One file of a ledger, the only one of `files`. Its columns are read when asked for, and kept."""

    def __init__(self, files: StoredFiles) -> None:
        # Not the statistics of all files of the table, which a part of the actions would hold in memory.
        [action] = files.actions.select(["path", "size_bytes"]).to_pylist()
        self._file = replace(files, actions=pa.table({name: [value] for name, value in action.items()}))
        self._columns: dict[str, pa.Array] = {}
        self._values: dict[str, list[Any]] = {}
        self._values_converted: Counter[str] = Counter()
        self._rows: dict[int, LedgerRow] = {}
        if action["size_bytes"] <= _SMALL_BYTES:
            self._keep(_table_of(self._file))
        self._refuse_other_formats()

    def __len__(self) -> int:
        return len(self.column("seq"))

    def column(self, name: str) -> pa.Array:
        """A column of all rows of the file. Raises DamagedFile: the file is not what was written, or is not
        there.
        """
        column = self._columns.get(name)
        if column is not None:
            return column
        if name in self._values:
            return pa.array(self._values[name], self._file.schema.field(name).type)
        if name not in self._file.schema.names:  # the table has not got it from a later version yet
            return pa.nulls(len(self), dict(schemas.RUNS)[name])
        self._keep(self._file.read([name]))
        return self.column(name)

    def value(self, name: str, place: int) -> Any:
        values = self._values.get(name)
        if values is not None:
            return values[place]
        column = self.column(name)
        if name == _LIVE:  # it may have more spans than the file has rows: of a row that nobody asks for none
            return _spans(column[place])
        self._values_converted[name] += 1
        if self._values_converted[name] <= _SINGLE_VALUES:
            return column[place].as_py()
        return self._all_values(name)[place]

    def last_live_seq(self, place: int) -> int | None:
        if _LIVE in self._values:
            spans = self._values[_LIVE][place]
            return spans[-1]["last_seq"] if spans else None
        live = self.column(_LIVE)[place].values
        return None if live is None or not len(live) else live[-1]["last_seq"].as_py()

    def rows(self, places: Sequence[int]) -> list[LedgerRow]:
        new_places = [place for place in places if place not in self._rows]
        if new_places:
            rows = LedgerRow.all_stored(self, new_places)
            if len(rows) > _SINGLE_VALUES:
                for name in _COLUMNS_OF_LOOPS:
                    values = self._all_values(name)
                    LedgerRow.fill(rows, name, [values[place] for place in new_places])
            self._rows.update(zip(new_places, rows, strict=True))
        return [self._rows[place] for place in places]

    def _all_values(self, name: str) -> list[Any]:
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = plain_values(self.column(name))
        return values

    def _keep(self, columns: pa.Table) -> None:
        """Keep columns of all rows: of one row as plain values, which take a fraction of the memory; but not
        thousands of spans.
        """
        if columns.num_rows == 1:
            small_names = [name for name in columns.column_names if not _has_many_spans(columns, name)]
            self._values.update(columns.select(small_names).to_pydict())
            columns = columns.drop_columns(small_names)
        for name in columns.column_names:
            chunks = columns.column(name).combine_chunks()
            self._columns[name] = (
                pa.concat_arrays(chunks.chunks) if isinstance(chunks, pa.ChunkedArray) else chunks
            )

    def _refuse_other_formats(self) -> None:
        is_newer = pc.greater(self.column("format_version"), schemas.FORMAT_VERSION)
        is_earlier = pc.starts_with(self.column("version"), EARLIER_VERSIONS)
        place = pc.index(pc.fill_null(pc.or_kleene(is_newer, is_earlier), False), True).as_py()
        if place >= 0:
            names = ("seq", "run_id", "format_version", "version")
            refuse_other_formats({name: self.value(name, place) for name in names})


Condition = Callable[[LedgerFile], pa.Array]
"""Says of each row of a file whether it is asked for: Booleans or nulls, one a row."""

_FILES: dict[_Identity, LedgerFile] = {}


def ledger_files(files: StoredFiles) -> list[LedgerFile]:
    """The files, in the order of the log.

    Raises:
        DamagedFile: a file is not what was written, or is not there.
        NewerFormat, EarlierFormat: another version of the product wrote a row.
    """
    identities = _identities(files)
    opened_files = {identity: file for identity in identities if (file := _FILES.get(identity)) is not None}
    places = [place for place, identity in enumerate(identities) if identity not in opened_files]
    if places:
        new_files = [replace(files, actions=files.actions.slice(place, 1)) for place in places]
        loaded_files = (
            map_concurrently(LedgerFile, new_files) if len(places) > 1 else map(LedgerFile, new_files)
        )
        newly_opened = dict(zip((identities[place] for place in places), loaded_files, strict=True))
        if len(_FILES) + len(newly_opened) > _MOST_FILES:
            _FILES.clear()
        _FILES.update(newly_opened)
        opened_files |= newly_opened
    return [opened_files[identity] for identity in identities]


def rows_of_files(files: StoredFiles, condition: Condition | None = None) -> list[LedgerRow]:
    """The rows of the files for which `condition` holds, by default all, in the order of their seqs. Raises
    DamagedFile, NewerFormat: see `ledger_files`.
    """
    rows: list[LedgerRow] = []
    for file in ledger_files(files):
        places = range(len(file)) if condition is None else _places(condition(file))
        rows += file.rows(places)
    return sorted(rows, key=attrgetter("seq"))


def rows_at(files: Sequence[LedgerFile], places: Longs) -> list[LedgerRow]:
    ends = np.cumsum([len(file) for file in files])
    numbers = np.searchsorted(ends, places, side="right")
    order = np.argsort(numbers, kind="stable")
    rows: list[LedgerRow] = []
    for number in np.unique(numbers).tolist():
        file = files[number]
        rows += file.rows((places[numbers == number] - (ends[number] - len(file))).tolist())
    place_of_row = np.empty(len(places), np.int64)
    place_of_row[order] = np.arange(len(places))
    return [rows[place] for place in place_of_row.tolist()]


def columns_of_files(files: StoredFiles, names: Sequence[str]) -> pa.Table:
    """Columns of all rows of the files, in the order of the files. Raises DamagedFile, NewerFormat: see
    `ledger_files`.
    """
    schema = pa.schema([files.schema.field(name) for name in names])
    tables = [pa.table([file.column(name) for name in names], schema) for file in ledger_files(files)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column. Times are converted here, in a fifth of the time that Arrow takes for it."""
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    microseconds = column.cast(pa.int64()).to_pylist()
    return [None if time is None else EPOCH + timedelta(microseconds=time) for time in microseconds]


def _places(is_asked_for: pa.Array) -> list[int]:
    places: list[int] = np.flatnonzero(pc.fill_null(is_asked_for, False)).tolist()
    return places


def _has_many_spans(row: pa.Table, name: str) -> bool:
    return name == _LIVE and (pc.max(pc.list_value_length(row.column(name))).as_py() or 0) > _SINGLE_VALUES


def _spans(live: pa.ListScalar) -> list[Span]:
    if not live.is_valid or not len(live.values):
        return []
    return list(map(Span, *(side.to_pylist() for side in live.values.flatten())))


def _identities(files: StoredFiles) -> list[_Identity]:
    if not is_local(files.uri):
        return [_Identity(files.uri, path, None, None) for path in files.paths]
    infos = files.folder.get_file_info(files.paths)
    return [
        _Identity(files.uri, path, info.size, info.mtime_ns)
        for path, info in zip(files.paths, infos, strict=True)
    ]


def _table_of(file: StoredFiles) -> pa.Table:
    [path] = file.paths
    try:
        rows = read_small_file(file.uri, file.folder, path)
    except FileNotFoundError:
        rows = None
    if rows is None or (rows.schema.names, rows.schema.types) != (file.schema.names, file.schema.types):
        # It was written otherwise, or is missing, which this says as it should be said.
        return file.read(file.schema.names)
    return rows


# The columns of a ledger row that an erasure of its rows revises.
REVISED_COLUMNS = frozenset({"state_hash", "output_hash", "files", "windows_open", "timers_pending"})


def revised_rows(rows: Sequence[LedgerRow], remainders: Remainders) -> list[LedgerRow]:
    """`rows` with the hashes, files and counts of what erasures have left of them."""
    return [revised_row(row, remainders) if row.run_id in remainders.rows_by_run else row for row in rows]


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
