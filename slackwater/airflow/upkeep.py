"""The DAGs of a whole warehouse, one that keeps its tables small and one that fails while a pipeline is red,
and their tasks. Each task is one command that needs no Spark; what upkeep and health mean is said by the
commands.
"""

import json
import subprocess
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable
from airflow.sdk.exceptions import AirflowFailException

from slackwater import args
from slackwater.airflow.settings import DagOptions, Settings
from slackwater.airflow.tasks.commands import CommandOperator, answer_of

# The exit code of `slackwater health` where a pipeline is red.
_RED = 1


class _HealthOperator(BaseOperator):
    """Asks for the health of the warehouse's pipelines."""

    def __init__(self, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    def ask(self, *, as_json: bool) -> subprocess.CompletedProcess[str]:
        """What `slackwater health` says. Raises as `require_success`, for other exit codes than 0 and 1."""
        arguments = args.health(as_json=as_json, **self.settings.places)
        return answer_of(self.settings, arguments, answers=(0, _RED))


class PipelinesOperator(_HealthOperator):
    """The names of the pipelines of the warehouse that have run."""

    def execute(self, context: Any) -> list[str]:
        healths = json.loads(self.ask(as_json=True).stdout)
        names = [
            health["pipeline"] for health in healths if health["head"] is not None and health["is_registered"]
        ]
        self.log.info("pipelines that have run: %s", ", ".join(names) or "none")
        return names


class MaintainOperator(CommandOperator):
    """Runs `slackwater maintain`, its output in the task's log."""

    template_fields = ("pipeline",)

    def __init__(self, *, pipeline: str, settings: Settings, **kwargs: Any) -> None:
        super().__init__(settings=settings, **kwargs)
        self.pipeline = pipeline

    def execute(self, context: Any) -> None:
        self.run_command(args.maintain(self.pipeline, **self.settings.places))


class HealthOperator(_HealthOperator):
    """Fails, without a retry, while a pipeline of the warehouse is red."""

    def execute(self, context: Any) -> None:
        """Raises AirflowFailException with the reasons, or as `require_success`."""
        table = self.ask(as_json=False)
        for line in table.stdout.splitlines():
            self.log.info("%s", line)
        if table.returncode == _RED:
            healths = json.loads(self.ask(as_json=True).stdout)
            reasons = [
                f"{health['pipeline']}: {reason}"
                for health in healths
                if health["health"] == "red"
                for reason in health["reasons"]
            ]
            raise AirflowFailException(self.settings.with_places("; ".join(reasons)))


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
