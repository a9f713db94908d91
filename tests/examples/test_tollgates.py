"""The vehicles are a function of their numbers; the example's trigger publishes every one of them that is not
too late, and the plain ContinuousProcessingTimeTrigger does not.
"""

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
from slackwater.examples.vehicles import SCHEMA, START, TOLLGATES, load_vehicles, vehicles_arrived
from slackwater.runs import opened_pipeline
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from tests.examples.vehicle_counts import Counts, counts_of, ms
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
"""
Drive = Callable[..., int]


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_a_range_holds_the_same_vehicles_however_it_is_asked_for():
    whole = vehicles_arrived(at(20), at(26))
    parts = [vehicles_arrived(at(start), at(start + 2)) for start in range(20, 26, 2)]
    assert [row for part in parts for row in part.to_pylist()] == whole.to_pylist()
    assert whole.schema == SCHEMA
    assert set(whole["tollgate"].to_pylist()) == set(TOLLGATES)


def test_vehicles_are_two_a_second_and_as_disordered_as_it_is_said():
    rows = vehicles_arrived(at(60), at(60 + 8 * 60)).to_pylist()
    assert len(rows) == pytest.approx(8 * 3600 * 2, rel=0.01)
    delays = [(row["arrival_time"] - row["event_time"]).total_seconds() for row in rows]
    bounds = ((0, 2, 0.78), (2, 60, 0.2), (60, 300, 0.01), (300, 600, 0.01))
    for least, greatest, share in bounds:
        assert sum(least <= delay < greatest for delay in delays) / len(rows) == pytest.approx(share, rel=0.1)
    assert all(0 <= delay < 600 for delay in delays)
    by_row = sorted(rows, key=lambda row: row["row"])
    assert all(earlier["event_time"] <= later["event_time"] for earlier, later in pairwise(by_row))


def test_loads_that_overlap_give_each_vehicle_once(tmp_path: Path):
    assert load_vehicles(str(tmp_path), at(0), at(3)).rows_present == 0
    overlapping_load = load_vehicles(str(tmp_path), at(2), at(5))
    assert overlapping_load.rows_present == vehicles_arrived(at(2), at(3)).num_rows
    stored = DeltaTable(tmp_path / "sources" / "tollgates").to_pyarrow_dataset().to_table()
    assert stored.sort_by("row").to_pylist() == vehicles_arrived(at(0), at(5)).sort_by("row").to_pylist()


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
    counts = counts_of(vehicles_arrived(at(0), at(MINUTES)).to_pylist(), at(MINUTES))
    assert counts.late > 2
    return counts


@pytest.fixture
def ended(source: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Runs a pipeline up to some minutes, one after the other, plans its next run, and closes it."""
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    where = ("--warehouse", source, "--pipelines", source / "plain.py")

    def drive(pipeline: str, *minutes: float) -> None:
        for end in (*minutes, MINUTES):
            assert here("run", pipeline, "--to", at(end).isoformat(), *where) == 0
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
    ended("ours", 4.0001, 8.7654)
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
