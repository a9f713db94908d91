"""The task `announce`: which days it announces, by the ledger and by past events."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.announce import SEQ_KEY, AnnounceOperator
from tests.airflow.commands import install


class Event:
    """Of an outlet event: the days and the facts that consumers get."""

    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}
        self.partitions: list[str] = []

    def add_partitions(self, keys: list[str]) -> None:
        self.partitions += keys


class PastEvents(list[SimpleNamespace]):
    """The inlet events of the asset, which a query narrows."""

    def ascending(self, ascending: bool) -> "PastEvents":
        return PastEvents(self if ascending else reversed(self))

    def limit(self, limit: int) -> "PastEvents":
        return PastEvents(self[:limit])


class Airflow:
    """What Airflow keeps of an asset from one announcement to the next: its events, with the task's success,
    and its state store.
    """

    def __init__(self, settings: Settings) -> None:
        self.asset = Asset("departures.published", uri="file:///w/departures/published")
        self.operator = AnnounceOperator(
            task_id="announce", pipeline="departures", asset=self.asset, settings=settings
        )
        self.past = PastEvents()
        self.store: dict[str, Any] = {}

    def announce(self, *, dies_before_success: bool = False) -> list[str]:
        event = Event()
        store = SimpleNamespace(get=self.store.get, set=self.store.__setitem__)
        context = {
            "outlet_events": {self.asset: event},
            "inlet_events": {self.asset: self.past},
            "asset_state_store": {self.asset: store},
        }
        days = self.operator.execute(context)
        if not dies_before_success:
            self.past += [SimpleNamespace(extra=event.extra, partition_key=day) for day in event.partitions]
        return days


def ledger(settings: Settings, *days_of_rows: list[str]) -> Path:
    """A `slackwater runs` over a ledger whose row of seq n touched the n-th list of days."""
    rows = [
        {
            **{"seq": seq, "run_id": f"r{seq}", "kind": "run", "branch": "main", "touched": days},
            **{"rows_read": 100, "rows_late": 2, "windows_fired": 10, "windows_refired": seq},
        }
        for seq, days in enumerate(days_of_rows, 1)
    ]
    source = settings.spark_bin / "ledger.json"
    calls = settings.spark_bin / "calls"
    if not calls.parent.exists():
        install(
            settings,
            f"python3 -c \"import json; print(json.dumps([row for row in json.load(open('{source}')) if "
            "row['seq'] > $4]))\"",
        )
    source.write_text(json.dumps(rows))
    return calls


def test_each_day_that_a_new_row_touched_is_announced_once(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"], ["2013-01-01", "2013-01-02"])
    assert airflow.announce() == ["2013-01-01", "2013-01-02"]
    ledger(settings, ["2013-01-01"], ["2013-01-01", "2013-01-02"], ["2013-01-03"])
    assert airflow.announce() == ["2013-01-03"]
    assert airflow.past[0].extra == {
        **{"seq": 2, "run_ids": ["r1", "r2"], "days": ["2013-01-01", "2013-01-02"]},
        **{"rows_read": 200, "rows_late": 4, "windows_fired": 20, "windows_refired": 3},
    }
    assert airflow.past[-1].extra["run_ids"] == ["r3"]


def test_nothing_new_is_no_event(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"])
    airflow.announce()
    with pytest.raises(AirflowSkipException, match="after seq 1"):
        airflow.announce()


def test_a_row_that_touched_nothing_is_no_event_and_its_seq_is_not_taken_as_told(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"], [])
    assert airflow.announce() == ["2013-01-01"]
    ledger(settings, ["2013-01-01"], ["2013-01-02"])  # the roll-forward of row 2 was still to come
    assert airflow.announce() == ["2013-01-02"]


def test_a_task_that_dies_before_its_success_announces_again(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"])
    assert airflow.announce(dies_before_success=True) == ["2013-01-01"]
    assert airflow.announce() == ["2013-01-01"]


def test_events_that_were_cleaned_up_are_remembered_by_the_store(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"])
    airflow.announce()
    with pytest.raises(AirflowSkipException):
        airflow.announce()
    assert airflow.store == {SEQ_KEY: 1}
    airflow.past.clear()
    ledger(settings, ["2013-01-01"], ["2013-01-02"])
    assert airflow.announce() == ["2013-01-02"]


def test_when_events_and_store_are_lost_the_whole_ledger_is_announced_again(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"], ["2013-01-02"])
    airflow.announce()
    airflow.past.clear()
    airflow.store.clear()
    assert airflow.announce() == ["2013-01-01", "2013-01-02"]


def test_events_made_by_hand_prove_nothing(settings: Settings) -> None:
    airflow = Airflow(settings)
    ledger(settings, ["2013-01-01"])
    airflow.past += [
        SimpleNamespace(extra=None, partition_key=None),
        SimpleNamespace(extra={"note": "hello"}, partition_key=None),
    ]
    assert airflow.announce() == ["2013-01-01"]


def test_a_ledger_that_cannot_be_read_is_no_announcement(settings: Settings) -> None:
    install(settings, "echo no such warehouse >&2; exit 2")
    with pytest.raises(AirflowFailException, match="no such warehouse"):
        Airflow(settings).announce()
