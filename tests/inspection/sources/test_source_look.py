"""What a look says of each kind of source, over small ones that the tests write; expectations by hand."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.inspection.sources.source_head import head_of, spread
from slackwater.inspection.sources.source_kinds import DataFile, NothingThere, SourceFormat, place_at
from slackwater.inspection.sources.source_look import SourceLook, look_at

DAY = datetime(2024, 2, 29, tzinfo=UTC)
MINUTES = range(200)


def at(minute: float) -> datetime:
    return DAY + timedelta(minutes=minute)


def ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def delta(warehouse: Path, name: str, columns: dict[str, Any]) -> str:
    write_deltalake(warehouse / name, pa.table(columns), mode="append")
    return name


def roles(look: SourceLook) -> dict[str, str | None]:
    return {row.role: row.expression for row in look.roles}


def could_be(look: SourceLook) -> dict[str, list[str]]:
    return {row["name"]: row["could_be"] for row in look.column_rows()}


@pytest.fixture
def plain(tmp_path: Path) -> SourceLook:
    """Events a minute apart; each tenth one arrives half an hour after its time, the others a minute."""
    delays = [30 if minute % 10 == 0 else 1 for minute in MINUTES]
    rows = sorted((at(m + delay), at(m), m) for m, delay in zip(MINUTES, delays, strict=True))
    columns = {
        "happened": [event for _, event, _ in rows],
        "ingested": [arrival for arrival, _, _ in rows],
        "store": [["north", "south", "west"][m % 3] for _, _, m in rows],
        "amount": [float(m) for _, _, m in rows],
        "seq": list(MINUTES),
    }
    delta(tmp_path, "sources/sales", {name: values[:100] for name, values in columns.items()})
    delta(tmp_path, "sources/sales", {name: values[100:] for name, values in columns.items()})
    return look_at("sources/sales", str(tmp_path))


def test_a_delta_table_is_read_by_its_log(plain: SourceLook) -> None:
    assert plain.place.format is SourceFormat.DELTA
    assert (plain.head.total_rows, plain.head.total_files, plain.head.files_read) == (200, 2, 2)
    assert plain.table == "sources/sales"
    assert plain.summary.startswith("sources/sales is a Delta table: 200 rows in 2 files, ")
    assert plain.summary.endswith(", version 1.")
    assert plain.what_to_do == []


def test_each_role_has_its_column_and_a_reason(plain: SourceLook) -> None:
    assert roles(plain) == {
        "event time": "happened",
        "arrival": "ingested",
        "source partition": None,
        "order": "seq",
        "key": "store",
    }
    reasons = {row.role: row.reason for row in plain.roles}
    assert reasons["arrival"] == "by its name; never earlier than happened"
    assert reasons["key"] == "by its name; 3 values in 200 rows"
    assert could_be(plain) == {
        **{"happened": ["event time"], "ingested": ["arrival"], "store": ["key"], "amount": []},
        "seq": ["order"],
    }


def test_the_bound_covers_what_came_late(plain: SourceLook) -> None:
    """A row that came 30 minutes after its time meets rows whose time is up to 29 minutes later."""
    disorder = plain.disorder
    assert disorder is not None
    assert (disorder.rows, disorder.bound_all_ms) == (200, 29 * 60_000 - 60_000)
    assert disorder.bound_ms == 30 * 60_000
    assert (disorder.rows_beyond_bound, disorder.late_rows, disorder.lateness_ms) == (0, 0, 0)
    assert disorder.delays.median_ms == 60_000
    assert disorder.delays.greatest_ms == 30 * 60_000


def test_the_start_is_the_first_day_of_all_arrivals(plain: SourceLook) -> None:
    assert plain.start == date(2024, 2, 29)
    assert plain.commands("f.py")[1] == "slackwater run sales_per_hour --to 2024-03-01 --pipelines f.py"


def test_times_are_found_in_numbers_and_a_commit_is_the_arrival(tmp_path: Path) -> None:
    delta(tmp_path, "t", {"ms": [ms(at(m)) for m in MINUTES], "user id": ["a", "b"] * 100})
    look = look_at("t", str(tmp_path))
    event, arrival, *_, key = look.roles
    assert (event.expression, event.column) == ("epoch_ms(ms)", "event_at")
    assert "epoch milliseconds" in event.reason
    assert (arrival.expression, arrival.column) == (None, "COMMIT_TIME")
    assert 'order="event"' in arrival.reason
    assert (key.expression, key.column) == ('"user id"', "user_id")
    [commit] = DeltaTable(tmp_path / "t").history()
    assert look.start == datetime.fromtimestamp(commit["timestamp"] // 1000, UTC).date()


def test_times_in_texts_and_structs(tmp_path: Path) -> None:
    delta(
        tmp_path,
        "t",
        {
            "trip": [{"start time": f"{at(m):%d.%m.%Y %H:%M}", "plate": f"B{m % 4}"} for m in MINUTES],
            "loadedAt": [f"{at(m):%Y-%m-%dT%H:%M:%SZ}" for m in MINUTES],
        },
    )
    look = look_at("t", str(tmp_path))
    assert roles(look) == {
        "event time": "strptime(trip.\"start time\", '%d.%m.%Y %H:%M')",
        "arrival": "CAST(loadedAt AS TIMESTAMP WITH TIME ZONE)",
        "source partition": None,
        "order": None,
        "key": "trip.plate",
    }


def test_a_file_says_what_a_zone_would_change(tmp_path: Path) -> None:
    texts = [f"{at(m):%Y-%m-%d %H:%M:%S}" for m in MINUTES]
    delta(tmp_path, "t", {"happened": texts, "loaded_ms": [ms(at(m + 1)) for m in MINUTES]})
    file = look_at("t", str(tmp_path)).pipeline_file(None)
    assert file is not None
    assert '"Europe/Berlin"' in file.text and "timezone('UTC', …)" in file.text


def test_fields_of_json_are_found_to_the_second_level(tmp_path: Path) -> None:
    values = [json.dumps({"n": m, "tollgate": {"id": f"g{m % 5}"}, "ts": ms(at(m))}) for m in MINUTES]
    delta(tmp_path, "t", {"body": values, "received": [at(m) for m in MINUTES]})
    look = look_at("t", str(tmp_path))
    assert roles(look)["event time"] == "epoch_ms(CAST(body ->> '$.ts' AS BIGINT))"
    assert roles(look)["key"] == "body ->> '$.tollgate.id'"
    assert look.roles[-1].column == "body_tollgate_id"
    assert could_be(look)["body"] == ["JSON"]
    distinct = {row["name"]: row["distinct"] for row in look.column_rows()}
    assert (distinct["body.tollgate.id"], distinct["body.n"]) == (5, 200)


def kafka(value: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    return {
        "key": [f"car{m % 7}".encode() for m in MINUTES],
        "value": [json.dumps(value(m)).encode() for m in MINUTES],
        "topic": ["tolls"] * 200,
        "partition": pa.array([m % 2 for m in MINUTES], pa.int32()),
        "offset": [m // 2 for m in MINUTES],
        "timestamp": [at(m + 1) for m in MINUTES],
    }


def test_kafkas_columns_have_their_roles(tmp_path: Path) -> None:
    delta(tmp_path, "t", kafka(lambda m: {"ts": ms(at(m)) // 1000, "speed": 1.5}))
    look = look_at("t", str(tmp_path))
    assert look.is_kafka and not look.is_debezium
    assert [(row.role, row.expression, row.column) for row in look.roles] == [
        ("event time", "to_timestamp(CAST(value ->> '$.ts' AS BIGINT))", "event_at"),
        ("arrival", '"timestamp"', "timestamp"),
        ("source partition", "partition", "partition"),
        ("order", '"offset"', "offset"),
        ("key", "key", "key_text"),
    ]


def test_a_change_of_debezium_has_its_time_after_the_change(tmp_path: Path) -> None:
    def change(m: int) -> dict[str, Any]:
        row = {"order_no": m, "placed_at": f"{at(m):%Y-%m-%dT%H:%M:%SZ}", "customer_id": m % 3}
        source = {"ts_ms": ms(at(m + 1)), "table": "orders"}
        return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": ms(at(m + 2))}

    delta(tmp_path, "t", {"value": [json.dumps(change(m)) for m in MINUTES]})
    look = look_at("t", str(tmp_path))
    assert look.is_debezium
    assert roles(look)["event time"] == "CAST(value ->> '$.after.placed_at' AS TIMESTAMP WITH TIME ZONE)"
    assert roles(look)["arrival"] == "epoch_ms(CAST(value ->> '$.ts_ms' AS BIGINT))"
    assert roles(look)["key"] == "value ->> '$.after.customer_id'"


def test_an_arrival_without_a_name_for_it_is_found_by_its_order(tmp_path: Path) -> None:
    """`b` grows from row to row, and is never before `a`, which does not."""
    events = [at(m - (20 if m % 3 == 0 else 1)) for m in MINUTES]
    delta(tmp_path, "t", {"a": events, "b": [at(m) for m in MINUTES], "k": ["x", "y"] * 100})
    look = look_at("t", str(tmp_path))
    assert (roles(look)["event time"], roles(look)["arrival"]) == ("a", "b")
    assert look.roles[1].reason.startswith("a guess: never earlier than a")


def test_a_source_partition_is_a_column_whose_rows_are_in_order(tmp_path: Path) -> None:
    """Two lines of sensors: all of the second one's rows arrive two hours after their time."""
    rows = sorted((at(m + 120 * line), at(m), f"line {line}") for m in range(600) for line in (0, 1))
    columns = {
        "event_time": [event for _, event, _ in rows],
        "arrival_time": [arrival for arrival, _, _ in rows],
        "area": [line for _, _, line in rows],
        "sensor": [f"s{number % 5}" for number in range(1200)],
    }
    look = look_at(delta(tmp_path, "t", columns), str(tmp_path))
    assert roles(look)["source partition"] == "area"
    assert roles(look)["key"] == "sensor"
    assert look.disorder is not None and look.disorder.bound_all_ms == 0


def parquet(folder: Path, name: str, columns: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)


def times(first: int, last: int) -> dict[str, Any]:
    minutes = range(first, last)
    return {
        "event_time": [at(m) for m in minutes],
        "arrival_time": [at(m + 2) for m in minutes],
        "sensor": [f"s{m % 3}" for m in minutes],
    }


def test_a_folder_of_parquet_files_and_one_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "warehouse" / "landing"
    parquet(folder, "a.parquet", times(0, 50))
    parquet(folder, "b.parquet", times(50, 90))
    look = look_at("landing", str(tmp_path / "warehouse"))
    assert (look.place.format, look.place.title) == (SourceFormat.PARQUET, "folder of Parquet files")
    assert (look.head.total_rows, look.table, look.is_declarable) == (90, "landing", True)
    one = look_at(str(folder / "a.parquet"), str(tmp_path / "warehouse"))
    assert (one.place.title, one.head.total_rows, one.table) == ("Parquet file", 50, "landing")
    assert any("reads all Parquet files of the folder" in note for note in one.notes)


def test_a_folder_within_a_delta_table_is_looked_at_as_the_table(tmp_path: Path) -> None:
    columns = {**times(0, 40), "day": ["2024-02-29"] * 40}
    write_deltalake(tmp_path / "t", pa.table(columns), partition_by=["day"])
    look = look_at("t/day=2024-02-29", str(tmp_path))
    assert (look.place.format, look.table, look.head.total_rows) == (SourceFormat.DELTA, "t", 40)
    [file] = (tmp_path / "t").rglob("*.parquet")
    file_look = look_at(str(file.relative_to(tmp_path)), str(tmp_path))
    assert (file_look.place.format, file_look.table) == (SourceFormat.DELTA, "t")


def test_json_lines_are_shown_with_the_line_that_makes_a_source_of_them(tmp_path: Path) -> None:
    rows = [
        {"at": ms(at(m)), "user": {"id": f"u{m % 4}"}, "got": f"{at(m + 1):%Y-%m-%dT%H:%M:%SZ}"}
        for m in MINUTES
    ]
    (tmp_path / "drop").mkdir()
    with gzip.open(tmp_path / "drop" / "a.json.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    look = look_at("drop", str(tmp_path))
    assert (look.place.title, look.head.total_rows) == ("folder of JSON files", 200)
    assert roles(look)["event time"] == 'epoch_ms("at")'
    assert roles(look)["key"] == "user.id"
    assert not look.is_declarable and look.table == "sources/drop"
    sentence, *lines = look.what_to_do
    assert "can't read JSON yet" in sentence
    exec("\n".join(lines), {})
    assert DeltaTable(tmp_path / "sources" / "drop").to_pyarrow_table().num_rows == 200
    second_look = look_at("sources/drop", str(tmp_path))
    assert roles(second_look) == roles(look)


def test_csv_and_orc_files(tmp_path: Path) -> None:
    lines = [f"{at(m):%d.%m.%Y %H:%M};s{m % 3};{m}" for m in MINUTES]
    (tmp_path / "x.csv").write_text("\n".join(["when;sensor;n", *lines]))
    csv_look = look_at("x.csv", str(tmp_path))
    assert (csv_look.place.title, csv_look.head.total_rows) == ("CSV file", 200)
    assert csv_look.roles[0].field == "when"
    (tmp_path / "orc").mkdir()
    orc.write_table(pa.table(times(0, 30)), tmp_path / "orc" / "a.orc")
    orc_look = look_at("orc", str(tmp_path))
    assert (orc_look.head.total_rows, roles(orc_look)["arrival"]) == (30, "arrival_time")
    assert '.format("orc")' in orc_look.what_to_do[1]


def test_an_iceberg_table_has_the_columns_of_its_newest_metadata(tmp_path: Path) -> None:
    table = tmp_path / "ice"
    parquet(table / "data", "00000-0.parquet", times(0, 30))
    (table / "metadata").mkdir()
    fields = [{"id": n, "name": name, "type": "timestamptz"} for n, name in enumerate(times(0, 1))]
    for version, count in (("00000-a", 1), ("00001-b", 3)):
        metadata = {"current-schema-id": 0, "schemas": [{"schema-id": 0, "fields": fields[:count]}]}
        (table / "metadata" / f"{version}.metadata.json").write_text(json.dumps(metadata))
    for place in ("ice", "ice/data"):
        look = look_at(place, str(tmp_path))
        assert look.place.title == "Iceberg table"
        assert look.head.columns == [(name, "timestamptz") for name in times(0, 1)]
        assert (roles(look)["event time"], roles(look)["key"]) == ("event_time", "sensor")
        assert '.format("iceberg")' in look.what_to_do[1]


def test_avro_is_named_without_columns(tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(b"Obj\x01")
    look = look_at("a.avro", str(tmp_path))
    assert (look.place.title, look.column_rows(), look.disorder) == ("Avro file", [], None)
    assert look.pipeline_file(None) is None
    assert '.format("avro")' in look.what_to_do[1]


def test_an_empty_delta_table_shows_its_columns(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table(times(0, 1)).slice(0, 0))
    look = look_at("t", str(tmp_path))
    assert [row["name"] for row in look.column_rows()] == ["event_time", "arrival_time", "sensor"]
    assert look.reading == "It has no rows yet."


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: None, "there is nothing here"),
        (lambda folder: (folder / "t").mkdir(), "is empty"),
        (lambda folder: ((folder / "t").mkdir(), (folder / "t" / "x.bin").write_bytes(b"1")), "x.bin"),
        (
            lambda folder: write_deltalake(folder / "t" / "a", pa.table(times(0, 2))),
            "tables below this folder",
        ),
    ],
)
def test_what_is_not_there_or_not_known_is_refused(
    tmp_path: Path, prepare: Callable[[Path], Any], message: str
) -> None:
    prepare(tmp_path)
    with pytest.raises(NothingThere, match=message) as refusal:
        look_at("t", str(tmp_path))
    assert refusal.value.exit_code == 2


def test_deleted_rows_are_not_in_the_sample(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table(times(0, 30)))
    DeltaTable(tmp_path / "t").delete("sensor = 's0'")
    look = look_at("t", str(tmp_path))
    assert set(look.head.rows.column("sensor").to_pylist()) == {"s1", "s2"}


def test_a_large_source_is_sampled_from_its_first_to_its_newest_file(tmp_path: Path) -> None:
    for number in range(20):
        parquet(tmp_path / "t", f"{number:02}.parquet", times(number * 100, number * 100 + 100))
    look = look_at("t", str(tmp_path))
    assert (look.head.files_read, look.head.total_files, look.head.total_rows) == (8, 20, None)
    assert len(look.head.rows) == 800
    assert "from 8 of 20 files" in look.reading
    files = [DataFile(str(number), 1, number) for number in range(20)]
    assert spread(files)[0] == files[0] and spread(files)[-1] == files[-1]


def test_only_the_first_rows_of_a_file_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table(times(0, 1000)), folder / "a.parquet", row_group_size=300)
    head = head_of(place_at(str(folder)), most_rows=450)
    assert head.rows.column("event_time").to_pylist() == times(0, 450)["event_time"]
    assert head.total_rows == 1000
