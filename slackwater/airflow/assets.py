"""The assets of a pipeline: the tables that it reads, and the one that it publishes.

A source's loader emits an event of its asset when there is more to read; the event's extra `arrival_until`
says up to which arrival all rows are there.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Asset

from slackwater.airflow.settings import Settings
from slackwater.pipelines import Pipeline

GROUP = "slackwater"
# In the extra of an event of a source: a time, ISO 8601.
ARRIVAL_UNTIL = "arrival_until"


def published_asset(pipeline: Pipeline, settings: Settings) -> Asset:
    """The table that readers of the pipeline read."""
    return Asset(f"{pipeline.name}.published", uri=settings.uri_of(f"{pipeline.name}/published"), group=GROUP)


def source_assets(pipeline: Pipeline, settings: Settings) -> list[Asset]:
    tables = dict.fromkeys(source.table for source in pipeline.sources)
    return [Asset(table, uri=settings.uri_of(table), group=GROUP) for table in tables]


def arrival_until(events_by_asset: Mapping[Any, Sequence[Any]]) -> str | None:
    """The arrival up to which every source is complete, by the events that triggered a DAG run, or None."""
    return _least(_greatest(events) for events in events_by_asset.values())


def _greatest(events: Sequence[Any]) -> str | None:
    times = [event.extra[ARRIVAL_UNTIL] for event in events if ARRIVAL_UNTIL in (event.extra or {})]
    return max(times, key=_time, default=None)


def _least(times: Iterable[str | None]) -> str | None:
    candidates = list(times)
    if None in candidates:
        return None
    return min((time for time in candidates if time is not None), key=_time, default=None)


def _time(text: Any) -> datetime:
    """A comparable time, UTC by default. A text that is no time is the earliest, refused where used."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
