"""The records are a function of their numbers; the example's trigger publishes every vehicle that is not too
late, and the plain ContinuousProcessingTimeTrigger does not. Garbled records are in quarantine.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from slackwater.engine.replaying import spilling
from slackwater.engine.transport.in_process import InProcess
from slackwater.examples import BadRange, find_example
from slackwater.examples.vehicles import SCHEMA, START, TOLLGATES, load_vehicles, records_arrived
from slackwater.runs import opened_pipeline
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from tests.examples.vehicle_counts import Counts, Vehicle, counts_of, ms, vehicle_of
from tests.integration.command import here

MINUTES = 15
PLAIN = """
from dataclasses import replace
from datetime import timedelta

from slackwater import ContinuousProcessingTimeTrigger
from slackwater.examples.tollgates import tollgates

plain = replace(
    tollgates, name="plain", trigger=ContinuousProcessingTimeTrigger.of(timedelta(seconds=30)), sinks=[]
)
ours = replace(tollgates, name="ours", sinks=[])
seconds = replace(ours, name="seconds")
minutes = replace(ours, name="minutes")
"""
Drive = Callable[..., int]


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_a_range_holds_the_same_records_however_it_is_asked_for():
    all_records = records_arrived(at(0), at(26))
    cuts = [-5, 3.3333, 20, 20.0001, 22, 26]
    parts = [records_arrived(at(start), at(end)) for start, end in pairwise(cuts)]
    assert [row for part in parts for row in part.to_pylist()] == all_records.to_pylist()
    assert all_records.schema == SCHEMA
    assert records_arrived(at(20), at(20)).num_rows == 0


def test_records_are_as_kafka_numbers_them():
    records = records_arrived(at(0), at(8 * 60)).to_pylist()
    assert {(record["topic"], record["timestampType"]) for record in records} == {("vehicles", 1)}
    assert {record["key"].decode() for record in records} == set(TOLLGATES)
    for partition in range(3):
        partition_records = [record for record in records if record["partition"] == partition]
        assert [record["offset"] for record in partition_records] == list(range(len(partition_records)))
        times = [record["timestamp"] for record in partition_records]
        assert times == sorted(times)
        assert len(partition_records) == pytest.approx(len(records) / 3, rel=0.01)


@pytest.fixture(scope="module")
def eight_hours() -> list[tuple[dict[str, Any], Vehicle | str]]:
    """Records, and what they say."""
    records = records_arrived(at(60), at(60 + 8 * 60)).to_pylist()
    return [(record, vehicle_of(record)) for record in records]


def test_vehicles_are_two_a_second_and_as_disordered_as_it_is_said(
    eight_hours: list[tuple[dict[str, Any], Vehicle | str]],
):
    vehicles = [vehicle for _, vehicle in eight_hours if isinstance(vehicle, Vehicle)]
    assert len(vehicles) == pytest.approx(8 * 3600 * 2, rel=0.01)
    delays = [vehicle.arrival - vehicle.timestamp for vehicle in vehicles]
    bounds = ((0, 2_000, 0.78), (2_000, 60_000, 0.2), (60_000, 300_000, 0.01), (300_000, 600_000, 0.01))
    for least, greatest, share in bounds:
        count = sum(least <= delay < greatest for delay in delays)
        assert count / len(vehicles) == pytest.approx(share, rel=0.1)
    assert all(0 <= delay < 600_000 for delay in delays)


def test_one_vehicle_in_a_hundred_is_reported_a_second_time_by_a_garbled_record(
    eight_hours: list[tuple[dict[str, Any], Vehicle | str]],
):
    vehicles_by_key = {
        (record["key"].decode(), vehicle.timestamp): vehicle
        for record, vehicle in eight_hours
        if isinstance(vehicle, Vehicle)
    }
    assert all(key[0] == vehicle.tollgate for key, vehicle in vehicles_by_key.items())
    garbled_records = [record for record, reason in eight_hours if isinstance(reason, str)]
    assert len(garbled_records) == pytest.approx(len(vehicles_by_key) / 100, rel=0.01)
    kinds = ["no value", "no text", "no JSON", "text for a number", "no tollgate", "no time", "far ahead"]
    each = len(garbled_records) / len(kinds)
    assert Counter(map(kind_of_garbled, garbled_records)) == pytest.approx(dict.fromkeys(kinds, each), abs=2)
    for record in garbled_records[7:-7]:  # the others may be of vehicles that are not in the range
        ts = re.search(rb'"ts": "?(\d{13})', record["value"] or b"")
        ahead_ms = 366 * 24 * 3600 * 1000 if kind_of_garbled(record) == "far ahead" else 0
        if ts is not None:
            assert (record["key"].decode(), int(ts[1]) - ahead_ms) in vehicles_by_key


def kind_of_garbled(record: dict[str, Any]) -> str:
    """By the value alone, as one looks at it."""
    if record["value"] is None:
        return "no value"
    try:
        text = record["value"].decode()
    except UnicodeDecodeError:
        return "no text"
    try:
        value = json.loads(text)
    except ValueError:
        return "no JSON"
    if not value["tollgate"]:
        return "no tollgate"
    if "ts" not in value:
        return "no time"
    return "text for a number" if isinstance(value["ts"], str) else "far ahead"


def test_loads_that_overlap_give_each_record_once(tmp_path: Path):
    assert load_vehicles(str(tmp_path), at(0), at(3)).rows_present == 0
    overlapping_load = load_vehicles(str(tmp_path), at(2), at(5))
    assert overlapping_load.rows_present == records_arrived(at(2), at(3)).num_rows
    assert load_vehicles(str(tmp_path), at(0), at(5)).rows_written == 0
    stored = DeltaTable(tmp_path / "sources" / "vehicles").to_pyarrow_dataset().to_table()
    order = [("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    assert stored.sort_by(order).to_pylist() == records_arrived(at(0), at(5)).sort_by(order).to_pylist()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (at(-20), at(-10)),
        (at(10), at(10)),
        (datetime(2024, 1, 1), datetime(2024, 1, 2)),  # noqa: DTZ001
        (at(0), at(31 * 24 * 60)),
    ],
)
def test_a_range_that_cannot_be_is_refused(tmp_path: Path, start: datetime, end: datetime):
    with pytest.raises(BadRange):
        load_vehicles(str(tmp_path), start, end)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("tollgates")
    find_example("tollgates").load(str(warehouse), at(0), at(MINUTES))
    (warehouse / "plain.py").write_text(PLAIN)
    return warehouse


@pytest.fixture(scope="module")
def counts() -> Counts:
    counts = counts_of(records_arrived(at(0), at(MINUTES)).to_pylist(), at(MINUTES))
    assert counts.late > 2
    return counts


@pytest.fixture
def ended(source: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Runs a pipeline up to some minutes, one after the other, plans its next run, and closes it."""
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app, here_bytes=None: InProcess)
    where = ("--warehouse", source, "--pipelines", source / "plain.py")

    def drive(pipeline: str, *minutes: float, options: tuple[str, ...] = ()) -> None:
        for end in (*minutes, MINUTES):
            assert here("run", pipeline, "--to", at(end).isoformat(), *options, *where) == 0
        assert here("plan", pipeline, *where) == 0
        assert here("state", "close", pipeline, *where) == 0

    return drive


def rows(source: Path, pipeline: str, table: str) -> list[dict[str, Any]]:
    return DeltaTable(source / pipeline / table).to_pyarrow_dataset().to_table().to_pylist()


def published(source: Path, pipeline: str) -> dict[tuple[str, int], int]:
    return {
        (row["tollgate"], ms(row["window_start"])): row["vehicles"]
        for row in rows(source, pipeline, "published")
    }


def never_fired(source: Path, pipeline: str) -> int:
    return sum(row["elements_never_fired"] or 0 for row in rows(source, pipeline, "runs"))


def test_the_plain_trigger_leaves_vehicles_unpublished_and_they_are_counted(
    source: Path, counts: Counts, ended: Drive, capsys: pytest.CaptureFixture[str]
):
    ended("plain", 8.7654)
    sentences = re.findall(r"(note|warning):? +([\d,]+) elements are in no result", capsys.readouterr().out)
    notes = [int(count.replace(",", "")) for mark, count in sentences if mark == "note"]
    [of_plan] = [int(count.replace(",", "")) for mark, count in sentences if mark == "warning"]
    losses = [row["elements_never_fired"] for row in rows(source, "plain", "runs")]
    assert sorted(notes) == sorted(filter(None, losses)) and len(notes) > 1
    assert of_plan == sum(notes[:-1]), "the runs before the close"
    left_out = counts.never_fired_by_the_plain_trigger
    assert left_out > 100
    assert never_fired(source, "plain") == left_out
    assert sum(published(source, "plain").values()) == sum(counts.final.values()) - left_out


@pytest.mark.slow
def test_the_examples_own_trigger_publishes_every_vehicle_that_is_not_too_late(
    source: Path, counts: Counts, ended: Drive, monkeypatch: pytest.MonkeyPatch
):
    """With state in RocksDB, and cut where no tick ends."""
    storages: list[str] = []

    def storage_of_range(**settings: Any) -> OperatorStorage:
        storages.append(settings["state"])
        return OperatorStorage(**settings)

    monkeypatch.setenv("SLACKWATER_STATE_MEMORY_MB", "0")
    monkeypatch.setattr(spilling, "OperatorStorage", storage_of_range)
    ended("ours", 4.0001, 8.7654, options=("--on", "spark"))  # in this process
    assert set(storages) == {"rocksdb"}
    assert published(source, "ours") == counts.final
    assert never_fired(source, "ours") == 0
    assert sum(row["rows_late"] or 0 for row in rows(source, "ours", "runs")) == counts.late
    newest_run = max(rows(source, "ours", "runs"), key=lambda row: row["seq"])
    assert (newest_run["kind"], newest_run["windows_open"]) == ("close", 0)
    kinds = Counter(pane["kind"] for pane in rows(source, "ours", "panes"))
    assert kinds == {"on_time": counts.firings_at_an_end, "late": counts.later_firings}


def test_late_rows_are_listed_with_the_seconds_of_the_windows_that_they_missed(
    source: Path, counts: Counts, ended: Drive, capsys: pytest.CaptureFixture[str]
):
    ended("seconds")
    capsys.readouterr()
    assert here("late", "list", "seconds", "--warehouse", source) == 0
    windows = re.findall(r"2024-01-01 ([\d:]+)–([\d:]+)", capsys.readouterr().out)
    lengths = [time.fromisoformat(end).second - time.fromisoformat(start).second for start, end in windows]
    assert [length % 60 for length in lengths] == [10] * counts.late


def test_garbled_records_are_in_quarantine_with_a_reason_that_can_be_read(
    source: Path, ended: Drive, capsys: pytest.CaptureFixture[str]
):
    ended("minutes", 3.21)
    records = DeltaTable(source / "sources" / "vehicles").to_pyarrow_dataset().to_table().to_pylist()
    reasons = {
        (record["partition"], record["offset"]): reason
        for record in records
        if isinstance(reason := vehicle_of(record), str)
    }
    assert Counter(reasons.values()).keys() == {
        *("expression_failed", "null_key", "null_event_time", "ahead_of_arrival")
    }
    capsys.readouterr()
    where = ("--warehouse", source)
    assert here("quarantine", "list", "minutes", "--output", "json", "--limit", "0", *where) == 0
    listed = json.loads(capsys.readouterr().out)["rows"]
    values = [json.loads(row["row_json"]) for row in listed]
    assert {
        (value["partition"], value["offset"]): row["reason_code"]
        for value, row in zip(values, listed, strict=True)
    } == reasons
    garbled_records = [record for record in records if isinstance(vehicle_of(record), str)]
    cut_values = [
        record["value"].decode() for record in garbled_records if kind_of_garbled(record) == "no JSON"
    ]
    assert here("quarantine", "list", "minutes", "--limit", "0", *where) == 0
    printed_text = capsys.readouterr().out
    assert len(cut_values) > 1
    assert all(f"value {value.rstrip()}" in printed_text for value in cut_values)
