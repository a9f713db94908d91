"""The task `validate`: goes on, fails or asks a person, by the outcome of the replay; and the task
`conclude`, which fails behind the publication of good slices where one after them was rejected.

They judge nothing themselves: the job has validated the panes and written its verdict into the manifest.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from slackwater.dags.page_links import STAGED_RUN_KEY, RunPageLink, whole_url
from slackwater.dags.settings import RESTATE
from slackwater.jobs.args import Failure, Manifest, ManifestError, manifest_of

# What `validate` returns where nothing is to be published. Marked a success by hand, it returns None.
NOTHING = ""
# XComs of `validate`: the last run that may be published, and why later slices may not.
PUBLISHABLE_RUN_KEY = "publishable_run_id"
REFUSAL_KEY = "refusal"
# Why a person who started the run has a rejected one published.
ACCEPTED_KEY = "accepted"


class ValidateOperator(ApprovalOperator):
    """Succeeds with the run id to publish, or NOTHING; or waits for approval of warnings first. It fails,
    without a retry, where nothing can be published because of what came in between; where slices before that
    are good, these go on, and `conclude` fails in its place. A run that was started with a reason to accept
    what is rejected publishes it.

    Args:
        manifest: what `replay` returned (an XComArg).
        asks: whether a person must approve failed expectations of severity `warn`; if they reject, the task
            fails.
    """

    template_fields = (*ApprovalOperator.template_fields, "manifest")
    operator_extra_links = (*ApprovalOperator.operator_extra_links, RunPageLink())

    def __init__(self, *, pipeline: str, manifest: Any, asks: bool, **kwargs: Any) -> None:
        super().__init__(
            subject=f"Publish {pipeline} in spite of warnings?", body="", fail_on_reject=True, **kwargs
        )
        self.manifest = manifest
        self.asks = asks

    def execute(self, context: Any) -> str:
        """Raises AirflowFailException, or TaskAwaitingInput (ends this process; `execute_complete` goes
        on).
        """
        outcome = self._outcome()
        good_run_ids = outcome.good_run_ids
        run_id = good_run_ids[-1] if good_run_ids else None
        context["ti"].xcom_push(STAGED_RUN_KEY, outcome.run_id)
        context["ti"].xcom_push(PUBLISHABLE_RUN_KEY, run_id)
        self.log.info("%s: %s", outcome.outcome, outcome.message)
        if outcome.outcome == "nothing":
            refuse_stale(outcome, context["dag_run"])
            restate_dag = outcome.pipeline + RESTATE
            self.log.info("to replay again what was run before, start the DAG %s", restate_dag)
        for failure in outcome.failures:
            self.log.warning("%s", sentence(failure))
        reason = context["params"].get("accept")
        if outcome.verdict == "failed" and reason:
            self.log.warning("accepted by hand: %s", reason)
            context["ti"].xcom_push(ACCEPTED_KEY, reason)
            return outcome.run_id or NOTHING
        if refusal := refusal_of(outcome):
            if run_id is None:
                raise AirflowFailException(refusal)
            self.log.error("%s; the slices before it are good and go on", refusal)
            context["ti"].xcom_push(REFUSAL_KEY, refusal)
        if self.asks and any(failure.run_id in good_run_ids for failure in outcome.failures):
            self.body = question(outcome)
            super().execute(context)
        return run_id or NOTHING

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:
        """After the answer: the id of the run that the question was about, whatever the manifest says by now.
        Raises AirflowFailException: a rejection, or no answer in time, would be so in another try.
        """
        try:
            super().execute_complete(context, event)
        except (HITLRejectException, HITLTimeoutError) as error:
            raise AirflowFailException(
                f"not published: {_why_not(event)}. To be asked again, clear this task; once the source is "
                "mended, clear the task `replay`."
            ) from error
        run_id: str = context["ti"].xcom_pull(task_ids=self.task_id, key=PUBLISHABLE_RUN_KEY)
        return run_id

    def _outcome(self) -> Manifest:
        try:
            return manifest_of(self.manifest)
        except ManifestError as error:
            raise AirflowFailException(str(error)) from error


class ConcludeRunOperator(BaseOperator):
    """Fails with what `validate` has found behind the slices that were published, so that the DAG run shows
    it; succeeds where that is nothing.
    """

    operator_extra_links = (RunPageLink(),)

    def execute(self, context: Any) -> None:
        """Raises AirflowFailException."""
        refusal = context["ti"].xcom_pull(task_ids="validate", key=REFUSAL_KEY)
        if refusal is not None:
            raise AirflowFailException(refusal)


def refuse_stale(outcome: Manifest, dag_run: Any) -> None:
    """Raises AirflowFailException where nothing was to be replayed, and rows of the source have changed since
    the data interval of the DAG run was published; of one without an interval, rows of any run.
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
    """Why the question of Airflow's event is not answered by an approval. An answer that Airflow gives by
    default, once the time is over, is of no user.
    """
    user = event.get("responded_by_user")
    return f"{user['name']} has rejected it" if user else "nobody has answered in time"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def refusal_of(outcome: Manifest) -> str | None:
    """Why not everything that was to be replayed may be published; None where it may."""
    if outcome.outcome not in ("staged", "nothing"):
        # This task alone would read the same outcome again.
        next_step = (
            " Once that is mended, clear the task `replay`; if it is right as it is, start a run by hand "
            "with the same `to` and a reason in `accept`."
            if outcome.outcome == "rejected"
            else ""
        )
        return f"{outcome.outcome} (exit {outcome.exit_code}): {outcome.message}{next_step}"
    if outcome.verdict == "failed":
        return f"{outcome.run_id} is staged and its verdict is failed: {outcome.message}"
    return None


def sentence(failure: Failure) -> str:
    """One failed expectation for a log."""
    where = f" of {failure.column_name}" if failure.column_name else ""
    is_of_panes = failure.unexpected is not None and failure.column_name is not None
    counts = f", {failure.unexpected} of {failure.checked} panes" if is_of_panes else ""
    samples = f", e.g. {failure.samples}" if failure.samples else ""
    return (
        f"{failure.severity}: {failure.expectation}{where} observed {failure.observed}{counts}{samples} (run "
        f"{failure.run_id})"
    )


def question(outcome: Manifest) -> str:
    """The question to the person who decides: what was staged, and the failed expectations with samples of
    what broke them, as Markdown.
    """
    return "\n".join(
        [
            *(f"{line}  " for line in outcome.summary.splitlines()),  # a line each in Markdown
            "",
            outcome.message,
            "",
            *(f"- {sentence(failure)}" for failure in outcome.failures),
            "",
            "Approve, and they are published as they are. Reject, and nothing is: then mend the source, and "
            "clear the task `replay`.",
        ]
    )
