"""The task `restate` replays a range on a branch and publishes it; `conclude` succeeds or fails with it."""

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from slackwater import args
from slackwater.airflow.page_links import RunPageLink
from slackwater.airflow.settings import RESTATE, Settings
from slackwater.airflow.tasks.job import JobOperator, sentence_of
from slackwater.airflow.tasks.replay import check_time
from slackwater.args import ManifestError, manifest_of
from slackwater.pipelines import Pipeline

UNTIL = "{{ '--until-converged' if params.until == 'state' else '--until-same-code' }}"
PUBLISH = "{{ '--publish' if params.publish else '--preview' }}"
REASON = "{{ params.reason or 'restated from Airflow' }}"


def restate(pipeline: Pipeline, settings: Settings, on: str | None = None) -> JobOperator:
    """The task that restates the run's range; a retry goes on after the last finished slice."""
    arguments = args.backfill(
        pipeline.name,
        from_="{{ params['from'] }}",
        to="{{ params.to }}",
        until=UNTIL,
        publish=PUBLISH,
        reason=REASON,
        manifest=settings.manifest(pipeline.name + RESTATE),
        **settings.places,
    )
    return JobOperator(
        task_id="restate",
        pipeline=pipeline,
        arguments=[*arguments, *args.on(on)],
        settings=settings,
        before_try=prepare,
    )


def prepare(context: Any) -> None:
    """Before each try: refuses parameters that are no times, and removes the manifest of an earlier try."""
    for name in ("from", "to"):
        check_time(name, context["params"][name])
    context["task"].forget_manifest()


class ConcludeOperator(BaseOperator):
    """Succeeds for a published range or a branch kept as asked; fails without a retry if that can't help."""

    template_fields = ("manifest",)
    operator_extra_links = (RunPageLink(),)

    def __init__(self, *, manifest: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.manifest = manifest

    def execute(self, context: Any) -> str:
        try:
            outcome = manifest_of(self.manifest)
        except ManifestError as error:
            raise AirflowFailException(str(error)) from error
        if outcome.outcome not in ("published", "kept"):
            raise AirflowFailException(sentence_of(outcome))
        self.log.info("%s: %s", outcome.outcome, outcome.message)
        return outcome.message
