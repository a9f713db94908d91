"""Between which arrivals the rows of a file lie, where the log does not say: by the day of its partition, the
pipeline's record, the file's footer, or its column of arrivals, which is then read once.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.source.computed_columns import is_computed
from slackwater.engine.source.file_list import TIME, bounds_of_chunks
from slackwater.engine.source.file_record import (
    FileRecord,
    RecordedBounds,
    RecordedFile,
    text_of_partition,
)
from slackwater.engine.source.files import NOWHERE, Bounds, InputFile, within_slices
from slackwater.engine.source.row_groups import SourceFile
from slackwater.tables.delta.parquet import open_verified
from slackwater.tables.stores import filesystem, map_concurrently
from slackwater.windowing.times import to_ms

# Delta computes such a column whenever a row is written, and refuses another value.
_DAY_OF_COLUMN = re.compile(r"(?:cast\(`?(\w+)`? as date\)|(?:to_)?date\(`?(\w+)`?\))", re.IGNORECASE)
_DAY_MS = 86_400_000
# The writer's time zone decides which day it is.
_OTHER_ZONES_MS = _DAY_MS


@dataclass(frozen=True)
class StoredArrivals:
    """The arrivals in files of a source; `column` is the name of the arrival in files. `has_readable_files`:
    whether the files can be read without Spark.
    """

    uri: str
    schema: pa.Schema
    arrival: str
    column: str
    record: FileRecord | None
    has_readable_files: bool

    def with_missing_bounds(
        self, files: Iterable[tuple[InputFile, Bounds | None]]
    ) -> list[tuple[InputFile, Bounds | None]]:
        """The files with bounds of those arrivals that slices may hold, also where the log has none."""
        return list(
            map_concurrently(
                lambda item: item if item[1] is not None else within_slices(*self.with_bounds(item[0])),
                files,
            )
        )

    def with_bounds(self, file: InputFile) -> tuple[InputFile, Bounds | None]:
        """A file with the bounds of its arrivals; None where it is gone, or is to be read for them and Spark
        alone can read it: then it may hold any rows.
        """
        partition = dict(file.partition)
        if self._day_column in partition:
            return _with_arrivals_of_day(file, partition[self._day_column])
        bounds = None if self.record is None else self.record.bounds_of(file.path, self.column)
        if bounds is None:
            if not self.has_readable_files:
                return replace(file, may_hold_unread=True), None
            try:
                bounds = (
                    _computed_bounds(self.uri, _without_vector(file), self.schema, self.arrival, self.column)
                    if is_computed(self.schema.field(self.arrival))
                    else _bounds_in_file(self.uri, file.path, self.column)
                )
            except FileNotFoundError:
                return file, None
        extent = (
            NOWHERE if bounds.least is None or bounds.greatest is None else (bounds.least, bounds.greatest)
        )
        return replace(file, may_hold_unread=not bounds.is_complete), extent

    @cached_property
    def _day_column(self) -> str | None:
        """The column that Delta computes as the day of the arrival; None where there is none."""
        for column in self.schema:
            expression = (column.metadata or {}).get(b"delta.generationExpression", b"").decode()
            match = _DAY_OF_COLUMN.fullmatch(expression.strip())
            is_day = match is not None and self.arrival in match.groups()
            if is_day and pa.types.is_date(column.type):
                return str(column.name)
        return None


def _with_arrivals_of_day(file: InputFile, day: date | None) -> tuple[InputFile, Bounds]:
    """A file, with bounds of its arrivals. They are of `day` in some time zone; None: it has none."""
    if day is None:
        return replace(file, may_hold_unread=True), NOWHERE
    midnight_ms = to_ms(datetime(day.year, day.month, day.day, tzinfo=UTC))
    first_ms, end_ms = midnight_ms - _OTHER_ZONES_MS, midnight_ms + _DAY_MS + _OTHER_ZONES_MS
    return replace(file, may_hold_unread=False), (first_ms * 1000, end_ms * 1000 - 1)


def recorded_files(files: Iterable[tuple[InputFile, Bounds | None]], column: str) -> list[RecordedFile]:
    """What is recorded of files with the bounds of their arrivals, which are in `column`."""
    return [
        RecordedFile(
            path=file.path,
            vector=None if file.vector is None else file.vector.to_json(),
            rows=file.stored_rows,
            bytes=file.bytes,
            partition=text_of_partition(file.partition),
            bounds=json.dumps({} if bounds is None else {column: _bounds_to_record(file, bounds)}),
        )
        for file, bounds in files
    ]


def _bounds_to_record(file: InputFile, bounds: Bounds) -> RecordedBounds:
    least, greatest = (None, None) if bounds == NOWHERE else bounds
    return RecordedBounds(least, greatest, not file.may_hold_unread)


def _without_vector(file: InputFile) -> InputFile:
    """The Parquet file alone, so that what is known of it holds for each vector and share of it."""
    return InputFile(file.path, file.partition, file.stored_rows, file.bytes, may_hold_unread=False)


@lru_cache(maxsize=1 << 16)
def _computed_bounds(
    uri: str, file: InputFile, schema: pa.Schema, arrival: str, description: str
) -> RecordedBounds:
    """The bounds of an arrival that is computed, of all rows of a file, which is read for it. Equal schemas
    may compute it otherwise, as its `description` says.
    """
    least, greatest, nulls = list[int](), list[int](), 0
    for batch in SourceFile(uri, file, schema).batches([arrival], None):
        times = batch.rows.column(arrival)
        nulls += times.null_count
        if times.null_count < len(times):
            extremes = pc.min_max(times.cast(TIME, safe=False).cast(pa.int64())).as_py()
            least.append(extremes["min"])
            greatest.append(extremes["max"])
    return RecordedBounds(min(least, default=None), max(greatest, default=None), nulls == 0)


@lru_cache(maxsize=1 << 16)  # a file of a Delta table never changes
def _bounds_in_file(uri: str, path: str, column: str) -> RecordedBounds:
    with open_verified(uri, filesystem(uri), path, coerce_int96_timestamp_unit="us") as parquet:
        metadata, schema = parquet.metadata, parquet.schema_arrow
        if column not in schema.names:  # it was added to the table after the file was written
            return RecordedBounds(None, None, False)
        place = next(
            number for number in range(metadata.num_columns) if metadata.schema.column(number).path == column
        )
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        chunks = [group.column(place).statistics for group in groups if group.num_rows]
        least, greatest, nulls = bounds_of_chunks(chunks, schema.field(column).type)
        if least is None and nulls != metadata.num_rows:
            times = parquet.read([column], use_threads=False).column(column).cast(TIME, safe=False)
            extremes, nulls = pc.min_max(times.cast(pa.int64())).as_py(), times.null_count
            least, greatest = extremes["min"], extremes["max"]
    return RecordedBounds(least, greatest, nulls == 0)
