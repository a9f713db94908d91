"""A day that was corrected in the source, restated by the DAG `departures__restate` alone, against the model
of the corrected flights.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.airflow.conftest import Airflow, Task, await_, start
from tests.integration.command import driver, here
from tests.integration.driver import Plan
from tests.model.brute_force import replay
from tests.model.flights import departures_rules, flights, ms
from tests.model.records import Event

FROM, DAY, NEXT_DAY, TO = "2013-01-01", "2013-01-02", "2013-01-03", "2013-01-04"
RESTATE = "departures__restate"
MORE_MINUTES = 7  # twice as many would not be credible, and rejected

Published = dict[tuple[str, datetime], tuple[int, float, float]]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of departures, run day by day."""
    folder = tmp_path_factory.mktemp("warehouse")
    assert here("examples", "load", "departures", "--from", FROM, "--to", TO, "--warehouse", folder) == 0
    done = driver(Plan(), "run", "departures", "--to", TO, "--warehouse", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def airflow(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    yield from start(tmp_path_factory.mktemp("airflow") / "home", SLACKWATER_WAREHOUSE=str(warehouse))


def rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    return list(DeltaTable(warehouse / "departures" / table).to_pyarrow_table().to_pylist())


def published(warehouse: Path) -> Published:
    return {
        (row["origin"], row["window_start"]): (row["flights"], row["mean_dep_delay"], row["max_dep_delay"])
        for row in rows(warehouse, "published")
    }


def expected(events: list[Event]) -> Published:
    found = {}
    for pane in replay(events, departures_rules(FROM, TO)).published:
        assert pane.results is not None
        results = tuple(pane.results[name] for name in ("flights", "mean_dep_delay", "max_dep_delay"))
        found[str(pane.key), datetime.fromtimestamp(pane.window.start / 1000, tz=UTC)] = results
    return found


def corrected(event: Event) -> Event:
    delay = event.values["dep_delay"]
    if delay is None or not ms(DAY) <= event.arrival < ms(NEXT_DAY):
        return event
    return event._replace(values={**event.values, "dep_delay": delay + MORE_MINUTES})


def correct(warehouse: Path) -> None:
    """The same in the source."""
    uri = str(warehouse / "sources" / "departures")
    stored = DeltaTable(uri).to_pyarrow_dataset().to_table()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("stored", stored)
        of_day = f"arrival_time >= '{DAY} 00:00:00+00' AND arrival_time < '{NEXT_DAY} 00:00:00+00'"
        changed = (
            f"SELECT * REPLACE ((dep_delay + {MORE_MINUTES})::INT AS dep_delay) FROM stored WHERE {of_day}"
        )
        later = connection.sql(changed).to_arrow_table()
    predicate = f"arrival_time >= '{DAY}T00:00:00Z' AND arrival_time < '{NEXT_DAY}T00:00:00Z'"
    write_deltalake(uri, later.cast(stored.schema), mode="overwrite", predicate=predicate)


def test_a_day_that_was_corrected_is_restated_and_published_at_once(
    airflow: Airflow, warehouse: Path
) -> None:
    before, runs = published(warehouse), len(rows(warehouse, "runs"))
    assert before == expected(flights(FROM, TO))
    correct(warehouse)
    await_(lambda: airflow.ask(f"dags/{RESTATE}"), "the DAG")
    assert not airflow.ask(f"dags/{RESTATE}")["is_paused"], "a run of a paused DAG waits in silence"
    conf = {"from": f"{DAY}T00:00:00Z", "to": f"{NEXT_DAY}T00:00:00Z", "reason": "delays were too short"}
    run = airflow.ask(f"dags/{RESTATE}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]
    assert airflow.ended(RESTATE, run) == "success", airflow.log(RESTATE, run, "restate")
    assert airflow.tasks(RESTATE, run) == {
        name: Task("success", 1) for name in ("restate", "conclude", "announce")
    }

    after = published(warehouse)
    assert after == expected([corrected(event) for event in flights(FROM, TO)]) != before
    ledger = sorted(rows(warehouse, "runs"), key=lambda row: row["seq"])
    [publication] = [row for row in ledger[runs:] if row["branch"] == "main"]
    assert publication["kind"] == "publish"
    corrections = [row for row in rows(warehouse, "corrections") if row["seq"] > ledger[runs - 1]["seq"]]
    assert {row["cause"] for row in corrections} == {"restatement"}
    assert {(row["origin"], row["window_start"]) for row in corrections} == {
        window for window in after if after[window] != before[window]
    }
    # Runs outside Airflow are told with the first that is inside.
    days = {row["window_start"].date().isoformat() for row in rows(warehouse, "corrections")}
    assert set(airflow.events()) == {(day, publication["seq"]) for day in days}
