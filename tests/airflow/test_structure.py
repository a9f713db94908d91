"""Each DAG, serialized as a dict, equals its declaration written a second time by hand."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from pendulum import DateTime

from slackwater.examples import EXAMPLES
from tests.airflow.conftest import CAREFUL, ROOT, parse

MUST_BE_GIVEN = {"__type": "arg_not_set", "__var": None}
HEAVY = {
    "pyspark",
    "py4j",
    "delta",
    "deltalake",
    "pandas",
    "numpy",
    "pyarrow",
    "duckdb",
    "great_expectations",
    "rocksdict",
}

END = "{{ params.to or arrival_until(triggering_asset_events) or dag_run.data_interval_end | ts }}"
SHORT_LOG = ("--log-format", "progress")
UPKEEP = ["slackwater__maintain", "slackwater__health"]
# A name that the restate DAG of CAREFUL has.
TAKEN = "careful__restate"


def shape(dag: Any) -> dict[str, Any]:
    """The facts of a serialized DAG that decide how it runs."""
    return {
        "schedule": dag["timetable"],
        "start": dag["start_date"],
        "catchup": dag["catchup"],
        "max_active_runs": dag["max_active_runs"],
        "params": {name: param["default"] for name, param in dag["params"]},
        "edges": {
            task["__var"]["task_id"]: task["__var"].get("downstream_task_ids", []) for task in dag["tasks"]
        },
        "operators": {task["__var"]["task_id"]: task["__var"]["task_type"] for task in dag["tasks"]},
        "retries": {task["__var"]["task_id"]: task["__var"].get("retries", 0) for task in dag["tasks"]},
        "retry_delay": {task["__var"]["task_id"]: task["__var"]["retry_delay"] for task in dag["tasks"]},
        "pools": {
            task["__var"]["task_id"]: task["__var"].get("pool", "default_pool") for task in dag["tasks"]
        },
    }


def task(dag_folder: Any, dag: str, name: str) -> dict[str, Any]:
    (serialized_task,) = [
        task["__var"] for task in dag_folder["dags"][dag]["tasks"] if task["__var"]["task_id"] == name
    ]
    return serialized_task


def test_every_registered_pipeline_has_its_dag_and_nothing_fails_to_import(dag_folder: Any) -> None:
    assert dag_folder["import_errors"] == {}
    pipelines = [*EXAMPLES, "careful", "unscheduled", "delivered"]
    assert sorted(dag_folder["dags"]) == sorted(
        [*UPKEEP, *pipelines, *(f"{name}__restate" for name in pipelines)]
    )


def test_examples_have_no_dag_unless_asked_for_and_leave_their_names_to_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CAREFUL.replace('name="careful"', 'name="departures"'))
    parsed = parse(tmp_path, SLACKWATER_PIPELINES="mine.py")
    assert parsed["import_errors"] == {}
    names = ["departures", "unscheduled", "delivered"]
    assert sorted(parsed["dags"]) == sorted([*UPKEEP, *names, *(f"{name}__restate" for name in names)])
    assert parsed["dags"]["departures"]["start_date"] == 1582956000.0  # of the user's, not of the example


def test_only_files_that_declare_dags_are_parsed(dag_folder: Any) -> None:
    assert sorted(Path(file).name for file in dag_folder["files"]) == [
        "slackwater_dags.py",
        "slackwater_errors.py",
    ]


def test_parsing_imports_nothing_heavy(dag_folder: Any) -> None:
    assert "slackwater" in dag_folder["packages"]
    assert HEAVY & set(dag_folder["packages"]) == set()


def test_the_scheduled_dag_of_the_example(dag_folder: Any) -> None:
    assert shape(dag_folder["dags"]["departures"]) == {
        "schedule": {
            "__type": "airflow.timetables.interval.CronDataIntervalTimetable",
            "__var": {"expression": "0 0 * * *", "timezone": "UTC"},
        },
        "start": 1356998400.0,  # 2013-01-01T00:00:00Z
        "catchup": False,
        "max_active_runs": 1,
        "params": {"to": None, "accept": None},
        "edges": {
            "replay": ["conclude", "validate"],
            "validate": ["conclude", "publish"],
            "publish": ["announce", "conclude"],
            "announce": [],
            "conclude": [],
        },
        "operators": {
            "replay": "JobOperator",
            "validate": "ValidateOperator",
            "publish": "PublishOperator",
            "announce": "AnnounceOperator",
            "conclude": "ConcludeRunOperator",
        },
        "retries": dict.fromkeys(("replay", "validate", "publish", "announce", "conclude"), 5),
        "retry_delay": {
            "replay": 600.0,
            **dict.fromkeys(("validate", "publish", "announce", "conclude"), 60.0),
        },
        "pools": {
            "replay": "spark",
            "validate": "default_pool",
            "publish": "default_pool",
            "announce": "default_pool",
            "conclude": "default_pool",
        },
    }


def test_a_dag_takes_schedule_start_and_settling_time_from_its_pipeline(dag_folder: Any) -> None:
    careful = shape(dag_folder["dags"]["careful"])
    assert careful["schedule"]["__var"]["expression"] == "30 6 * * *"
    assert careful["start"] == 1582956000.0  # 2020-02-29T06:00:00Z
    assert careful["retry_delay"]["replay"] == 7200.0, (
        "a try that comes too early must find the source settled the next time"
    )


def test_its_docs_show_what_the_pipeline_declares(dag_folder: Any) -> None:
    docs = dag_folder["dags"]["careful"]["doc_md"].splitlines()
    assert "| key_by | `shop` |" in docs
    assert "| window | `TumblingEventTimeWindows(size=1 hour)` |" in docs
    assert "| approve_warnings | `True` |" in docs


def test_a_form_asks_for_nothing_that_need_not_be_given(dag_folder: Any) -> None:
    """Airflow's form of a run can't be sent while a text that may not be null is empty."""
    for dag in ("careful", "careful__restate"):
        for name, param in dag_folder["dags"][dag]["params"]:
            must_be_given = param["default"] == MUST_BE_GIVEN
            may_be_null = "null" in param["schema"]["__var"].get("type", ())
            is_filled_in = param["default"] not in (None, "")
            assert must_be_given or may_be_null or is_filled_in, (dag, name)


def test_a_pipeline_without_schedule_runs_by_hand_alone(dag_folder: Any) -> None:
    assert (
        shape(dag_folder["dags"]["unscheduled"])["schedule"]["__type"]
        == "airflow.timetables.simple.NullTimetable"
    )


def test_replay_submits_the_command_line_of_the_pipeline(dag_folder: Any) -> None:
    replay = task(dag_folder, "careful", "replay")
    assert replay["application_args"] == [
        *("careful", "--to", END, "--accept", "{{ params.accept or '' }}", "--no-publish"),
        *(
            "--manifest",
            "/data/manifests/careful/{{ run_id }}.json",
            *SHORT_LOG,
            "--warehouse",
            "/data/warehouse",
        ),
        *("--pipelines", f"{dag_folder['folder']}/mine.py"),
    ]
    assert replay["application"] == str(ROOT / "jobs/replay.py")
    assert replay["conf"] == {"spark.executor.memory": "4g"}
    assert replay["env_vars"] == {"SLACKWATER_SPARK_BIN": "/opt/spark-environment/bin"}


def test_validate_and_publish_read_what_replay_and_validate_left(dag_folder: Any) -> None:
    assert "task_ids='replay'" in task(dag_folder, "careful", "validate")["manifest"]
    assert "task_ids='validate'" in task(dag_folder, "careful", "publish")["run_id"]


def test_conclude_runs_behind_skipped_tasks_and_not_behind_failed_ones(dag_folder: Any) -> None:
    """So it judges a run again of which a failed task was marked a success by hand."""
    conclude = task(dag_folder, "careful", "conclude")
    assert (conclude["trigger_rule"], "task_ids='validate'" in conclude["run_id"]) == ("none_failed", True)


def test_announce_names_the_published_table(dag_folder: Any) -> None:
    (asset,) = task(dag_folder, "departures", "announce")["outlets"]
    assert (asset["__var"]["name"], asset["__var"]["uri"]) == (
        "departures.published",
        "file:///data/warehouse/departures/published",
    )


def test_the_restating_dag_of_a_pipeline_is_one_application_and_is_started_by_hand_alone(
    dag_folder: Any,
) -> None:
    assert shape(dag_folder["dags"]["careful__restate"]) == {
        "schedule": {"__type": "airflow.timetables.simple.NullTimetable", "__var": {}},
        "start": 1582956000.0,
        "catchup": False,
        "max_active_runs": 1,
        "params": {
            "from": MUST_BE_GIVEN,
            "to": MUST_BE_GIVEN,
            "until": "state and code",
            "publish": True,
            "reason": None,
        },
        "edges": {"restate": ["conclude"], "conclude": ["announce"], "announce": []},
        "operators": {
            "restate": "JobOperator",
            "conclude": "ConcludeOperator",
            "announce": "AnnounceOperator",
        },
        "retries": {"restate": 5, "conclude": 5, "announce": 5},
        "retry_delay": {"restate": 7200.0, "conclude": 60.0, "announce": 60.0},
        "pools": {"restate": "spark", "conclude": "default_pool", "announce": "default_pool"},
    }


def test_a_restate_dag_is_not_paused_when_it_is_made(dag_folder: Any) -> None:
    for name, dag in dag_folder["dags"].items():
        assert dag.get("is_paused_upon_creation") is (False if name.endswith("__restate") else None), name


def test_nothing_is_scheduled_behind_the_data_of_an_example(dag_folder: Any) -> None:
    """README's first step un-pauses `departures`, years after its last row."""
    end = datetime(2014, 1, 2, tzinfo=UTC)
    dag = dag_folder["dags"]["departures"]
    assert dag["end_date"] == end.timestamp()
    schedule = CronDataIntervalTimetable("@daily", timezone="UTC")
    limits = {"earliest": DateTime(2013, 1, 1, tzinfo=UTC), "catchup": False}
    unpaused = {"last_automated_data_interval": None}
    assert schedule.next_dagrun_info(**unpaused, restriction=TimeRestriction(latest=None, **limits))
    ending = TimeRestriction(latest=DateTime.instance(end), **limits)
    assert schedule.next_dagrun_info(**unpaused, restriction=ending) is None
    assert "end_date" not in dag_folder["dags"]["careful"]


def test_each_task_links_to_the_page_of_its_run(dag_folder: Any) -> None:
    for dag in ("delivered", "delivered__restate"):
        for serialized_task in dag_folder["dags"][dag]["tasks"]:
            assert serialized_task["__var"]["_operator_extra_links"]["Slackwater"] == "_link_RunPageLink"


def test_each_sink_has_a_task_of_its_own_behind_the_publication(dag_folder: Any) -> None:
    sinks = ["deliver_feed", "deliver_report"]
    scheduled, restating = (
        shape(dag_folder["dags"]["delivered"]),
        shape(dag_folder["dags"]["delivered__restate"]),
    )
    assert sorted(scheduled["edges"]["publish"]) == ["announce", "conclude", *sinks]
    assert sorted(restating["edges"]["conclude"]) == ["announce", *sinks]
    assert {scheduled["operators"][name] for name in sinks} == {"DeliverOperator"}
    assert [scheduled["retries"][name] for name in sinks] == [5, 5]


def test_restate_submits_the_command_line_of_its_parameters(dag_folder: Any) -> None:
    restate = task(dag_folder, "careful__restate", "restate")
    manifest = "/data/manifests/careful__restate/{{ run_id }}.json"
    assert restate["application_args"] == [
        *("careful", "--from", "{{ params['from'] }}", "--to", "{{ params.to }}"),
        "{{ '--until-converged' if params.until == 'state' else '--until-same-code' }}",
        "{{ '--publish' if params.publish else '--preview' }}",
        *(
            "--reason",
            "{{ params.reason or 'restated from Airflow' }}",
            "--manifest",
            manifest,
            "--no-deliver",
            *SHORT_LOG,
        ),
        *("--warehouse", "/data/warehouse", "--pipelines", f"{dag_folder['folder']}/mine.py"),
    ]
    assert restate["application"] == str(ROOT / "jobs/backfill.py")
    assert "task_ids='restate'" in task(dag_folder, "careful__restate", "conclude")["manifest"]
    (asset,) = task(dag_folder, "careful__restate", "announce")["outlets"]
    assert asset["__var"]["name"] == "careful.published", "consumers need not know who has changed it"


def test_applications_lie_alone_in_their_folder_and_hide_no_module() -> None:
    files = [file for file in (ROOT / "jobs").iterdir() if file.name != "__pycache__"]
    assert sorted(file.name for file in files) == [
        *("backfill.py", "maintain.py", "publish.py", "replay.py", "slackwater_job.py"),
    ]
    assert not {file.stem for file in files} & sys.stdlib_module_names


def test_a_pipelines_file_that_cannot_be_loaded_is_shown_as_an_import_error_by_airflow(
    tmp_path: Path,
) -> None:
    errors = parse(tmp_path, SLACKWATER_PIPELINES="missing.py")["import_errors"]
    assert "there is no such file" in json.dumps(errors)


def test_a_pipeline_that_has_no_dags_takes_no_other_ones_away(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "good.py").write_text(CAREFUL)
    (folder / "broken.py").write_text("1 / 0")
    (folder / "taken.py").write_text(
        CAREFUL.replace('name="', 'name="other_').replace("other_careful", TAKEN)
    )
    (folder / "clock.py").write_text(
        CAREFUL.replace('name="', 'name="third_').replace("30 6 * * *", "0 24 * * *")
    )
    parsed = parse(tmp_path, SLACKWATER_PIPELINES="pipelines")
    [(file, message)] = parsed["import_errors"].items()
    assert Path(file).name == "slackwater_errors.py"
    assert f"{folder}/broken.py: ZeroDivisionError while loading" in message
    assert f"pipeline '{TAKEN}': ValueError: the restate DAG of 'careful' has this name" in message
    assert "Pipeline 'third_careful': schedule: '0 24 * * *' is no cron expression" in message
    names = ["careful", "unscheduled", "delivered", "other_unscheduled", "other_delivered"]
    assert sorted(parsed["dags"]) == sorted([*UPKEEP, *names, *(f"{name}__restate" for name in names)])


def test_a_dag_file_of_one_line_says_what_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CAREFUL)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine_dags.py").write_text(
        "from slackwater.airflow import dags\n"
        'globals().update(dags(pipelines="mine.py", warehouse="s3://lake/w", pool="own"))\n'
    )
    parsed = parse(tmp_path, dags=tmp_path / "dags", SLACKWATER_WAREHOUSE="/elsewhere")
    assert parsed["import_errors"] == {}
    replay = task(parsed, "careful", "replay")
    assert replay["application_args"][-4:] == [
        *("--warehouse", "s3://lake/w"),
        *("--pipelines", f"{tmp_path}/mine.py"),
    ]
    assert replay["pool"] == "own"


def test_the_dags_of_the_whole_warehouse_have_schedules_of_their_own(tmp_path: Path) -> None:
    parsed = parse(tmp_path, SLACKWATER_UPKEEP="lake", SLACKWATER_HEALTH_SCHEDULE="*/15 * * * *")
    maintain, health = (parsed["dags"][name] for name in ("lake__maintain", "lake__health"))
    assert maintain["timetable"]["__var"]["expression"] == "0 0 * * 0"
    assert health["timetable"]["__var"]["expression"] == "*/15 * * * *"
    assert [task["__var"]["task_id"] for task in health["tasks"]] == ["health"]
    pipelines = task(parsed, "lake__maintain", "pipelines")
    assert (pipelines["task_type"], pipelines["downstream_task_ids"]) == ("PipelinesOperator", ["maintain"])
    assert task(parsed, "lake__maintain", "maintain")["_is_mapped"]


def test_a_schedule_that_is_none_takes_no_other_dag_away(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CAREFUL)
    parsed = parse(tmp_path, SLACKWATER_PIPELINES="mine.py", SLACKWATER_HEALTH_SCHEDULE="sometimes")
    assert "sometimes" in json.dumps(parsed["import_errors"])
    assert {"careful", "slackwater__maintain"} <= parsed["dags"].keys()
    assert "slackwater__health" not in parsed["dags"]


def test_a_team_sets_options_for_all_dags_and_for_those_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CAREFUL)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine_dags.py").write_text(
        "from datetime import timedelta\n"
        "from airflow.sdk import SyncCallback\n"
        "from slackwater.airflow import DagOptions, dags\n"
        "team = DagOptions(tags=['sales'], default_args={'owner': 'sales', 'queue': 'spark'})\n"
        "careful = DagOptions(dag_args={'max_active_tasks': 3}, on_overdue=SyncCallback('sales.page'),\n"
        "    default_args={'execution_timeout': timedelta(hours=2)},\n"
        "    approval={'response_timeout': timedelta(hours=8), 'defaults': 'Reject'})\n"
        "globals().update(dags('mine.py', options=team, options_of={'careful': careful}))\n"
    )
    parsed = parse(tmp_path, dags=tmp_path / "dags")
    assert parsed["import_errors"] == {}
    careful, delivered = parsed["dags"]["careful"], parsed["dags"]["delivered"]
    assert (careful["tags"], careful["max_active_tasks"]) == (["slackwater"], 3)
    (alert,) = careful["deadline"]
    assert alert["reference"] == {"reference_type": "DagRunQueuedAtDeadline"}
    assert alert["interval"]["__data__"] == 8 * 3600, "it settles in two hours, and is red six hours later"
    assert alert["callback"]["__data__"]["path"] == "sales.page"
    assert task(parsed, "careful", "publish")["execution_timeout"] == 7200.0
    assert "execution_timeout" not in task(parsed, "careful", "validate")
    assert sorted(delivered["tags"]) == ["sales", "slackwater"]
    for name in ("delivered", "delivered__restate", "slackwater__health"):
        for serialized_task in parsed["dags"][name]["tasks"]:
            assert serialized_task["__var"]["owner"] == "sales"


def test_options_of_what_is_no_pipeline_are_told(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CAREFUL)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "errors.py").write_text(
        "from slackwater.airflow import DagOptions, check  # no dag\n"
        "check('mine.py', options_of={'carefull': DagOptions()})\n"
    )
    [message] = parse(tmp_path, dags=tmp_path / "dags")["import_errors"].values()
    assert "options_of names what is no pipeline: carefull" in message
