"""The assets of a pipeline: the tables that it reads, and the one that it publishes.

A source's loader emits an event of its asset when there is more to read; the event's extra `arrival_until`
says up to which arrival all rows are there.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any

from airflow.sdk import Asset

from slackwater.airflow.settings import Settings
from slackwater.pipelines import Pipeline
from slackwater.pipelines.cron import instant_of

GROUP = "slackwater"
# In the extra of an event of a source: a time, ISO 8601.
ARRIVAL_UNTIL = "arrival_until"


def published_asset(pipeline: Pipeline, settings: Settings) -> Asset:
    """The table that readers of the pipeline read."""
    return Asset(f"{pipeline.name}.published", uri=settings.uri_of(f"{pipeline.name}/published"), group=GROUP)


def source_assets(pipeline: Pipeline, settings: Settings) -> list[Asset]:
    tables = dict.fromkeys(source.table for source in pipeline.sources)
    return [Asset(table, uri=settings.uri_of(table), group=GROUP) for table in tables]


def arrival_until(events_by_asset: Mapping[Any, Sequence[Any]], zone: tzinfo = UTC) -> str | None:
    """The arrival up to which every source is complete, by the events that triggered a DAG run, or None.
    Texts without an offset are times of the pipeline's `zone`.
    """
    times = [_greatest(events, zone) for events in events_by_asset.values()]
    known_times = [time for time in times if time is not None]
    return min(known_times, key=partial(_time, zone), default=None) if None not in times else None


def _greatest(events: Sequence[Any], zone: tzinfo) -> str | None:
    times = [event.extra[ARRIVAL_UNTIL] for event in events if ARRIVAL_UNTIL in (event.extra or {})]
    return max(times, key=partial(_time, zone), default=None)


def _time(zone: tzinfo, text: Any) -> datetime:
    """A comparable time. A text that is no time is the earliest, refused where used."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else instant_of(time, zone)
