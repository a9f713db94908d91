"""However a lineage of windows of a user's own class came about, a SQL table that is delivered to at times
holds what is published: one row for each lane of each window.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.pipelines import Pipeline
from slackwater.runs.publishing.delivery import Delivery
from slackwater.sinks.sql import SqlSink
from slackwater.windowing import CountTrigger, EventTimeTrigger, PurgingTrigger
from tests.properties.test_restatements import LENGTH, History, rows_of_a_slice, steps
from tests.runs.own_lanes import LANES, SESSIONS, TURNS
from tests.runs.world import HOUR, Event, World

pytestmark = pytest.mark.slow


def pipelines() -> st.SearchStrategy[Pipeline]:
    triggers = [None, PurgingTrigger.of(EventTimeTrigger()), CountTrigger.of(2)]
    return st.builds(
        lambda pipeline, trigger, stragglers: replace(
            pipeline, trigger=trigger, stragglers=stragglers, slice=LENGTH * HOUR
        ),
        st.sampled_from([LANES, SESSIONS, TURNS]),
        st.sampled_from(triggers),
        st.sampled_from(["fold", "restate"]),
    )


@given(pipelines(), st.lists(rows_of_a_slice, min_size=3, max_size=3), steps, st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_table_holds_what_is_published_after_any_history(
    pipeline: Pipeline, first: list[list[Any]], program: list[Any], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = SqlSink("report", url=f"sqlite:///{folder}/report.db", table="visits")
        history = History(World(Path(folder) / "world", replace(pipeline, sinks=[sink])))
        history.world.append([Event(-1, -0.5, 0)])  # before the lineage: the source is never empty
        for drawn in first:
            history.run(drawn)
        for step, *arguments in program:
            getattr(history, step)(*arguments)
            if data.draw(st.booleans(), label="delivers"):
                deliver(history.world, sink)
        history.restate_changed()
        deliver(history.world, sink)
        with sa.create_engine(sink.url, poolclass=sa.NullPool).connect() as connection:
            rows = connection.execute(sa.text("SELECT k, tier, n, total FROM visits")).all()
        published = [(row["k"], row["tier"], row["n"], row["total"]) for row in history.world.published()]
        assert sorted(map(tuple, rows)) == sorted(published)


def deliver(world: World, sink: SqlSink) -> None:
    Delivery(world.pipeline, world.tables, str(world.folder)).deliver(sink)
