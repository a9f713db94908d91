"""Three days of January by `airflow backfill create`, against the model; then everything that must change
nothing.

One story on one Airflow, told in the order of the file: each test goes on where the one before it ended.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.integration.airflow.conftest import Airflow, Task, await_, start
from tests.integration.airflow.planned_replays import bin_of_planned_replays
from tests.integration.driver import Plan
from tests.model.brute_force import replay
from tests.model.flights import departures_rules, flights

FROM, TO, NEXT_DAY = "2013-01-01", "2013-01-04", "2013-01-05"
RUNS = [
    f"backfill__2013-01-0{day}T00:00:00+00:00" for day in (2, 3, 4)
]  # Airflow names a run by the end of its interval


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    slackwater = Path(sys.executable).with_name("slackwater")
    subprocess.run(
        [
            slackwater,
            "examples",
            "load",
            "departures",
            "--from",
            FROM,
            "--to",
            NEXT_DAY,
            "--warehouse",
            folder,
        ],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that, once it is there, says at which moment the next replay is to die."""
    return tmp_path_factory.mktemp("plan") / "departures.json"


@pytest.fixture(scope="module")
def airflow(warehouse: Path, plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    bin_folder = bin_of_planned_replays(plan.parent, plan.parent)
    yield from start(
        tmp_path_factory.mktemp("airflow") / "home",
        SLACKWATER_WAREHOUSE=str(warehouse),
        SLACKWATER_SPARK_BIN=str(bin_folder),
    )


def versions(warehouse: Path) -> dict[str, int]:
    """The table version of every table of the pipeline."""
    return {
        log.parent.name: DeltaTable(log.parent).version()
        for log in sorted(warehouse.glob("departures/*/_delta_log"))
    }


def published(warehouse: Path) -> dict[tuple[str, datetime], tuple[int, float, float]]:
    rows = DeltaTable(warehouse / "departures" / "published").to_pyarrow_table().to_pylist()
    found = {
        (row["origin"], row["window_start"]): (row["flights"], row["mean_dep_delay"], row["max_dep_delay"])
        for row in rows
    }
    assert len(found) == len(rows), "a window stands twice in the published table"
    return found


def expected(to: str = TO) -> dict[tuple[str, datetime], tuple[int, float, float]]:
    outcome = replay(flights(FROM, to), departures_rules(FROM, to))
    return {
        (str(pane.key), datetime.fromtimestamp(pane.window.start / 1000, tz=UTC)): tuple(
            pane.results[name]
            for name in ("flights", "mean_dep_delay", "max_dep_delay")  # type: ignore[index]
        )
        for pane in outcome.published
    }


def test_a_backfill_of_three_days_leaves_what_the_model_expects(airflow: Airflow, warehouse: Path) -> None:
    await_(lambda: airflow.ask("dags/departures"), "the DAG")
    airflow.script("run", "airflow", "dags", "unpause", "departures")
    airflow.script(
        *("run", "airflow", "backfill", "create", "--dag-id", "departures"),
        *("--from-date", "2013-01-01", "--to-date", "2013-01-03", "--max-active-runs", "1"),
    )
    assert [airflow.ended("departures", run) for run in RUNS] == ["success"] * 3, airflow.log(
        "departures", RUNS[0], "replay"
    )
    assert {run: airflow.tasks("departures", run) for run in RUNS} == {
        run: dict.fromkeys(("replay", "validate", "publish", "announce", "conclude"), Task("success", 1))
        for run in RUNS
    }
    assert published(warehouse) == expected()


def test_every_changed_day_was_announced(airflow: Airflow, warehouse: Path) -> None:
    corrections = DeltaTable(warehouse / "departures" / "corrections").to_pyarrow_table().to_pylist()
    changed = {(row["window_start"].date().isoformat(), row["seq"]) for row in corrections}
    assert len(changed) > 3, "late rows change the days before, too"
    assert sorted(airflow.events()) == sorted(changed)


def test_to_unpause_an_example_schedules_nothing_behind_its_data(airflow: Airflow) -> None:
    assert airflow.runs("departures") == dict.fromkeys(RUNS, "success")


def test_clearing_a_finished_run_changes_nothing(airflow: Airflow, warehouse: Path) -> None:
    before, events = versions(warehouse), airflow.events()
    assert before["published"] > 0
    airflow.ask(
        "dags/departures/clearTaskInstances", {"dag_run_id": RUNS[1], "dry_run": False, "only_failed": False}
    )
    await_(
        lambda: True if airflow.tasks("departures", RUNS[1])["replay"].tries == 2 else None, "the second try"
    )
    assert airflow.ended("departures", RUNS[1]) == "success"
    assert airflow.tasks("departures", RUNS[1]) == {
        "replay": Task("success", 2),
        "validate": Task("success", 2),
        "publish": Task("success", 2),
        "announce": Task("skipped", 2),
        "conclude": Task("success", 2),
    }
    assert (versions(warehouse), airflow.events()) == (before, events)
    assert published(warehouse) == expected()


def test_a_run_by_hand_covers_what_its_parameter_says(airflow: Airflow, warehouse: Path) -> None:
    before = versions(warehouse)
    silent = airflow.ask("dags/departures/dagRuns", {"logical_date": None, "conf": {}})["dag_run_id"]
    assert airflow.ended("departures", silent) == "failed"
    assert airflow.tasks("departures", silent)["replay"] == Task("failed", 1), "a refusal is not tried again"
    assert "parameter `to`" in airflow.log("departures", silent, "replay")
    for logical_date in (None, datetime.now(UTC).isoformat()):  # Airflow's form gives the second one
        covered = airflow.ask(
            "dags/departures/dagRuns", {"logical_date": logical_date, "conf": {"to": "2013-01-03T00:00:00Z"}}
        )["dag_run_id"]
        assert airflow.ended("departures", covered) == "success"
    assert versions(warehouse) == before


def test_a_replay_that_is_killed_changes_nothing_and_its_next_try_does_all_of_it(
    airflow: Airflow, warehouse: Path, plan: Path
) -> None:
    plan.write_text(Plan(at="before the panes are staged").text())
    run = airflow.ask(
        "dags/departures/dagRuns", {"logical_date": None, "conf": {"to": f"{NEXT_DAY}T00:00:00Z"}}
    )["dag_run_id"]
    await_(
        lambda: True if airflow.tasks("departures", run)["replay"] == Task("up_for_retry", 1) else None,
        "the end of the first try",
    )
    assert published(warehouse) == expected()
    # The next try would wait until the source can have settled; a person who clears the task need not.
    airflow.ask(
        "dags/departures/clearTaskInstances",
        {"dag_run_id": run, "dry_run": False, "only_failed": False, "task_ids": ["replay"]},
    )
    assert airflow.ended("departures", run) == "success", airflow.log("departures", run, "replay")
    assert airflow.tasks("departures", run) == {
        "replay": Task("success", 2),
        "validate": Task("success", 1),
        "publish": Task("success", 1),
        "announce": Task("success", 1),
        "conclude": Task("success", 1),
    }
    assert published(warehouse) == expected(NEXT_DAY)


def test_clearing_a_run_of_which_rows_have_changed_since_names_the_restatement(
    airflow: Airflow, warehouse: Path
) -> None:
    before = versions(warehouse)
    of_one_hour = "arrival_time >= '2013-01-02T12:00:00Z' AND arrival_time < '2013-01-02T13:00:00Z'"
    DeltaTable(warehouse / "sources" / "departures").update(
        {"dep_delay": "dep_delay + 1"}, predicate=of_one_hour
    )
    tries = airflow.tasks("departures", RUNS[1])["validate"].tries
    airflow.ask(
        "dags/departures/clearTaskInstances", {"dag_run_id": RUNS[1], "dry_run": False, "only_failed": False}
    )
    await_(
        lambda: True if airflow.tasks("departures", RUNS[1])["validate"].tries > tries else None,
        "the next try",
    )
    assert airflow.ended("departures", RUNS[1]) == "failed"
    assert airflow.tasks("departures", RUNS[1])["validate"] == Task("failed", tries + 1)
    log = airflow.log("departures", RUNS[1], "validate")
    assert "were changed or removed" in log and "/dags/departures__restate" in log
    form = {"from": "2013-01-02T00:00:00Z", "to": "2013-01-03T00:00:00Z"}
    assert json.dumps(json.dumps(form))[1:-1] in log, "a log of JSON lines"
    assert versions(warehouse) == before
