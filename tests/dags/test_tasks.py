"""The tasks act on the outcome of a replay. Covers all of dags/tasks; outcomes and ledgers are written by
hand, and `slackwater` is a script that answers.
"""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Connection
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    TaskAwaitingInput,
)

from slackwater.dags.page_links import STAGED_RUN_KEY, RunPageLink
from slackwater.dags.settings import Settings
from slackwater.dags.tasks import restate, validate
from slackwater.dags.tasks.announce import SEQ_KEY, AnnounceOperator
from slackwater.dags.tasks.job import JobOperator, master_of
from slackwater.dags.tasks.publish import PublishOperator
from slackwater.dags.tasks.replay import prepare
from slackwater.dags.tasks.validate import ValidateOperator
from slackwater.jobs.args import Failure, Manifest, manifest_fields, write_manifest
from slackwater.jobs.pipelines.registry import load
from tests.dags.commands import install

STAGED_MANIFEST = Manifest(
    pipeline="departures",
    outcome="staged",
    exit_code=0,
    run_id="b2",
    run_ids=("a1", "b2"),
    verdict="passed",
    message="2 slices staged",
    failures=(),
    slices=(
        ("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00"),
        ("2013-01-02T00:00:00+00:00", "2013-01-03T00:00:00+00:00"),
    ),
)
WARNING = Failure(
    run_id="b2",
    expectation="between(min=1)",
    column_name="flights",
    severity="warn",
    observed="0",
    unexpected=3,
    checked=812,
)
COVERED_MANIFEST = replace(
    STAGED_MANIFEST,
    outcome="nothing",
    run_id=None,
    run_ids=(),
    verdict=None,
    slices=(),
    message="covered already",
)

RESTATED_MANIFEST = replace(
    STAGED_MANIFEST,
    outcome="published",
    message="published as run 9; 12 rows updated in `published`, on 1 day.",
)


class Messages(dict[str, Any]):
    """The two calls of a task instance that pass values from one process to the next."""

    def xcom_push(self, key: str, value: Any) -> None:
        self[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert task_ids == "validate"
        return self.get(key)


def fresh_context() -> dict[str, Any]:
    return {"ti": Messages()}


def returned(manifest: Manifest | None) -> Any:
    """What the task before it has returned, as Airflow hands it on."""
    return None if manifest is None else json.loads(json.dumps(manifest_fields(manifest)))


def validate_operator(manifest: Manifest | None, *, asks: bool = False) -> ValidateOperator:
    return ValidateOperator(task_id="validate", pipeline="departures", manifest=returned(manifest), asks=asks)


def job_operator(settings: Settings, manifest: Path) -> JobOperator:
    arguments = ["run", "departures", "--manifest", str(manifest), "--warehouse", "w"]
    pipeline = load(examples=True)["departures"]
    return JobOperator(task_id="replay", pipeline=pipeline, arguments=arguments, settings=settings)


# --- jobs


def test_a_command_is_a_process_of_the_task_and_its_outcome_goes_on(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "manifests" / "run.json"
    write_manifest(STAGED_MANIFEST, tmp_path / "left.json")
    seen = tmp_path / "seen"
    variables = "$SLACKWATER_MASTER $SLACKWATER_SPARK_CONF $SLACKWATER_PARENT"
    manifest.parent.mkdir()
    calls = install(settings, f"echo {variables} > {seen}; cp {tmp_path}/left.json {manifest}")
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", "spark://master.example:7077")
    assert job_operator(settings, manifest).execute({}) == manifest_fields(STAGED_MANIFEST)
    assert calls.read_text() == f"run departures --manifest {manifest} --warehouse w\n"
    assert seen.read_text() == f"spark://master.example:7077 {{}} {os.getpid()}\n"
    assert not manifest.exists(), "what was handed on is not kept"


@pytest.mark.parametrize("ending", ["exit 3", "exit 1", "kill -9 $$"])
def test_a_command_that_leaves_no_outcome_is_tried_again(
    tmp_path: Path, settings: Settings, ending: str
) -> None:
    install(settings, f"echo another run is alive; {ending}")
    with pytest.raises(AirflowException, match=r"must be tried again .*another run is alive") as error:
        job_operator(settings, tmp_path / "run.json").execute({})
    assert not isinstance(error.value, AirflowFailException)


def test_an_outcome_that_is_not_there_fails_for_good(tmp_path: Path, settings: Settings) -> None:
    install(settings, "exit 0")
    with pytest.raises(AirflowFailException, match="Clear the task `replay`"):
        job_operator(settings, tmp_path / "run.json").execute({})


def test_a_driver_in_a_cluster_is_airflows_own_spark_application(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = install(settings, "exit 0")
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", json.dumps(connection))
    submitted = []

    def execute(self: Any, context: Any) -> None:
        submitted.append(self.application)
        write_manifest(STAGED_MANIFEST, tmp_path / "run.json")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    assert job_operator(settings, tmp_path / "run.json").execute({})["run_id"] == "b2"
    assert Path(submitted[0]).name == "slackwater_job.py" and not calls.exists()


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (None, "local[*]"),
        (Connection(conn_id="s", conn_type="spark", host="local[2]"), "local[2]"),
        (Connection(conn_id="s", conn_type="spark", host="yarn"), "yarn"),
        (Connection(conn_id="s", conn_type="spark", host="spark://m", port=7077), "spark://m:7077"),
        (Connection(conn_id="s", conn_type="spark", host="m", port=7077), "spark://m:7077"),
        (Connection(conn_id="s", conn_type="k8s", host="https://m", port=443), "k8s://https://m:443"),
    ],
)
def test_the_master_is_that_of_airflows_connection(connection: Any, master: str) -> None:
    assert master_of(connection) == master


# --- replay


def replay_context(run_type: str, to: str | None, interval: tuple[Any, Any] = (None, None)) -> dict[str, Any]:
    start, end = interval
    dag_run = SimpleNamespace(run_type=run_type, data_interval_start=start, data_interval_end=end)
    return {"dag_run": dag_run, "params": {"to": to}, "task": SimpleNamespace(forget_manifest=list)}


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
def test_a_try_starts_without_the_manifest_of_the_one_before(
    tmp_path: Path, settings: Settings, run_type: str, to: str | None, interval: tuple[Any, Any]
) -> None:
    file = tmp_path / "run.json"
    write_manifest(STAGED_MANIFEST, file)
    context = replay_context(run_type, to, interval) | {"task": job_operator(settings, file)}
    prepare(context, SETTLE)
    assert not file.exists()
    prepare(context, SETTLE)


@pytest.mark.parametrize(
    ("run_type", "interval"),
    [
        ("manual", (None, None)),
        ("manual", (DAY[1], DAY[1])),  # of a DAG without a schedule
        ("asset_triggered", DAY),
        ("operator_triggered", (None, None)),
    ],
)
def test_a_run_without_interval_and_without_parameter_is_refused(
    run_type: str, interval: tuple[Any, Any]
) -> None:
    with pytest.raises(AirflowFailException, match="parameter `to`"):
        prepare(replay_context(run_type, None, interval), SETTLE)


@pytest.mark.parametrize("to", ["yesterday", "2013-13-01", ""])
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


def test_a_run_into_the_future_is_not_put_off_until_then() -> None:
    to = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    prepare(replay_context("manual", to), SETTLE)


# --- links


@pytest.mark.parametrize(
    ("base_url", "path"), [("http://airflow.example", ""), ("https://example.org/flow/", "/flow")]
)
def test_a_task_links_to_the_page_of_what_its_dag_run_has_made(
    monkeypatch: pytest.MonkeyPatch, base_url: str, path: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    key = SimpleNamespace(dag_id="departures", run_id="scheduled__2013-01-02T00:00:00+00:00/?")
    url = RunPageLink().get_link(object(), ti_key=key)
    run_id = "scheduled__2013-01-02T00%3A00%3A00%2B00%3A00%2F%3F"
    assert url == f"{path}/slackwater/-/dags/departures/runs/{run_id}"


# --- restate


def restate_context(**params: Any) -> dict[str, Any]:
    return {
        "params": {"from": "2013-01-02", "to": "2013-01-03T00:00:00Z", **params},
        "task": SimpleNamespace(forget_manifest=list),
    }


def test_a_try_of_a_restatement_starts_without_the_manifest_of_the_one_before(
    tmp_path: Path, settings: Settings
) -> None:
    file = tmp_path / "run.json"
    write_manifest(RESTATED_MANIFEST, file)
    restate.prepare(restate_context() | {"task": job_operator(settings, file)})
    assert not file.exists()


@pytest.mark.parametrize("params", [{"from": "yesterday"}, {"to": ""}, {"from": None}])
def test_a_restatement_of_what_is_no_range_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(
        AirflowFailException, match=f"The parameter `{next(iter(params))}` is .*; it is a time such as"
    ):
        restate.prepare(restate_context(**params))


def conclude_operator(manifest: Manifest | None) -> restate.ConcludeOperator:
    return restate.ConcludeOperator(task_id="conclude", manifest=returned(manifest))


@pytest.mark.parametrize("outcome", ["published", "kept"])
def test_a_restatement_that_ended_as_asked_says_what_it_did(outcome: Any) -> None:
    operator = conclude_operator(replace(RESTATED_MANIFEST, outcome=outcome))
    context = fresh_context()
    assert operator.execute(context) == "published as run 9; 12 rows updated in `published`, on 1 day."
    assert context["ti"] == {STAGED_RUN_KEY: "b2"}


@pytest.mark.parametrize(
    ("outcome", "exit_code"), [("rejected", 4), ("refused", 2), ("lost", 5), ("failed", 1)]
)
def test_a_restatement_that_would_end_so_again_fails_for_good(outcome: Any, exit_code: int) -> None:
    manifest = replace(RESTATED_MANIFEST, outcome=outcome, exit_code=exit_code, message="flights is 0")
    with pytest.raises(AirflowFailException, match=rf"{outcome} \(exit {exit_code}\): flights is 0"):
        conclude_operator(manifest).execute(fresh_context())
    with pytest.raises(AirflowFailException, match="Clear the task `replay` or `restate`"):
        conclude_operator(None).execute(fresh_context())


# --- validate


def test_a_passed_run_goes_on_to_be_published() -> None:
    assert validate_operator(STAGED_MANIFEST, asks=True).execute(fresh_context()) == "b2"


def test_a_covered_range_goes_on_with_nothing_to_publish() -> None:
    assert validate_operator(COVERED_MANIFEST).execute(fresh_context()) is None


@pytest.mark.parametrize(("outcome", "exit_code"), [("rejected", 4), ("refused", 2), ("lost", 5)])
def test_any_other_outcome_fails_for_good_and_says_why(outcome: Any, exit_code: int) -> None:
    other_outcome = replace(
        COVERED_MANIFEST, outcome=outcome, exit_code=exit_code, message="flights is 0 in 3 panes"
    )
    with pytest.raises(
        AirflowFailException, match=rf"{outcome} \(exit {exit_code}\): flights is 0 in 3 panes"
    ):
        validate_operator(other_outcome, asks=True).execute(fresh_context())


def test_a_staged_run_whose_verdict_is_failed_is_not_published() -> None:
    context = fresh_context()
    with pytest.raises(AirflowFailException, match="verdict is failed"):
        validate_operator(replace(STAGED_MANIFEST, run_ids=("b2",), verdict="failed")).execute(context)
    assert context["ti"][STAGED_RUN_KEY] == "b2", "its page shows the checks that it failed"


@pytest.mark.parametrize(("outcome", "good"), [("rejected", "a1"), ("refused", "b2"), ("failed", "b2")])
def test_good_slices_go_on_and_the_dag_run_fails_behind_them(outcome: Any, good: str) -> None:
    verdict: Any = "failed" if outcome == "rejected" else "passed"
    manifest = replace(STAGED_MANIFEST, outcome=outcome, exit_code=4, verdict=verdict, message="no flights")
    context = fresh_context()
    assert validate_operator(manifest).execute(context) == good
    assert context["ti"][STAGED_RUN_KEY] == "b2", "its page shows the checks that it failed"
    next_step = r" Once .* clear the task `replay`\.$" if outcome == "rejected" else "$"
    with pytest.raises(AirflowFailException, match=rf"{outcome} \(exit 4\): no flights{next_step}"):
        validate.ConcludeRunOperator(task_id="conclude").execute(context)


def test_slices_behind_a_lost_race_do_not_go_on() -> None:
    manifest = replace(STAGED_MANIFEST, outcome="lost", exit_code=5, message="run 7 was first")
    with pytest.raises(AirflowFailException, match="run 7 was first"):
        validate_operator(manifest).execute(fresh_context())


def test_warnings_of_good_slices_before_a_rejected_one_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **question: None
    )
    rejected = replace(STAGED_MANIFEST, outcome="rejected", exit_code=4, verdict="failed")
    error = replace(WARNING, severity="error")
    only_the_last = replace(rejected, failures=(error,))
    assert validate_operator(only_the_last, asks=True).execute(fresh_context()) == "a1"
    both = replace(rejected, failures=(replace(WARNING, run_id="a1"), error))
    context = {"ti": Messages(), "task_instance": SimpleNamespace(id="1")}
    operator = validate_operator(both, asks=True)
    with pytest.raises(TaskAwaitingInput):
        operator.execute(context)
    assert operator.execute_complete(context, human_answer("Approve")) == "a1"


def test_a_run_without_refusals_concludes_well() -> None:
    context = fresh_context()
    validate_operator(STAGED_MANIFEST).execute(context)
    validate.ConcludeRunOperator(task_id="conclude").execute(context)


def test_a_missing_manifest_fails_for_good_and_names_the_next_step() -> None:
    with pytest.raises(AirflowFailException, match="Clear the task `replay`"):
        validate_operator(None).execute(fresh_context())


def test_warnings_pass_where_the_pipeline_asks_for_no_approval() -> None:
    assert (
        validate_operator(replace(STAGED_MANIFEST, verdict="warned", failures=(WARNING,))).execute(
            fresh_context()
        )
        == "b2"
    )


@pytest.fixture
def pending_question(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[ValidateOperator, dict[str, Any], dict[str, Any]]:
    """An operator that has put its question and waits, its context, and the question."""
    questions: list[dict[str, Any]] = []
    hitl = "airflow.providers.standard.operators.hitl.upsert_hitl_detail"
    monkeypatch.setattr(hitl, lambda **question: questions.append(question))
    instance = Messages()
    context = {"ti": instance, "task_instance": SimpleNamespace(id="1")}
    operator = validate_operator(replace(STAGED_MANIFEST, verdict="warned", failures=(WARNING,)), asks=True)
    with pytest.raises(TaskAwaitingInput):
        operator.execute(context)
    return operator, context, questions[0]


def human_answer(choice: str) -> dict[str, Any]:
    moment = SimpleNamespace(isoformat=lambda: "2013-01-03T08:00:00+00:00")
    return {
        "chosen_options": [choice],
        "params_input": {},
        "responded_at": moment,
        "responded_by_user": {"id": "1", "name": "Ada"},
    }


def test_a_person_is_told_what_failed_and_where(pending_question: Any) -> None:
    _, _, question = pending_question
    assert "2013-01-02T00:00:00+00:00 to 2013-01-03T00:00:00+00:00" in question["body"]
    assert "between(min=1) of flights observed 0, 3 of 812 panes (run b2)" in question["body"]


def test_approval_publishes_the_run_that_was_asked_about(pending_question: Any) -> None:
    operator, context, _ = pending_question
    operator.manifest = returned(replace(STAGED_MANIFEST, run_ids=("a1", "later"), run_id="later"))
    assert operator.execute_complete(context, human_answer("Approve")) == "b2"


def test_rejection_and_no_answer_fail_the_task_for_good(pending_question: Any) -> None:
    operator, context, _ = pending_question
    with pytest.raises(AirflowFailException, match="not published"):
        operator.execute_complete(context, human_answer("Reject"))
    with pytest.raises(AirflowFailException, match="not published"):
        operator.execute_complete(context, {"error": "no answer", "error_type": "timeout"})


def test_a_failure_without_counts_is_told_without_counts() -> None:
    failure = replace(
        WARNING, column_name=None, unexpected=None, checked=None, expectation="rows are conserved"
    )
    assert validate.sentence(failure) == "warn: rows are conserved observed 0 (run b2)"


# --- publish


def publish_operator(settings: Settings, run_id: str | None = "b2") -> PublishOperator:
    return PublishOperator(task_id="publish", pipeline="departures", run_id=run_id, settings=settings)


def test_publish_calls_the_command_of_the_spark_environment(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    publish_operator(settings).execute({})
    assert calls.read_text() == f"publish departures b2 --no-deliver --warehouse {settings.warehouse}\n"


def test_nothing_staged_calls_nothing(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    publish_operator(settings, None).execute({})
    assert not calls.exists()


@pytest.mark.parametrize("exit_code", [1, 2, 4, 5])
def test_an_exit_code_that_will_not_change_fails_for_good(settings: Settings, exit_code: int) -> None:
    install(settings, f"echo the head has moved >&2; exit {exit_code}")
    with pytest.raises(AirflowFailException, match=f"exit {exit_code}.*the head has moved"):
        publish_operator(settings).execute({})


@pytest.mark.parametrize("ending", ["exit 3", "kill -9 $$", "exit 134"])
def test_retry_and_a_killed_command_are_tried_again(settings: Settings, ending: str) -> None:
    install(settings, ending)
    with pytest.raises(AirflowException) as caught:
        publish_operator(settings).execute({})
    assert not isinstance(caught.value, AirflowFailException)


# --- announce


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
        {"seq": seq, "run_id": f"r{seq}", "kind": "run", "branch": "main", "touched": days}
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
    assert [event.extra for event in airflow.past][-1] == {"seq": 3, "run_ids": ["r3"]}


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
