"""A replay begins when it may, runs as a process of its task or as a Spark application, and hands its outcome
on. `slackwater` is a script that answers.
"""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRescheduleException

from slackwater.airflow.assets import arrival_until
from slackwater.airflow.page_links import STAGED_RUN_KEY
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.replay import prepare
from slackwater.airflow.tasks.spark_environment import master_of
from slackwater.args import manifest_fields, write_manifest
from tests.airflow.commands import install
from tests.airflow.outcomes import STAGED_MANIFEST, job_operator


def test_without_a_spark_connection_a_command_is_a_process_of_the_task_and_its_outcome_goes_on(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "manifests" / "run.json"
    write_manifest(STAGED_MANIFEST, tmp_path / "left.json")
    seen = tmp_path / "seen"
    manifest.parent.mkdir()
    calls = install(settings, f"echo $SLACKWATER_PARENT > {seen}; cp {tmp_path}/left.json {manifest}")
    summaries: dict[str, str] = {}
    ti = SimpleNamespace(xcom_push=summaries.__setitem__, dag_id="departures", run_id="by hand")
    context = {"ti": ti}
    assert job_operator(settings, manifest).execute(context) == manifest_fields(STAGED_MANIFEST)
    assert calls.read_text() == f"run departures --manifest {manifest} --warehouse w\n"
    assert seen.read_text() == f"{os.getpid()}\n"
    staged, counts = summaries["summary"].splitlines()
    assert staged == "2 slices, 2013-01-01 to 2013-01-03: passed, 2.5 s"
    assert counts == "rows 1,454  fired 85  refired 202  late 2  quarantined 12"
    assert not manifest.exists(), "what was handed on is not kept"
    *_, page, last_but_one, last = capsys.readouterr().out.splitlines()
    assert "/slackwater/-/dags/departures/runs/by%20hand" in page
    assert staged in last_but_one and counts in last, "the last lines say what was done"


def spark_submit(settings: Settings, script: str) -> None:
    """Have a script answer in place of spark-submit, whose arguments it keeps in the file `submitted`."""
    python = settings.spark_bin / "python"
    python.parent.mkdir(exist_ok=True)
    python.write_text(f'#!/bin/bash\necho "$@" >{python.parent}/submitted\n{script}\n')
    python.chmod(0o755)


def test_with_a_spark_connection_it_is_a_pyspark_application_of_airflows_operator(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, seen = tmp_path / "manifests" / "run.json", tmp_path / "seen"
    manifest.parent.mkdir()
    write_manifest(STAGED_MANIFEST, tmp_path / "left.json")
    monkeypatch.delenv("SLACKWATER_SPARK_LOG_FILE", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", '{"conn_type": "spark", "host": "local[3]"}')
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE",
        '{"conn_type": "slackwater", "extra": {"storage": "{\\"AWS_SECRET_ACCESS_KEY\\": \\"s3\\"}"}}',
    )
    variables = "$SLACKWATER_PARENT $AWS_SECRET_ACCESS_KEY $SLACKWATER_SPARK_LOG_FILE"
    spark_submit(settings, f"echo {variables} >{seen}; cp {tmp_path}/left.json {manifest}")
    operator = job_operator(replace(settings, connection="lake"), manifest)
    context = {"ti": MagicMock(dag_id="departures", run_id="by hand", stats_tags={})}
    assert operator.execute(context)["run_id"] == STAGED_MANIFEST.run_id
    words = (settings.spark_bin / "submitted").read_text()
    assert words.startswith("-m slackwater.runtime.spark_submit --master local[3] ")
    assert words.endswith(f"jobs/replay.py departures --manifest {manifest} --warehouse w\n")
    assert seen.read_text() == f"{os.getpid()} s3 {manifest.parent}/spark.log\n"
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ and "AWS_SECRET" not in words


@pytest.mark.parametrize(("code", "is_final"), [(3, False), (1, False), (2, True)])
def test_an_application_that_ends_without_an_outcome_is_tried_again_unless_it_cannot_be(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, code: int, is_final: bool
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", '{"conn_type": "spark", "host": "local[3]"}')
    spark_submit(settings, f"echo why it ended; exit {code}")
    with pytest.raises(AirflowException, match="why it ended") as error:
        job_operator(settings, tmp_path / "run.json").execute({"ti": MagicMock()})
    assert isinstance(error.value, AirflowFailException) is is_final


@pytest.mark.parametrize("ending", ["exit 3", "exit 1", "kill -9 $$"])
def test_a_command_that_leaves_no_outcome_is_tried_again(
    tmp_path: Path, settings: Settings, ending: str
) -> None:
    install(settings, f"echo another run is alive; {ending}")
    with pytest.raises(AirflowException, match=r"must be tried again .*another run is alive") as error:
        job_operator(settings, tmp_path / "run.json").execute({})
    assert not isinstance(error.value, AirflowFailException)


def test_a_command_that_cannot_be_is_not_tried_again(tmp_path: Path, settings: Settings) -> None:
    install(settings, "echo mine.py: SyntaxError while loading; exit 2")
    with pytest.raises(AirflowFailException, match="SyntaxError while loading"):
        job_operator(settings, tmp_path / "run.json").execute({})


def test_an_outcome_that_is_not_there_fails_for_good(tmp_path: Path, settings: Settings) -> None:
    install(settings, "exit 0")
    with pytest.raises(AirflowFailException, match="Clear the task `replay`"):
        job_operator(settings, tmp_path / "run.json").execute({})


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (Connection(conn_id="s", conn_type="spark", host="local[2]"), "local[2]"),
        (Connection(conn_id="s", conn_type="spark", host="yarn"), "yarn"),
        (Connection(conn_id="s", conn_type="spark", host="spark://m", port=7077), "spark://m:7077"),
        (Connection(conn_id="s", conn_type="spark", host="m", port=7077), "spark://m:7077"),
        (Connection(conn_id="s", conn_type="k8s", host="https://m", port=443), "k8s://https://m:443"),
    ],
)
def test_the_master_is_that_of_airflows_connection(connection: Any, master: str) -> None:
    assert master_of(connection) == master


def replay_context(run_type: str, to: str | None, interval: tuple[Any, Any] = (None, None)) -> dict[str, Any]:
    start, end = interval
    dag_run = SimpleNamespace(run_type=run_type, data_interval_start=start, data_interval_end=end)
    return {
        "dag_run": dag_run,
        "params": {"to": to},
        "triggering_asset_events": {},
        "task": SimpleNamespace(forget_manifest=list),
    }


SETTLE = timedelta(minutes=10)
DAY = (datetime(2013, 1, 3, tzinfo=UTC), datetime(2013, 1, 4, tzinfo=UTC))


@pytest.mark.parametrize(
    ("run_type", "to", "interval"),
    [
        ("scheduled", None, DAY),
        ("backfill", None, DAY),
        ("manual", None, DAY),  # with a logical date
        ("manual", "2013-01-04T00:00:00Z", (None, None)),
        ("scheduled", "2013-01-04", DAY),
    ],
)
def test_a_try_starts_without_a_rejection_of_the_one_before(
    tmp_path: Path, settings: Settings, run_type: str, to: str | None, interval: tuple[Any, Any]
) -> None:
    file = tmp_path / "run.json"
    write_manifest(replace(STAGED_MANIFEST, outcome="rejected", exit_code=4, verdict="failed"), file)
    context = replay_context(run_type, to, interval) | {"task": job_operator(settings, file)}
    prepare(context, SETTLE)
    assert not file.exists()
    prepare(context, SETTLE)


def test_what_a_killed_task_did_not_hand_on_is_not_done_again(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "run.json"
    write_manifest(STAGED_MANIFEST, file)
    calls = install(settings, "exit 3")
    operator = job_operator(settings, file)
    prepare(replay_context("scheduled", None, DAY) | {"task": operator}, SETTLE)
    context = {"ti": MagicMock(dag_id="departures", run_id="by hand")}
    assert operator.execute(context) == manifest_fields(STAGED_MANIFEST)
    assert not calls.exists() and not file.exists()


@pytest.mark.parametrize("outcome", ["refused", "failed", "lost"])
def test_a_refusal_fails_the_replay_itself_and_hands_on_what_was_staged(
    tmp_path: Path, settings: Settings, outcome: Any
) -> None:
    file = tmp_path / "run.json"
    message = "too many slices. Run it with `slackwater run departures --to 2013-01-09 --all`."
    write_manifest(replace(STAGED_MANIFEST, outcome=outcome, exit_code=2, message=message), file)
    context = {"ti": MagicMock(dag_id="departures", run_id="by hand")}
    with pytest.raises(AirflowFailException, match=rf"^{outcome} \(exit 2\): too many slices") as error:
        job_operator(settings, file).execute(context)
    assert f"--all --warehouse {settings.warehouse}`." in str(error.value)
    pushed = {call.args[0]: call.args[1] for call in context["ti"].xcom_push.call_args_list}
    assert pushed["return_value"]["run_ids"] == ["a1", "b2"]
    assert pushed[STAGED_RUN_KEY] == "b2"


def test_what_replay_hands_on_is_plain_json(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "run.json"
    write_manifest(STAGED_MANIFEST, file)
    value = job_operator(settings, file).execute({"ti": MagicMock(dag_id="departures", run_id="by hand")})
    assert value == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("run_type", "interval"),
    [
        ("manual", (None, None)),
        ("manual", (DAY[1], DAY[1])),  # of a DAG without a schedule
        ("operator_triggered", (None, None)),
    ],
)
def test_a_run_without_interval_and_without_parameter_is_refused(
    run_type: str, interval: tuple[Any, Any]
) -> None:
    with pytest.raises(AirflowFailException, match="parameter `to`"):
        prepare(replay_context(run_type, None, interval), SETTLE)


def event(**extra: Any) -> Any:
    return SimpleNamespace(extra=extra)


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ({"orders": [event(arrival_until="2013-01-04T00:00:00Z")]}, "2013-01-04T00:00:00Z"),
        # The newest of a source counts, and of several the one that lags.
        (
            {
                "orders": [
                    event(arrival_until="2013-01-05T00:00:00+00:00"),
                    event(arrival_until="2013-01-04"),
                ],
                "returns": [event(), event(arrival_until="2013-01-04T23:00:00-02:00")],
            },
            "2013-01-05T00:00:00+00:00",
        ),
        ({"orders": [event(arrival_until="2013-01-04")], "returns": [event(rows=3)]}, None),
        ({"orders": [event()]}, None),
        ({}, None),
    ],
)
def test_a_run_that_its_sources_start_goes_up_to_where_all_of_them_are_there(
    events: dict[str, list[Any]], end: str | None
) -> None:
    assert arrival_until(events) == end
    context = replay_context("asset_triggered", None) | {"triggering_asset_events": events}
    if end is None:
        with pytest.raises(AirflowFailException, match="arrival_until"):
            prepare(context, SETTLE)
    else:
        prepare(context, SETTLE)


def test_an_event_that_names_no_time_is_refused() -> None:
    events = {"orders": [event(arrival_until="yesterday")]}
    context = replay_context("asset_triggered", None) | {"triggering_asset_events": events}
    with pytest.raises(AirflowFailException, match="it is a time such as"):
        prepare(context, SETTLE)


@pytest.mark.parametrize("to", ["yesterday", "2013-13-01"])
def test_a_parameter_that_is_no_time_is_refused(to: str) -> None:
    with pytest.raises(AirflowFailException, match="it is a time such as"):
        prepare(replay_context("manual", to), SETTLE)


@pytest.mark.parametrize("says_to", [True, False])
def test_a_try_before_the_source_has_settled_is_put_off_until_it_has(says_to: bool) -> None:
    end = datetime.now(UTC) - timedelta(minutes=4)
    to, interval = (end.isoformat(), (None, None)) if says_to else (None, (end - timedelta(days=1), end))
    context = replay_context("manual", to, interval)
    with pytest.raises(AirflowRescheduleException) as put_off:
        prepare(context, SETTLE)
    assert put_off.value.reschedule_date == end + SETTLE
    prepare(context, timedelta(minutes=3))


def test_a_time_without_an_offset_is_one_of_the_pipelines_zone() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    end = datetime.now(UTC) - timedelta(minutes=4)
    by_its_clocks = end.astimezone(tokyo).replace(tzinfo=None).isoformat()
    with pytest.raises(AirflowRescheduleException) as put_off:
        prepare(replay_context("manual", by_its_clocks), SETTLE, tokyo)
    assert put_off.value.reschedule_date == end + SETTLE
    # Midnight of 4 January in Tokyo is 15:00 UTC of the day before.
    events = [event(arrival_until="2013-01-04"), event(arrival_until="2013-01-03T16:00:00Z")]
    assert arrival_until({"orders": events}, tokyo) == "2013-01-03T16:00:00Z"
    assert arrival_until({"orders": events}) == "2013-01-04"


def test_a_run_into_the_future_is_not_put_off_until_then() -> None:
    to = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    prepare(replay_context("manual", to), SETTLE)
