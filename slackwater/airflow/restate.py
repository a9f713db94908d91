"""The restate DAG of a pipeline, only started by hand, and its tasks: `restate` replays a range again on a
branch and publishes it at once, `conclude` succeeds or fails with it.

The branch in the ledger is the truth: a run that is repeated or killed goes on after its last finished slice.
"""

from typing import Any

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException

from slackwater import args
from slackwater.airflow.assets import published_asset
from slackwater.airflow.page_links import RunPageLink
from slackwater.airflow.settings import RESTATE, DagOptions, Settings
from slackwater.airflow.tasks.announce import AnnounceOperator
from slackwater.airflow.tasks.deliver import deliver
from slackwater.airflow.tasks.job import JobOperator, require_outcome, sentence_of
from slackwater.airflow.tasks.replay import check_time
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
        outcome = require_outcome(self.manifest)
        if outcome.outcome not in ("published", "kept"):
            raise AirflowFailException(sentence_of(outcome))
        self.log.info("%s: %s", outcome.outcome, outcome.message)
        return outcome.message


DOC = """\
Replays a range of `{name}` that was run before: after rows were corrected or came late, or after the pipeline
was changed.

It starts from the snapshot before the range, on a branch; goes on behind it until it meets what is live
again; and publishes the whole range in `{published}` at once. Until then readers see what they saw before.
The scheduled runs of `{name}` may go on meanwhile.

- **What would it cost?** `slackwater backfill {name} --from … --to … --dry-run`
- **Clear** the task `restate` at any time: it goes on at the last finished slice.
- **Without publishing**: the branch is kept, and `slackwater diff` shows what publishing it changes; run it
  again with `publish`, or `slackwater branches drop`.
"""


def _time(title: str, description: str) -> Param:
    return Param(type="string", format="date-time", title=title, description=description)


def restatement_dag(pipeline: Pipeline, settings: Settings, options: DagOptions) -> DAG:
    """restate → conclude → announce, and a task deliver_<sink> for each sink beside that."""
    name = pipeline.name + RESTATE
    published_table = published_asset(pipeline, settings)
    with DAG(
        name,
        description=f"A range of {pipeline.name}, replayed and published anew",
        doc_md=DOC.format(name=pipeline.name, published=published_table.uri),
        schedule=None,
        start_date=pipeline.start,  # type: ignore[arg-type] # a pipeline's start is a datetime once declared
        catchup=False,
        auto_register=False,  # `dags` hands out what is whole
        max_active_runs=1,
        params={
            "from": _time(
                "From",
                "First arrival to restate, ISO 8601, by the pipeline's clocks where it has no offset; moves "
                "back to the boundary of a slice.",
            ),
            "to": _time("To", "End of the arrivals to restate; moves on to the boundary of a slice."),
            "until": Param(
                "state and code",
                enum=["state and code", "state"],
                title="Stop behind the range when",
                description="The open windows are those that are live, and the same code made what follows; "
                "or whatever code did.",
            ),
            "publish": Param(
                True, type="boolean", title="Publish", description="Otherwise the range stays a branch."
            ),
            "reason": Param(
                None,
                type=["null", "string"],
                title="Reason",
                description="Recorded with the publication.",
            ),
        },
        # It runs when it is triggered alone, and a run of a paused DAG waits in silence.
        **{"is_paused_upon_creation": False, **options.dag_arguments(settings.default_args)},
    ) as dag:
        restate_task = restate(pipeline, settings, options.on)
        conclude_task = ConcludeOperator(task_id="conclude", manifest=restate_task.output)
        announce_task = AnnounceOperator(
            task_id="announce", pipeline=pipeline.name, asset=published_table, settings=settings
        )
        restate_task >> conclude_task >> [announce_task, *deliver(pipeline, settings)]
    return dag
