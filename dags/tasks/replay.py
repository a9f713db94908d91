"""The task `replay`: one Spark application that stages every slice up to the run's end.

This file says what is submitted; jobs says what a replay is. spark-submit hides exit codes, so the outcome
comes back in the manifest.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from slackwater.dags.page_links import RunPageLink
from slackwater.dags.settings import Settings
from slackwater.jobs import args
from slackwater.jobs.pipelines import Pipeline

log = logging.getLogger(__name__)

# Files of this package, which spark-submit is given by their paths.
SPARK_SUBMIT = Path(__file__).parents[1] / "spark-submit"
APPLICATION = Path(args.__file__).parent / "submit" / "slackwater_job.py"
# A run that is started by hand without a logical date has no data interval: its parameter says how far it
# goes.
END = "{{ params.to or dag_run.data_interval_end | ts }}"
WITH_AN_INTERVAL = ("scheduled", "backfill", "manual")


def manifest(pipeline: Pipeline, settings: Settings) -> str:
    """Where the replay of a DAG run leaves its outcome: one file per run, written anew by each try."""
    return str(settings.manifests / pipeline.name / "{{ run_id }}.json")


def replay(pipeline: Pipeline, settings: Settings) -> SparkSubmitOperator:
    """The task that stages and validates slices and writes the manifest. It fails and is retried when the
    driver crashed or the source had not settled.
    """
    arguments = args.run(
        pipeline.name,
        to=END,
        manifest=manifest(pipeline, settings),
        warehouse=settings.warehouse,
        pipelines=settings.pipelines,
    )

    def prepare_try(context: Any) -> None:
        prepare(context, pipeline.settle)

    return submit("replay", pipeline, settings, arguments, prepare_try)


class SparkApplicationOperator(SparkSubmitOperator):
    """Airflow's own, with a link to the page of the run."""

    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, RunPageLink())


def submit(
    task_id: str,
    pipeline: Pipeline,
    settings: Settings,
    arguments: list[str],
    pre_execute: Callable[[Any], None],
) -> SparkApplicationOperator:
    """A task that starts `slackwater` with these (templated) arguments as a Spark application."""
    return SparkApplicationOperator(
        task_id=task_id,
        name=f"slackwater {pipeline.name}",
        conn_id=settings.spark_connection,
        spark_binary=str(SPARK_SUBMIT),
        application=str(APPLICATION),
        application_args=arguments,
        conf=dict(settings.spark_conf),
        env_vars={"SLACKWATER_SPARK_BIN": str(settings.spark_bin)},
        pool=settings.pool,
        retry_delay=settings.retry_delay_of(pipeline),
        max_retry_delay=max(settings.retry_delay_of(pipeline), settings.default_args["max_retry_delay"]),
        pre_execute=pre_execute,
    )


def prepare(context: Any, settle: timedelta) -> None:
    """Before each try: refuses a run that does not say how far it goes, puts the task off until the source
    has settled, and removes the manifest of an earlier try.

    Raises:
        AirflowFailException: it is refused.
        AirflowRescheduleException: with the time at which the source has settled. Until then the task holds
            no slot and has started nothing, and the try is not over.
    """
    to, dag_run = context["params"]["to"], context["dag_run"]
    if to is None and not _has_interval(dag_run):
        raise AirflowFailException(
            "This run does not say how far to replay. Start another one with a logical date, or with the "
            'parameter `to`, such as {"to": "2013-01-04T00:00:00Z"}; it replays every slice between the head '
            "of the lineage and that time. To fill a range of intervals, use `airflow backfill create`."
        )
    if to is not None:
        check_time("to", to)
    forget_manifest(context)
    end = dag_run.data_interval_end if to is None else datetime.fromisoformat(to)
    if end.tzinfo is None:
        end = end.replace(tzinfo=UTC)
    # What ends in the future is no matter of settling: the command says which slices there are.
    if end <= datetime.now(UTC) < end + settle:
        log.info("the source settles at %s; the task goes on then", end + settle)
        raise AirflowRescheduleException(end + settle)


def _has_interval(dag_run: Any) -> bool:
    """Whether a DAG run has a data interval of some length. Where there is no schedule it begins and ends at
    the logical date.
    """
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    is_of_schedule = dag_run.run_type in WITH_AN_INTERVAL
    return is_of_schedule and start is not None and end is not None and start < end


def forget_manifest(context: Any) -> None:
    """Remove the manifest of an earlier try."""
    arguments = context["task"].application_args
    Path(arguments[arguments.index("--manifest") + 1]).unlink(missing_ok=True)


def check_time(name: str, value: Any) -> None:
    """Raises AirflowFailException unless `value` is an ISO 8601 time; Airflow's own check of a parameter lets
    any string through.
    """
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise AirflowFailException(
            f"The parameter `{name}` is {value!r}; it is a time such as 2013-01-04T00:00:00Z."
        ) from error
