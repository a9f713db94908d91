"""The task `validate` goes on, fails or asks a person, by the replay's outcome; `conclude` ends a DAG run.

They judge nothing themselves: the job has validated the panes and written its verdict into the manifest.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from slackwater.airflow.page_links import RunPageLink, whole_url
from slackwater.airflow.settings import RESTATE
from slackwater.airflow.tasks.job import ENDED_EARLY, require_outcome, sentence_of
from slackwater.airflow.tasks.replay import end_of
from slackwater.args import Failure, Manifest
from slackwater.pipelines import Pipeline

# What `validate` returns where nothing is to be published. Marked a success by hand, it returns None.
NOTHING = ""
# XComs of `validate`. While it waits for a person: the last run that may be published, and why later slices
# may not. Where it fails: the last of the good runs before the rejected one, which `publish` publishes.
ASKED_RUN_KEY = "asked_run_id"
REJECTION_KEY = "rejection"
GOOD_RUN_KEY = "good_run_id"


class ValidateOperator(ApprovalOperator):
    """Succeeds with the run id to publish, or NOTHING; or waits for approval of warnings first, if the
    pipeline asks for it. It fails, without a retry, where a slice was rejected; `publish` goes on with the
    good ones before that. Where `replay` has failed, it judges what was staged before that, and is skipped
    where that is nothing.
    """

    template_fields = (*ApprovalOperator.template_fields, "manifest")
    operator_extra_links = (*ApprovalOperator.operator_extra_links, RunPageLink())

    def __init__(self, *, pipeline: Pipeline, manifest: Any, **kwargs: Any) -> None:
        super().__init__(
            subject=f"Publish {pipeline.name} in spite of warnings?",
            body="",
            fail_on_reject=True,
            trigger_rule=TriggerRule.ONE_DONE,  # also behind a failed `replay`
            **kwargs,
        )
        self.manifest = manifest
        self.asks = pipeline.approve_warnings
        self.timezone = pipeline.timezone

    def execute(self, context: Any) -> str:
        """Raises AirflowFailException, AirflowSkipException, TaskAwaitingInput (then `execute_complete`)."""
        outcome = self._outcome(context)
        good_run_ids = outcome.good_run_ids
        run_id = good_run_ids[-1] if good_run_ids else None
        self.log.info("%s: %s", outcome.outcome, outcome.message)
        if outcome.outcome == "nothing":
            refuse_stale(outcome, context["dag_run"])
            restate_dag = outcome.pipeline + RESTATE
            self.log.info("to replay again what was run before, start the DAG %s", restate_dag)
        for failure in outcome.failures:
            self.log.warning("%s", sentence(failure))
        if run_id is None and outcome.outcome in ENDED_EARLY:
            raise AirflowSkipException("`replay` has failed, and nothing was staged before that")
        rejection = rejection_of(outcome, context)
        if self.asks and any(
            failure.severity == "warn" and failure.run_id in good_run_ids for failure in outcome.failures
        ):
            context["ti"].xcom_push(ASKED_RUN_KEY, run_id)
            context["ti"].xcom_push(REJECTION_KEY, rejection)
            self.body = question(outcome, self.timezone)
            super().execute(context)
        return self._end(context, run_id, rejection)

    def _end(self, context: Any, run_id: str | None, rejection: str | None) -> str:
        """The run id that `publish` takes. Raises AirflowFailException where a slice was rejected."""
        if rejection is None:
            return run_id or NOTHING
        context["ti"].xcom_push(GOOD_RUN_KEY, run_id)
        raise AirflowFailException(rejection)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:
        """The run that was asked about, whatever the manifest says now; fails if rejected or not answered."""
        try:
            super().execute_complete(context, event)
        except (HITLRejectException, HITLTimeoutError) as error:
            raise AirflowFailException(
                f"not published: {_why_not(event)}. To be asked again, clear this task; once the source is "
                "mended, clear the task `replay`."
            ) from error
        run_id, rejection = (
            context["ti"].xcom_pull(task_ids=self.task_id, key=key) for key in (ASKED_RUN_KEY, REJECTION_KEY)
        )
        return self._end(context, run_id, rejection)

    def _outcome(self, context: Any) -> Manifest:
        if self.manifest is None and has_failed(context, "replay"):
            raise AirflowSkipException("`replay` has failed, and left no outcome")
        return require_outcome(self.manifest)


class ConcludeRunOperator(BaseOperator):
    """Succeeds behind `replay`, `validate` and `publish`. If one of them has failed, it can't, which fails
    the DAG run although `publish` has gone on with what was good. When a person marks the failed task a
    success, Airflow runs this again but nothing that was skipped: so it fails itself then.
    """

    template_fields = ("run_id",)
    operator_extra_links = (RunPageLink(),)

    def __init__(self, *, run_id: Any, **kwargs: Any) -> None:
        super().__init__(trigger_rule=TriggerRule.NONE_FAILED, **kwargs)
        self.run_id = run_id

    def execute(self, context: Any) -> None:
        refuse_mark(self.run_id, context)


def has_failed(context: Any, task_id: str) -> bool:
    """Whether another task of the DAG run failed. Airflow keeps no result of a failed or hand-marked task."""
    ti = context["ti"]
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[task_id], run_ids=[ti.run_id])
    return bool(states.get(ti.run_id, {}).get(task_id) == "failed")


def refuse_mark(run_id: str | None, context: Any) -> None:
    """Raises AirflowFailException where `validate` has returned None, as behind a mark by hand."""
    if run_id is None:
        raise AirflowFailException(
            "`validate` has not said which run to publish: it or `replay` was marked a success by hand, and "
            "that publishes nothing. Clear the task `replay`. What was rejected, and is right as it is, is "
            f'published by a run by hand with {{"to": "{end_of(context)}", "accept": "REASON"}}.'
        )


def refuse_stale(outcome: Manifest, dag_run: Any) -> None:
    """Raise AirflowFailException where nothing was to be replayed, and rows of the source have changed
    since the data interval of the DAG run was published (rows of any run, where it has no interval).
    """
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    ranges = [
        (since, until)
        for since, until in outcome.stale
        if start is None or start == end or (_time(since) < end and start < _time(until))
    ]
    if ranges:
        restate_dag = outcome.pipeline + RESTATE
        form = json.dumps({"from": ranges[0][0], "to": ranges[-1][1]})
        raise AirflowFailException(
            f"published already, and not as the source is now: {outcome.message}. In Airflow: trigger the "
            f"DAG {restate_dag}, {whole_url(f'/dags/{restate_dag}')}, with {form}"
        )


def _why_not(event: Mapping[str, Any]) -> str:
    """Why Airflow's event is no approval. An answer by default, once the time is over, has no user."""
    user = event.get("responded_by_user")
    return f"{user['name']} has rejected it" if user else "nobody has answered in time"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def rejection_of(outcome: Manifest, context: Any) -> str | None:
    """Why a slice may not be published, and what to do; None where none was rejected."""
    if outcome.outcome != "rejected" and outcome.verdict != "failed":
        return None
    form = json.dumps({"to": end_of(context), "accept": "REASON"})
    # This task alone would read the same outcome again.
    return (
        f"{sentence_of(outcome)} In Airflow: once that is mended, clear the task `replay`; if it is right as "
        f"it is, trigger the DAG {outcome.pipeline}, {whole_url(f'/dags/{outcome.pipeline}')}, with {form}."
    )


def sentence(failure: Failure) -> str:
    """One failed expectation for a log."""
    where = f" of {failure.column_name}" if failure.column_name else ""
    is_of_panes = failure.unexpected is not None and failure.column_name is not None
    counts = f", {failure.unexpected} of {failure.checked} panes" if is_of_panes else ""
    is_sampled = failure.samples and "e.g." not in (failure.observed or "")
    samples = f", e.g. {failure.samples}" if is_sampled else ""
    return (
        f"{failure.severity}: {failure.expectation}{where} observed {failure.observed}{counts}{samples} (run "
        f"{failure.run_id})"
    )


def question(outcome: Manifest, timezone: str) -> str:
    """The question for the person who decides, as Markdown: what was staged, failed expectations, samples."""
    return "\n".join(
        [
            *(f"{line}  " for line in outcome.summary(timezone).splitlines()),  # a line each in Markdown
            "",
            outcome.message,
            "",
            *(f"- {sentence(failure)}" for failure in outcome.failures),
            "",
            "Approve, and they are published as they are. Reject, and nothing is: then mend the source, and "
            "clear the task `replay`.",
        ]
    )
