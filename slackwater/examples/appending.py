"""Appends to an example's source the rows of a range of arrivals that it lacks, each once, even when loads
race, are repeated or are killed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.examples import BadRange, LoadedRange, SourceBusy, SourceDiffers
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import CommitConflict
from slackwater.tables.warehouse import Warehouse

TIME = pa.timestamp("us", tz="UTC")
COMMIT_ATTEMPTS = 5


def checked_range(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Both times in UTC. Raises BadRange: no time zone, or the range is empty."""
    if start.tzinfo is None or end.tzinfo is None:
        raise BadRange(
            f"the range {start} to {end} has no time zone. Give both times in UTC, for example "
            "2013-01-01T00:00:00Z."
        )
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    if end <= start:
        raise BadRange(
            f"the range is empty: it ends at {end:%FT%TZ}, not after its start {start:%FT%TZ}. Give a later "
            "end.",
            start=start,
            end=end,
        )
    return start, end


def within(start: datetime, end: datetime, arrival_time: str = "arrival_time") -> pc.Expression:
    """The condition on rows that arrived in [start, end)."""
    arrival = pc.field(arrival_time)
    return (arrival >= pa.scalar(start, TIME)) & (arrival < pa.scalar(end, TIME))


def append_missing(
    warehouse: str,
    source: str,
    rows: pa.Table,
    start: datetime,
    end: datetime,
    *,
    arrival_time: str = "arrival_time",
    identity: Sequence[str] = ("row",),
    partition_by: Sequence[str] = ("arrival_date",),
    rows_per_file: int | None = None,
) -> LoadedRange:
    """Append to the source, in one commit, the `rows` (arrived in [start, end)) that it lacks.

    Racing loads are decided by compare-and-swap on the table's version; the loser looks again for missing
    rows.

    Args:
        identity: the columns that tell two rows apart.
        partition_by: the columns by which a new table is partitioned.
        rows_per_file: see `Folder.append`.

    Raises:
        SourceDiffers: the table there has other columns.
        SourceBusy: five times in a row another load committed first.
        WarehouseNotWritable: the warehouse can't be written.
    """
    uri = Warehouse.at(warehouse).source(source)
    folder = Folder(uri, rows.schema, tuple(partition_by))
    for _ in range(COMMIT_ATTEMPTS):
        table = folder.ensure()
        _check_columns(uri, table.schema, rows.schema)
        present = folder.read(list(identity), where=within(start, end, arrival_time))
        missing = _without(present, rows)
        if missing.num_rows:
            try:
                folder.append(missing, expected_table=table, rows_per_file=rows_per_file)
            except CommitConflict:
                continue
        return LoadedRange(
            path=uri,
            version=folder.open().version(),
            rows_written=missing.num_rows,
            rows_present=rows.num_rows - missing.num_rows,
            days=pc.count_distinct(missing[arrival_time].cast(pa.date32())).as_py(),
        )
    raise SourceBusy(
        f"{uri}: other loads committed first {COMMIT_ATTEMPTS} times; nothing was written. Run the same "
        "command again.",
        uri=uri,
    )


def _without(present: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows, in their order, except those whose values in the columns of `present` are a row of it."""
    if not present.num_rows:
        return rows
    identities = rows.select(present.column_names).append_column("place", pa.array(np.arange(rows.num_rows)))
    missing = identities.join(present, present.column_names, join_type="left anti")
    return rows.take(missing["place"].sort())


def _check_columns(uri: str, table_schema: pa.Schema, example_schema: pa.Schema) -> None:
    if not table_schema.equals(example_schema):
        raise SourceDiffers(
            f"{uri}: a table with other columns is here "
            f"({', '.join(f'{field.name} {field.type}' for field in table_schema)}). "
            "Load into another warehouse, or move that table away.",
            uri=uri,
        )
