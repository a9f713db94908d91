"""The tasks act on the outcome of a replay. Covers all of slackwater/airflow/tasks; outcomes and ledgers are
written by hand, and `slackwater` is a script that answers.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
)

from slackwater.airflow import restate
from slackwater.airflow.page_links import RunPageLink
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks import validate
from slackwater.airflow.tasks.publish import PublishOperator
from slackwater.airflow.tasks.validate import NOTHING, ConcludeRunOperator, ValidateOperator
from slackwater.args import Failure, Manifest, manifest_fields, write_manifest
from slackwater.pipelines.registry import load
from tests.airflow.commands import install
from tests.airflow.outcomes import STAGED_MANIFEST, job_operator

WARNING = Failure(
    run_id="b2",
    expectation="between(min=1)",
    column_name="flights",
    severity="warn",
    observed="0",
    unexpected=3,
    checked=812,
    samples="[0, 0, 0]",
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
    """The calls of a task instance that pass values from one process to the next, and give the states of
    other tasks.
    """

    dag_id, run_id = "departures", "by hand"

    def __init__(self, **states: str) -> None:
        super().__init__()
        self.states = states

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> Any:
        assert (dag_id, run_ids) == (self.dag_id, [self.run_id])
        return {self.run_id: {name: self.states.get(name, "success") for name in task_ids}}

    def xcom_push(self, key: str, value: Any) -> None:
        self[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert task_ids == "validate"
        return self.get(key)


NO_TIME = None


def dag_run_of(first: int | None, last: int | None) -> Any:
    """A DAG run whose data interval is of these days of January."""
    start, end = (None if day is None else datetime(2013, 1, day, tzinfo=UTC) for day in (first, last))
    return SimpleNamespace(data_interval_start=start, data_interval_end=end)


def fresh_context(**params: Any) -> dict[str, Any]:
    return {"ti": Messages(), "params": params, "dag_run": dag_run_of(NO_TIME, NO_TIME)}


def returned(manifest: Manifest | None) -> Any:
    """What the task before it has returned, as Airflow hands it on."""
    return None if manifest is None else json.loads(json.dumps(manifest_fields(manifest)))


def validate_operator(
    manifest: Manifest | None, *, asks: bool = False, zone: str = "UTC"
) -> ValidateOperator:
    pipeline = replace(load(examples=True)["departures"], approve_warnings=asks, timezone=zone)
    return ValidateOperator(task_id="validate", pipeline=pipeline, manifest=returned(manifest))


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


# --- publish


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_large_run_is_published_by_the_spark_of_the_connection_where_the_task_may_be_its_driver(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    extra = {"deploy-mode": mode, "queue": "night"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", json.dumps(connection))
    note = settings.spark_bin / "note"
    install(settings, f'echo "$SLACKWATER_MASTER $SLACKWATER_SPARK_CONF" >{note}')
    with_memory = replace(settings, spark_conf={"spark.executor.memory": "4g"})
    operator = PublishOperator(task_id="publish", pipeline="departures", run_id="b2", settings=with_memory)
    operator.execute(fresh_context())
    properties = '{"spark.yarn.queue": "night", "spark.executor.memory": "4g"}'
    assert note.read_text().strip() == (f"yarn {properties}" if mode == "client" else "")


# --- restate


def restate_context(**params: Any) -> dict[str, Any]:
    return {
        "params": {"from": "2013-01-02", "to": "2013-01-03T00:00:00Z", **params},
        "task": SimpleNamespace(forget_manifest=list),
    }


@pytest.mark.parametrize(("outcome", "exit_code"), [("published", 0), ("lost", 5)])
def test_a_try_of_a_restatement_starts_without_a_failure_of_the_one_before(
    tmp_path: Path, settings: Settings, outcome: Any, exit_code: int
) -> None:
    file = tmp_path / "run.json"
    write_manifest(replace(RESTATED_MANIFEST, outcome=outcome, exit_code=exit_code), file)
    restate.prepare(restate_context() | {"task": job_operator(settings, file)})
    assert file.exists() is (outcome == "published")


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
    assert (
        operator.execute(fresh_context()) == "published as run 9; 12 rows updated in `published`, on 1 day."
    )


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
    assert validate_operator(COVERED_MANIFEST).execute(fresh_context()) == validate.NOTHING


STALE_MANIFEST = replace(
    COVERED_MANIFEST,
    message="nothing to do; 3 rows appeared",
    stale=(
        ("2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z"),
        ("2013-01-05T00:00:00Z", "2013-01-06T00:00:00Z"),
        ("2013-01-07T00:00:00Z", "2013-01-08T00:00:00Z"),
    ),
)


@pytest.mark.parametrize(
    ("first", "last", "since", "until"),
    [
        (2, 3, "2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z"),
        (1, 6, "2013-01-02T00:00:00Z", "2013-01-06T00:00:00Z"),
        (NO_TIME, NO_TIME, "2013-01-02T00:00:00Z", "2013-01-08T00:00:00Z"),  # by hand, with `to`
        (9, 9, "2013-01-02T00:00:00Z", "2013-01-08T00:00:00Z"),  # by hand, of a DAG without a schedule
    ],
)
def test_a_run_of_which_rows_have_changed_since_fails_with_the_restatement_filled_in(
    first: int | None, last: int | None, since: str, until: str
) -> None:
    context = fresh_context() | {"dag_run": dag_run_of(first, last)}
    with pytest.raises(AirflowFailException, match="3 rows appeared") as error:
        validate_operator(STALE_MANIFEST).execute(context)
    form = f'/dags/departures__restate, with {{"from": "{since}", "to": "{until}"}}'
    assert str(error.value).endswith(form)


def test_a_run_of_which_no_row_has_changed_has_nothing_to_do() -> None:
    context = fresh_context() | {"dag_run": dag_run_of(3, 5)}
    assert validate_operator(STALE_MANIFEST).execute(context) == validate.NOTHING


REJECTED_MANIFEST = replace(
    STAGED_MANIFEST,
    outcome="rejected",
    exit_code=4,
    verdict="failed",
    message="flights is 0 in 3 panes.",
)


def test_a_rejection_fails_for_good_and_says_with_which_parameters_it_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org")
    context = fresh_context() | {"dag_run": dag_run_of(2, 3)}
    with pytest.raises(AirflowFailException, match=r"^rejected \(exit 4\): flights is 0 in 3 panes") as error:
        validate_operator(replace(REJECTED_MANIFEST, run_ids=("b2",)), asks=True).execute(context)
    form = '{"to": "2013-01-03T00:00:00+00:00", "accept": "REASON"}'
    assert str(error.value).endswith(
        f"trigger the DAG departures, https://example.org/dags/departures, with {form}."
    )
    by_hand = fresh_context(to="2013-01-05") | {"dag_run": dag_run_of(NO_TIME, NO_TIME)}
    with pytest.raises(AirflowFailException, match=r'with \{"to": "2013-01-05", "accept"'):
        validate_operator(replace(REJECTED_MANIFEST, run_ids=("b2",))).execute(by_hand)


def test_good_slices_before_a_rejected_one_are_published_although_validate_fails(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    context = fresh_context()
    with pytest.raises(AirflowFailException, match=r"rejected \(exit 4\): flights is 0"):
        validate_operator(REJECTED_MANIFEST).execute(context)
    context["ti"].states["validate"] = "failed"
    publish_operator(settings, None).execute(context)
    assert calls.read_text().startswith("publish departures a1 ")


def test_nothing_is_published_where_validate_fails_on_the_first_slice(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    context = fresh_context()
    with pytest.raises(AirflowFailException):
        validate_operator(replace(REJECTED_MANIFEST, run_ids=("b2",))).execute(context)
    context["ti"].states["validate"] = "failed"
    with pytest.raises(AirflowSkipException):
        publish_operator(settings, None).execute(context)
    assert not calls.exists()


@pytest.mark.parametrize(("outcome", "good"), [("refused", "b2"), ("failed", "b2"), ("lost", None)])
def test_slices_that_were_staged_before_replay_failed_are_judged_alone(
    outcome: Any, good: str | None
) -> None:
    context = fresh_context()
    operator = validate_operator(replace(STAGED_MANIFEST, outcome=outcome, exit_code=1, message="no memory"))
    if good is not None:
        assert operator.execute(context) == good
    for manifest in (None, replace(COVERED_MANIFEST, outcome=outcome, exit_code=1)):
        context["ti"].states["replay"] = "failed"
        with pytest.raises(AirflowSkipException):
            validate_operator(manifest).execute(context)


def test_what_a_person_has_accepted_is_published_without_a_question() -> None:
    """The replay has accepted it, with the reason that the run was started with."""
    failure = replace(WARNING, severity="reject")
    accepted = replace(STAGED_MANIFEST, verdict="warned", failures=(failure,))
    assert validate_operator(accepted, asks=True).execute(fresh_context(accept="a strike")) == "b2"


def test_warnings_of_good_slices_before_a_rejected_one_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **question: None
    )
    error = replace(WARNING, severity="reject")
    context = fresh_context() | {"task_instance": SimpleNamespace(id="1")}
    with pytest.raises(AirflowFailException, match="rejected"):
        validate_operator(replace(REJECTED_MANIFEST, failures=(error,)), asks=True).execute(context)
    both = replace(REJECTED_MANIFEST, failures=(replace(WARNING, run_id="a1"), error))
    context = fresh_context() | {"task_instance": SimpleNamespace(id="1")}
    operator = validate_operator(both, asks=True)
    with pytest.raises(TaskAwaitingInput):
        operator.execute(context)
    assert validate.GOOD_RUN_KEY not in context["ti"], "whoever marks it failed now has nothing published"
    with pytest.raises(AirflowFailException, match="rejected"):
        operator.execute_complete(context, human_answer("Approve"))
    assert context["ti"][validate.GOOD_RUN_KEY] == "a1"


def test_a_replay_that_was_marked_a_success_by_hand_is_not_validated() -> None:
    with pytest.raises(AirflowFailException, match=r"by hand\. Clear the task `replay`"):
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
    context = {"ti": instance, "task_instance": SimpleNamespace(id="1"), "params": {}}
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
    assert "rows 1,454  fired 85  refired 202  late 2  quarantined 12" in question["body"]
    failure = "between(min=1) of flights observed 0, 3 of 812 panes, e.g. [0, 0, 0] (run b2)"
    assert failure in question["body"]


def test_slices_are_labelled_by_the_clocks_of_the_pipelines_zone() -> None:
    """Clocks of Berlin change in the second of these nights."""
    slices = (
        ("2025-03-28T23:00:00+00:00", "2025-03-29T23:00:00+00:00"),
        ("2025-03-29T23:00:00+00:00", "2025-03-30T22:00:00+00:00"),
    )
    text = validate.question(replace(STAGED_MANIFEST, slices=slices), "Europe/Berlin")
    assert text.startswith("2 slices, 2025-03-29 to 2025-03-31 Europe/Berlin: passed")


def test_approval_publishes_the_run_that_was_asked_about(pending_question: Any) -> None:
    operator, context, _ = pending_question
    operator.manifest = returned(replace(STAGED_MANIFEST, run_ids=("a1", "later"), run_id="later"))
    assert operator.execute_complete(context, human_answer("Approve")) == "b2"


def test_rejection_and_no_answer_fail_the_task_for_good(pending_question: Any) -> None:
    operator, context, _ = pending_question
    next_step = "To be asked again, clear this task; once the source is mended, clear the task `replay`"
    with pytest.raises(AirflowFailException, match=rf"^not published: Ada has rejected it\. {next_step}"):
        operator.execute_complete(context, human_answer("Reject"))
    by_default = {**human_answer("Reject"), "responded_by_user": None, "timedout": True}
    for no_answer in (by_default, {"error": "no answer", "error_type": "timeout"}):
        with pytest.raises(AirflowFailException, match=rf"^not published: nobody .* in time\. {next_step}"):
            operator.execute_complete(context, no_answer)


def test_a_failure_without_counts_is_told_without_counts() -> None:
    failure = replace(
        WARNING,
        column_name=None,
        unexpected=None,
        checked=None,
        samples=None,
        expectation="rows are conserved",
    )
    assert validate.sentence(failure) == "warn: rows are conserved observed 0 (run b2)"


# --- publish


def publish_operator(settings: Settings, run_id: str | None = "b2") -> PublishOperator:
    return PublishOperator(task_id="publish", pipeline="departures", run_id=run_id, settings=settings)


def test_publish_calls_the_command_of_the_spark_environment(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    publish_operator(settings).execute(fresh_context())
    assert (
        calls.read_text()
        == f"publish departures b2 --no-deliver --log-format progress --warehouse {settings.warehouse}\n"
    )


def test_nothing_staged_calls_nothing(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    publish_operator(settings, validate.NOTHING).execute(fresh_context())
    assert not calls.exists()


def test_a_validation_that_was_marked_a_success_by_hand_publishes_nothing(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    with pytest.raises(AirflowFailException, match=r'by hand.*Clear the task `replay`.*"accept": "REASON"'):
        publish_operator(settings, None).execute(fresh_context())
    assert not calls.exists()


def test_a_run_of_which_a_failed_task_was_marked_a_success_by_hand_stays_failed() -> None:
    """Airflow runs `conclude` again then, and none of the tasks that were skipped behind the failed one."""
    conclude = ConcludeRunOperator(task_id="conclude", run_id=None)
    with pytest.raises(AirflowFailException, match=r'by hand.*Clear the task `replay`.*"accept": "REASON"'):
        conclude.execute(fresh_context())


@pytest.mark.parametrize("run_id", ["b2", NOTHING])
def test_a_run_of_which_every_task_is_done_succeeds(run_id: str) -> None:
    ConcludeRunOperator(task_id="conclude", run_id=run_id).execute(fresh_context())


@pytest.mark.parametrize("exit_code", [1, 2, 4, 5])
def test_an_exit_code_that_will_not_change_fails_for_good(settings: Settings, exit_code: int) -> None:
    install(settings, f"echo the head has moved >&2; exit {exit_code}")
    with pytest.raises(AirflowFailException, match=f"exit {exit_code}.*the head has moved"):
        publish_operator(settings).execute(fresh_context())


@pytest.mark.parametrize("ending", ["exit 3", "kill -9 $$", "exit 134"])
def test_retry_and_a_killed_command_are_tried_again(settings: Settings, ending: str) -> None:
    install(settings, ending)
    with pytest.raises(AirflowException) as caught:
        publish_operator(settings).execute(fresh_context())
    assert not isinstance(caught.value, AirflowFailException)
