"""The task `replay`: stages every slice up to the run's end.

This file says up to when, and what is started; the verb says what a replay is.
"""

import logging
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from slackwater import args
from slackwater.airflow.assets import ARRIVAL_UNTIL, arrival_until
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.job import JobOperator
from slackwater.pipelines import Pipeline
from slackwater.pipelines.cron import instant_of

log = logging.getLogger(__name__)

# A run that is started by hand without a logical date has no data interval: its parameter says how far it
# goes. One that its sources have started has none either: their events say it.
END = "{{ params.to or arrival_until(triggering_asset_events) or dag_run.data_interval_end | ts }}"
ACCEPT = "{{ params.accept or '' }}"
WITH_AN_INTERVAL = ("scheduled", "backfill", "manual")
BY_ASSETS = "asset_triggered"


def replay(pipeline: Pipeline, settings: Settings, on: str | None = None) -> JobOperator:
    """The task that stages and validates slices; retried after a crash or while another run is alive."""
    arguments = args.run(
        pipeline.name,
        to=END,
        accept=ACCEPT,
        manifest=settings.manifest(pipeline.name),
        **settings.places,
    )

    return JobOperator(
        task_id="replay",
        pipeline=pipeline,
        arguments=[*arguments, *args.on(on)],
        settings=settings,
        before_try=partial(prepare, settle=pipeline.settle, zone=pipeline.zone),
    )


def end_of(context: Any) -> str | None:
    """Up to when the run of a context replays, as `END` says it; None where it does not say so."""
    to: str | None = context["params"].get("to") or arrival_until(
        context.get("triggering_asset_events") or {}
    )
    end = context["dag_run"].data_interval_end
    return to if to is not None or end is None else end.isoformat()


def prepare(context: Any, settle: timedelta, zone: tzinfo = UTC) -> None:
    """Before each try: refuse a run that does not say how far it goes, put the task off until the source has
    settled, and remove the manifest of an earlier try. A time without an offset is one of `zone`, as in the
    command.

    Raises:
        AirflowFailException: it is refused.
        AirflowRescheduleException: with the time at which the source has settled. Until then the task holds
            no slot, has started nothing, and the try is not over.
    """
    dag_run = context["dag_run"]
    to = context["params"]["to"] or arrival_until(context["triggering_asset_events"], zone)
    if to is None and dag_run.run_type == BY_ASSETS:
        raise AirflowFailException(
            "The events that have started this run do not say up to which arrival each source is there. "
            f'Emit them with the extra {{"{ARRIVAL_UNTIL}": "2013-01-04T00:00:00Z"}}; the next run that says '
            "so makes up for this one."
        )
    if to is None and not _has_interval(dag_run):
        raise AirflowFailException(
            "This run does not say how far to replay. Start another one with a logical date, or with the "
            'parameter `to`, such as {"to": "2013-01-04T00:00:00Z"}; it replays every slice between the head '
            "of the lineage and that time. To fill a range of intervals, use `airflow backfill create`."
        )
    if to is not None:
        check_time("to", to)
    context["task"].forget_manifest()
    end = dag_run.data_interval_end if to is None else datetime.fromisoformat(to)
    if end.tzinfo is None:
        end = instant_of(end, zone)
    # What ends in the future is no matter of settling: the command says which slices there are.
    if end <= datetime.now(UTC) < end + settle:
        log.info("the source settles at %s; the task goes on then", end + settle)
        raise AirflowRescheduleException(end + settle)


def _has_interval(dag_run: Any) -> bool:
    """Whether a DAG run's data interval has some length; without a schedule it is just the logical date."""
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    is_of_schedule = dag_run.run_type in WITH_AN_INTERVAL
    return is_of_schedule and start is not None and end is not None and start < end


def check_time(name: str, value: Any) -> None:
    """Raise AirflowFailException unless `value` is an ISO 8601 time; Airflow lets any string through."""
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise AirflowFailException(
            f"The parameter `{name}` is {value!r}; it is a time such as 2013-01-04T00:00:00Z."
        ) from error
