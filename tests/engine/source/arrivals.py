"""Sources of rows with given arrival times, and the rows that a slice of one reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import pin
from slackwater.pipelines import DeltaSource
from slackwater.windowing.times import to_datetime, to_ms

SOURCE = DeltaSource("t", event_time="e", arrival_time="a")
START = datetime(2013, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("a", TIME), ("row", pa.int64()), ("day", pa.date32())])
MICROSECOND = timedelta(microseconds=1)


def after(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def ms(moment: datetime) -> int:
    return to_ms(moment)


def table_of(arrivals: dict[int, datetime | None]) -> pa.Table:
    rows = [
        {"a": moment, "row": row, "day": None if moment is None else moment.date()}
        for row, moment in arrivals.items()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def commit(uri: Path | str, arrivals: dict[int, datetime | None], **options: Any) -> PinnedSource:
    write_deltalake(str(uri), table_of(arrivals), mode="append", **options)
    return pin(SOURCE, str(uri))


def rows_read(
    source: PinnedSource, low: datetime, high: datetime, before: PinnedSource | None = None
) -> tuple[list[int], list[int]]:
    """Row numbers that lie in the slice, and those without an arrival time that are this run's to tell."""
    inside, without = [], []
    for file in source.files(ms(low), ms(high), "a", before):
        for row in read_columns(source.uri, file, source.schema, ("a", "row")).to_pylist():
            if row["a"] is None:
                without += [row["row"]] if file.may_hold_unread else []
            elif low <= to_datetime(ms(row["a"])) < high:
                inside.append(row["row"])
    return sorted(inside), sorted(without)
