"""The scheduled DAG of a pipeline: a run replays what arrived up to its interval's end, missed intervals too.

Declares only. The ledger is the truth: a run that is repeated, killed or started twice does what the ledger
lacks, and nothing else.
"""

from datetime import datetime
from functools import partial
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from slackwater.airflow.assets import arrival_until, published_asset, source_assets
from slackwater.airflow.settings import DagOptions, Settings
from slackwater.airflow.tasks.announce import AnnounceOperator
from slackwater.airflow.tasks.deliver import deliver
from slackwater.airflow.tasks.publish import PublishOperator
from slackwater.airflow.tasks.replay import replay
from slackwater.airflow.tasks.validate import ConcludeRunOperator, ValidateOperator
from slackwater.pipelines import Pipeline
from slackwater.pipelines.description import description_of

DOC = """\
Replays what has arrived up to the end of the data interval, validates it and publishes it to `{published}`.

- **Un-pause** it and it runs once an interval. A missed interval needs nothing: the next run makes up for it.
- **Fill a range** of intervals: `airflow backfill create --dag-id {name} --from-date … --to-date …
  --max-active-runs 1`.
- **By hand**: trigger it with a logical date, and it runs up to the end of the interval before that, as the
  scheduled run would; or with the parameter `to`. With neither it is refused.
- **Rejected**, and right all the same: trigger it with the `to` that `validate` names, and the reason as
  `accept`.
- **Clear** any task at any time: what is published already stays as it is.

{declarations}
"""
BAR = r"\|"  # in a cell of a table
TO = Param(
    None,
    type=["null", "string"],
    format="date-time",
    title="Replay up to",
    description="End of the range, ISO 8601, by the pipeline's clocks where it has no offset. Without it a "
    "run goes up to the end of its data interval.",
)
ACCEPT = Param(
    None,
    type=["null", "string"],  # the form asks for a string that may not be null
    title="Accept",
    description="Why the first slice that validation rejects is published all the same; recorded with it. "
    "The slices behind it are judged as ever.",
)


def _schedule(pipeline: Pipeline, settings: Settings, options: DagOptions) -> Any:
    if options.by_sources:
        return source_assets(pipeline, settings)
    if pipeline.schedule is None:
        return None
    return CronDataIntervalTimetable(pipeline.schedule, timezone=pipeline.timezone)


def _deadline(pipeline: Pipeline, options: DagOptions) -> dict[str, Any]:
    """Of a DAG run: it is queued when it is due, and may begin when its source has settled."""
    red = pipeline.health.overdue[1]
    if options.on_overdue is None or red is None:
        return {}
    alert = DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, pipeline.settle + red, options.on_overdue)
    return {"deadline": alert}


def declarations_of(pipeline: Pipeline) -> str:
    """What the pipeline declares, as a table in Markdown."""
    cells = {
        argument: " ".join(text.split()).replace("`", "'").replace("|", BAR)
        for argument, text in description_of(pipeline).items()
    }
    rows = (f"| {argument} | `{cell}` |" for argument, cell in cells.items())
    return "\n".join(["| declared | |", "|---|---|", *rows])


def scheduled_dag(
    pipeline: Pipeline, settings: Settings, options: DagOptions, end: datetime | None = None
) -> DAG:
    """replay → validate → publish, then announce, deliver_<sink> for each sink, and conclude; until `end`."""
    published_table = published_asset(pipeline, settings)
    with DAG(
        pipeline.name,
        description=f"Windows of {pipeline.name}, replayed each interval",
        doc_md=DOC.format(
            name=pipeline.name,
            published=published_table.uri,
            declarations=declarations_of(pipeline),
        ),
        schedule=_schedule(pipeline, settings, options),
        start_date=pipeline.start,  # type: ignore[arg-type] # a pipeline's start is a datetime once declared
        catchup=False,
        auto_register=False,  # `dags` hands out what is whole
        max_active_runs=1,
        params={"to": TO, "accept": ACCEPT},
        user_defined_macros={"arrival_until": partial(arrival_until, zone=pipeline.zone)},
        **_deadline(pipeline, options),
        **{"end_date": end, **options.dag_arguments(settings.default_args)},
    ) as dag:
        replay_task = replay(pipeline, settings, options.on)
        validate_task = ValidateOperator(
            task_id="validate",
            pipeline=pipeline,
            manifest=replay_task.output,
            execution_timeout=None,  # Airflow would take it for that of the person who is asked
            **options.approval,
        )
        publish_task = PublishOperator(
            task_id="publish", pipeline=pipeline.name, run_id=validate_task.output, settings=settings
        )
        announce_task = AnnounceOperator(
            task_id="announce", pipeline=pipeline.name, asset=published_table, settings=settings
        )
        conclude_task = ConcludeRunOperator(task_id="conclude", run_id=validate_task.output)
        replay_task >> validate_task >> publish_task
        publish_task >> [announce_task, *deliver(pipeline, settings)]
        [replay_task, validate_task, publish_task] >> conclude_task
    return dag
