"""The restate DAG of a pipeline, only started by hand: it replays a range again and publishes it at once.

Declares only. The branch in the ledger is the truth: a run that is repeated or killed goes on after its last
finished slice.
"""

from airflow.sdk import DAG, Param

from slackwater.airflow.assets import published_asset
from slackwater.airflow.options import DagOptions
from slackwater.airflow.settings import RESTATE, Settings
from slackwater.airflow.tasks.announce import AnnounceOperator
from slackwater.airflow.tasks.deliver import deliver
from slackwater.airflow.tasks.restate import ConcludeOperator, restate
from slackwater.pipelines import Pipeline

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
                "From", "First arrival to restate, ISO 8601, UTC; moves back to the boundary of a slice."
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
