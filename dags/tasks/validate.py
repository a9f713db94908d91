"""The task `validate`: goes on, fails or asks a person, by the outcome of the replay.

It judges nothing itself: the job has validated the panes and written its verdict into the manifest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from slackwater.dags.page_links import STAGED_RUN_KEY, RunPageLink
from slackwater.jobs.args import Failure, Manifest, ManifestError, read_manifest


class ValidateOperator(ApprovalOperator):
    """Succeeds with the run id to publish (None: nothing was staged), fails without a retry, or waits for
    approval of warnings.

    Args:
        manifest: the file that the replay left (templated).
        asks: whether a person must approve failed expectations of severity `warn`; if they reject, the task
            fails.
    """

    template_fields = (*ApprovalOperator.template_fields, "manifest")
    operator_extra_links = (*ApprovalOperator.operator_extra_links, RunPageLink())

    def __init__(self, *, pipeline: str, manifest: str, asks: bool, **kwargs: Any) -> None:
        super().__init__(
            subject=f"Publish {pipeline} in spite of warnings?", body="", fail_on_reject=True, **kwargs
        )
        self.manifest = manifest
        self.asks = asks

    def execute(self, context: Any) -> str | None:
        """Raises AirflowFailException, or TaskAwaitingInput (ends this process; `execute_complete` goes
        on).
        """
        outcome = self._outcome()
        context["ti"].xcom_push(STAGED_RUN_KEY, outcome.run_id)
        self.log.info("%s: %s", outcome.outcome, outcome.message)
        for failure in outcome.failures:
            self.log.warning("%s", sentence(failure))
        if outcome.outcome not in ("staged", "nothing"):
            raise AirflowFailException(f"{outcome.outcome} (exit {outcome.exit_code}): {outcome.message}")
        if outcome.verdict == "failed":
            raise AirflowFailException(
                f"{outcome.run_id} is staged and its verdict is failed: {outcome.message}"
            )
        if outcome.verdict == "warned" and self.asks:
            self.body = question(outcome)
            super().execute(context)
        return outcome.run_id

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str | None:
        """After the answer: the id of the run that the question was about, whatever the manifest says by now.
        Raises HITLRejectException.
        """
        super().execute_complete(context, event)
        return context["ti"].xcom_pull(task_ids=self.task_id, key=STAGED_RUN_KEY)

    def _outcome(self) -> Manifest:
        try:
            return read_manifest(Path(self.manifest))
        except ManifestError as error:
            raise AirflowFailException(str(error)) from error


def sentence(failure: Failure) -> str:
    """One failed expectation for a log."""
    where = f" of {failure.column_name}" if failure.column_name else ""
    is_of_panes = failure.unexpected is not None and failure.column_name is not None
    counts = f", {failure.unexpected} of {failure.checked} panes" if is_of_panes else ""
    return (
        f"{failure.severity}: {failure.expectation}{where} observed {failure.observed}{counts} (run "
        f"{failure.run_id})"
    )


def question(outcome: Manifest) -> str:
    """The question to the person who decides: ranges, outcome and failed expectations, as Markdown."""
    rows: Sequence[Failure] = outcome.failures
    ranges = ", ".join(f"{start} to {end}" for start, end in outcome.slices)
    return "\n".join([f"Staged: {ranges}.", "", outcome.message, "", *(f"- {sentence(row)}" for row in rows)])
