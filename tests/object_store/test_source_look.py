"""A look at what is in an object store: a Delta table, a folder of Parquet files, JSON lines, and nothing."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from slackwater.inspection.sources.source_kinds import NothingThere, SourceFormat
from slackwater.inspection.sources.source_look import look_at
from slackwater.tables.stores import filesystem
from tests.object_store.server import BUCKET

HOURS = [datetime(2024, 2, 29, tzinfo=UTC) + timedelta(hours=number) for number in range(24)]
ROWS = pa.table(
    {
        "event_time": HOURS,
        "arrival_time": [hour + timedelta(minutes=1) for hour in HOURS],
        "sensor": ["a", "b"] * 12,
    }
)


@pytest.mark.usefixtures("in_store")
def test_each_kind_is_read_from_a_store() -> None:
    root = f"s3://{BUCKET}/looks"
    write_deltalake(f"{root}/sources/table", ROWS)
    folder = filesystem(root)
    for number in range(2):
        with folder.open_output_stream(f"parquet/{number}.parquet") as stream:
            pq.write_table(ROWS, stream)
    lines = "".join(json.dumps({"ts": hour.timestamp(), "id": "x"}) + "\n" for hour in HOURS)
    with folder.open_output_stream("json/a.json.gz", compression=None) as stream:
        stream.write(gzip.compress(lines.encode()))
    for place, kind, rows in (
        ("sources/table", SourceFormat.DELTA, 24),
        (f"{root}/parquet", SourceFormat.PARQUET, 48),
        ("parquet/0.parquet", SourceFormat.PARQUET, 24),
        ("json", SourceFormat.JSON, 24),
        ("json/a.json.gz", SourceFormat.JSON, 24),
    ):
        look = look_at(place, root)
        assert (look.place.format, len(look.head.rows)) == (kind, rows), place
        assert look.pipeline_file(None) is not None
    assert look_at("sources/table", root).table == "sources/table"
    with pytest.raises(NothingThere, match="there is nothing here"):
        look_at("nowhere", root)
