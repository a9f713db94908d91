"""A pipeline over a table without a column of arrivals, and the same one over its column of them: what both
leave.

Not a test.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.pipelines import COMMIT_TIME, DeltaSource
from slackwater.pipelines.sources import COMMIT_VERSION
from tests.engine.source.commit_logs import CommitLog
from tests.engine.source.tracked_logs import TrackedLog
from tests.runs.world import DAILY, SCHEMA, Event, World, multiset

BY_COLUMN = replace(DAILY, source=DeltaSource("t", event_time="e", arrival_time="a", order_by="row"))
BY_COMMIT = replace(DAILY, source=DeltaSource("t", event_time="e", arrival_time=COMMIT_TIME, order_by="row"))


class Table(CommitLog):
    """A table with a column of arrivals besides, for the pipeline that the others are compared with."""

    def rows(self, hour: float | None, numbers: Iterable[int]) -> pa.Table:
        """Rows that are committed at `hour`; most of them happened a while before, and some have no key."""
        assert hour is not None
        values = [Event(hour - number % 5 * 2, hour, number, "ab"[number % 2]).values() for number in numbers]
        values = [{**row, "k": None} if row["row"] % 7 == 0 else row for row in values]
        return pa.Table.from_pylist(values, schema=SCHEMA)

    def bring(self, hour: float, *numbers: int) -> None:
        self.append(hour, numbers)


class TrackedTable(Table, TrackedLog):
    """The same, which tracks rows."""


def world_of(folder: Path | str, table: Table, pipeline: Any = BY_COMMIT) -> World:
    return World(Path(folder), replace(pipeline, source=replace(pipeline.sources[0], table=table.uri)))


def left(world: World) -> dict[str, Any]:
    """All that must be as if the source had been run once; the columns of the commit say what `a` says."""
    owner = world.ledger.snapshot_owner(world.main)
    assert owner is not None
    quarantine = [
        {**row, "row_json": sorted(without_commit(json.loads(row["row_json"])).items())}
        for row in world.live("quarantine")
    ]
    rows = {
        "published": world.published(),
        "panes": world.live("panes"),
        "late": [without_commit(row) for row in world.live("late_events")],
        "quarantine": quarantine,
    }
    return {name: multiset(values) for name, values in rows.items()} | {"state": owner.state_hash}


def without_commit(row: dict[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in row.items() if name not in (COMMIT_TIME, COMMIT_VERSION)}
    [arrival] = {row[name] for name in (COMMIT_TIME, "a") if row.get(name) is not None}
    return values | {"a": arrival}


def by_column(folder: Path, table: Table, to: float) -> dict[str, Any]:
    """What one run of the pipeline leaves that reads arrivals from the column."""
    world = world_of(folder, table, BY_COLUMN)
    world.run(to, slice_=timedelta(hours=to))
    return left(world)
