"""The head of a source: rows of its newest file and of others spread evenly over it, few enough for memory
and for somebody who waits. Knows formats of files, and no roles of columns.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.orc as orc

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.file_list import columns_as_stored
from slackwater.engine.source.files import NOWHERE, InputFile, files_with_bounds
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import pin
from slackwater.errors import UsageError
from slackwater.inspection.sources.source_kinds import DataFile, SourceFormat, SourcePlace, iceberg_columns
from slackwater.pipelines.sources import DeltaSource
from slackwater.tables.delta.parquet import open_verified
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

MOST_ROWS = 200_000
_MOST_FILES = 8
# A text file is read to here; rows of text take the most time.
_TEXT_BYTES = 4 << 20
_TIME_OF_FILE, _ROWS = "modification_time", "num_records"


@dataclass(frozen=True, kw_only=True)
class SourceHead:
    """A sample of a source's rows.

    Attributes:
        rows: the sample, file after file, oldest first.
        columns: name and type of each column as its format has them, also where no row can be read.
        written_ms: for each row when its file was written.
        total_rows: how many rows there are; None: nothing says.
        first_written_ms: when the oldest file was written; None: there is none.
        why_no_rows: why there is no sample.
        delta_source: the Delta table, for what its log says.
    """

    rows: pa.Table
    columns: Sequence[tuple[str, str]]
    written_ms: npt.NDArray[np.int64]
    files_read: int
    total_files: int
    total_rows: int | None
    total_bytes: int
    first_written_ms: int | None
    why_no_rows: str | None = None
    delta_source: PinnedSource | None = None

    def least_ms(self, column: str) -> int | None:
        """The least time in a column of all rows, by the log; None: it does not say."""
        source = self.delta_source
        if source is None:
            return None
        bounds = [bound for _, bound in files_with_bounds(source.actions, source.name_in_log(column))]
        least_times = [bound[0] // 1000 for bound in bounds if bound is not None and bound != NOWHERE]
        return min(least_times) if least_times and None not in bounds else None


def head_of(place: SourcePlace, most_rows: int = MOST_ROWS) -> SourceHead:
    """The head of what is at `place`. Raises DamagedFile, UsageError: a file can't be read."""
    match place.format:
        case SourceFormat.DELTA:
            return _head_of_delta(place, most_rows)
        case SourceFormat.PARQUET | SourceFormat.ICEBERG | SourceFormat.HUDI:
            return _head_of_parquet(place, most_rows)
        case SourceFormat.AVRO:
            return _head(place, [], None, "Avro files can't be read here")
    chosen_files = spread(place.files)
    share = most_rows // len(chosen_files)
    with reads(place.uri):
        heads = [(file, *_rows_of_file(place, file, share)) for file in chosen_files]
    is_complete = len(heads) == len(place.files) and all(is_whole for _, _, is_whole in heads)
    count = sum(len(table) for _, table, _ in heads) if is_complete else None
    return _head(place, [(file, table) for file, table, _ in heads], count)


def spread(files: Sequence[DataFile]) -> list[DataFile]:
    """At most eight of `files`, spread evenly, the first and the last among them."""
    places = np.unique(np.linspace(0, len(files) - 1, min(_MOST_FILES, len(files))).round().astype(int))
    return [files[place] for place in places]


def _head(
    place: SourcePlace,
    tables: Sequence[tuple[DataFile, pa.Table]],
    total_rows: int | None,
    why_no_rows: str | None = None,
) -> SourceHead:
    rows = _one_table([table for _, table in tables])
    return SourceHead(
        rows=rows,
        columns=[(field.name, str(field.type)) for field in rows.schema],
        written_ms=_written_ms(tables),
        files_read=len(tables),
        total_files=len(place.files),
        total_rows=total_rows,
        total_bytes=sum(file.bytes for file in place.files),
        first_written_ms=place.files[0].modified_ms if place.files else None,
        why_no_rows=why_no_rows,
    )


def _written_ms(tables: Sequence[tuple[DataFile, pa.Table]]) -> npt.NDArray[np.int64]:
    return np.repeat(
        np.array([file.modified_ms for file, _ in tables], np.int64), [len(table) for _, table in tables]
    )


def _one_table(tables: Sequence[pa.Table]) -> pa.Table:
    if not tables:
        return pa.table({})
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # Columns whose types nothing holds are left out, as a folder of Parquet files does.
        kinds: dict[str, set[pa.DataType]] = {}
        for table in tables:
            for field in table.schema:
                kinds.setdefault(field.name, set()).add(field.type)
        names = [name for name, types in kinds.items() if len(types) == 1]
        return pa.concat_tables(
            [table.select([name for name in names if name in table.column_names]) for table in tables],
            promote_options="default",
        )


def _head_of_delta(place: SourcePlace, most_rows: int) -> SourceHead:
    # The roles of a declaration are not asked for where nothing but its place matters.
    source: PinnedSource = pin(
        DeltaSource(place.uri, event_time="-", arrival_time="-"), place.uri, may_be_empty=True
    )
    modified_ms = _modified_ms(source)
    listed_files = {file.path: file for file, _ in files_with_bounds(source.actions, "")}
    files = sorted(
        (DataFile(path, file.bytes, modified_ms.get(path, 0)) for path, file in listed_files.items()),
        key=lambda file: (file.modified_ms, file.path),
    )
    counts = [file.rows for file in listed_files.values()]
    tables = []
    if source.why_not_direct is None and files:
        chosen_files = spread(files)
        share = most_rows // len(chosen_files)
        tables = [
            (file, _first_rows(source.uri, listed_files[file.path], source.schema, share))
            for file in chosen_files
        ]
    rows = _one_table([table for _, table in tables]) if tables else source.schema.empty_table()
    return SourceHead(
        rows=rows,
        columns=[(field.name, str(field.type)) for field in source.schema],
        written_ms=_written_ms(tables),
        files_read=len(tables),
        total_files=len(files),
        total_rows=None if None in counts else sum(count for count in counts if count is not None),
        total_bytes=sum(file.bytes for file in files),
        first_written_ms=files[0].modified_ms if files else None,
        why_no_rows=None
        if source.why_not_direct is None
        else f"its files can't be read without Spark ({source.why_not_direct})",
        delta_source=source,
    )


def _modified_ms(source: PinnedSource) -> dict[str, int]:
    """Path → when the log says that a file was written."""
    table = source.actions
    if _TIME_OF_FILE not in table.column_names:
        return {}
    moments = table.column(_TIME_OF_FILE)
    if pa.types.is_timestamp(moments.type):
        moments = moments.cast(pa.timestamp("ms", tz=moments.type.tz)).cast(pa.int64())
    paths = [file.path for file, _ in files_with_bounds(source.actions, "")]
    return dict(zip(paths, moments.fill_null(0).to_pylist(), strict=True))


def _head_of_parquet(place: SourcePlace, most_rows: int) -> SourceHead:
    chosen_files = spread(place.files)
    tables = []
    counts = []
    for file in chosen_files:
        with (
            reads(f"{place.uri}/{file.path}"),
            open_verified(
                place.uri, filesystem(place.uri), file.path, coerce_int96_timestamp_unit="us"
            ) as parquet,
        ):
            schema, count = columns_as_stored(parquet.schema_arrow), parquet.metadata.num_rows
        input_file = InputFile(file.path, (), count, file.bytes, False)
        tables.append((file, _first_rows(place.uri, input_file, schema, most_rows // len(chosen_files))))
        counts.append(count)
    # The files of other tables may hold rows that are no longer theirs.
    is_complete = len(counts) == len(place.files) and place.format is SourceFormat.PARQUET
    head = _head(place, tables, sum(counts) if is_complete else None)
    columns = iceberg_columns(place.uri) if place.format is SourceFormat.ICEBERG else []
    return replace(head, columns=columns or head.columns)


def _first_rows(uri: str, file: InputFile, schema: pa.Schema, count: int) -> pa.Table:
    return read_columns(uri, file, schema, schema.names, first_rows=count)


def _rows_of_file(place: SourcePlace, file: DataFile, most_rows: int) -> tuple[pa.Table, bool]:
    """(the first rows of a file, whether they are all)"""
    folder = filesystem(place.uri)
    if place.format is SourceFormat.ORC:
        with folder.open_input_file(file.path) as data:
            reader = orc.ORCFile(data)
            stripes: list[pa.RecordBatch] = []
            for number in range(reader.nstripes):
                if sum(map(len, stripes)) >= most_rows:
                    break
                stripes.append(reader.read_stripe(number))
        rows = pa.Table.from_batches(stripes, reader.schema).slice(0, most_rows)
        return rows, len(rows) == reader.nrows
    content = b"".join(_first_bytes(folder, file.path))
    is_cut = len(content) > _TEXT_BYTES
    if is_cut:
        content = content[: content.rfind(b"\n", 0, _TEXT_BYTES) + 1] or content
    if not content.strip():
        return pa.table({}), True
    rows = _rows_of_text(place, file, content, most_rows)
    return rows, not is_cut and len(rows) < most_rows


def _first_bytes(folder: pafs.FileSystem, path: str) -> Iterator[bytes]:
    """The first bytes of a text file, or more, decompressed."""
    ending = path.rpartition(".")[2].lower()
    codec = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}.get(ending)
    with folder.open_input_file(path) as data:
        stream = data if codec is None else pa.CompressedInputStream(data, codec)
        size = 0
        while size <= _TEXT_BYTES and (piece := stream.read(1 << 20)):
            size += len(piece)
            yield piece


def _rows_of_text(place: SourcePlace, file: DataFile, content: bytes, most_rows: int) -> pa.Table:
    """Rows as DuckDB reads them, with the types that it takes from the values."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="slackwater-look-") as folder:
        path = Path(folder) / "head"
        path.write_bytes(content)
        reader = "read_json" if place.format is SourceFormat.JSON else "read_csv"
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            try:
                query = f"FROM {reader}(?) LIMIT {most_rows}"
                return connection.sql(query, params=[str(path)]).to_arrow_table()
            except duckdb.Error as error:
                reason = str(error).replace(str(path), file.path).split("\n", 1)[0]
                raise UsageError(
                    f"{place.uri}/{file.path}: this can't be read as {place.format.value} ({reason}). Take "
                    "the file away, or name another one.",
                    uri=place.uri,
                    path=file.path,
                ) from error
