"""The DAGs of a whole warehouse: one that keeps its tables small, and one that fails while a pipeline is red.

Declares only. What upkeep and health mean is said by the commands.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable

from slackwater.airflow.options import DagOptions
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.upkeep import HealthOperator, MaintainOperator, PipelinesOperator

_START = datetime(2024, 1, 1, tzinfo=UTC)
MAINTAIN_DOC = """\
Keeps the tables of every pipeline that has run small: drops snapshots and history that the pipeline does not
keep, compacts files, deletes dead ones, and checkpoints the logs (`slackwater maintain`). Readers and runs go
on meanwhile.
"""
HEALTH_DOC = """\
Fails while a pipeline of the warehouse is red, with the reasons (`slackwater health`): a head that is behind,
rejected or unfinished runs, a sink that lags. Put your notifier on it. Thresholds are declared in the
pipelines.
"""


def maintain_dag(settings: Settings, options: DagOptions) -> DAG:
    """pipelines → maintain, a task for each of them."""
    arguments = options.dag_arguments(settings.default_args)
    with _dag(f"{settings.upkeep}__maintain", settings.maintain_schedule, MAINTAIN_DOC, arguments) as dag:
        pipelines_task = PipelinesOperator(task_id="pipelines", settings=settings)
        MaintainOperator.partial(
            task_id="maintain",
            settings=settings,
            max_active_tis_per_dagrun=1,
            map_index_template="{{ task.pipeline }}",
        ).expand(pipeline=pipelines_task.output)
    return dag


def health_dag(settings: Settings, options: DagOptions) -> DAG:
    """One task, health."""
    arguments = options.dag_arguments(settings.default_args)
    with _dag(f"{settings.upkeep}__health", settings.health_schedule, HEALTH_DOC, arguments) as dag:
        HealthOperator(task_id="health", settings=settings)
    return dag


def _dag(name: str, schedule: str, doc: str, arguments: dict[str, Any]) -> DAG:
    return DAG(
        name,
        description=doc.partition(":")[0].replace("\n", " "),
        doc_md=doc,
        schedule=CronTriggerTimetable(schedule, timezone="UTC"),
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        auto_register=False,  # `dags` hands out what is whole
        **arguments,
    )
