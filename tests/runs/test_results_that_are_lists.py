"""A result that is a list, of numbers or of structs, is readable at every door: tables, parked parts in SQL,
the command line, pages, and sinks with and without types for lists.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa
from deltalake import DeltaTable

from slackwater.pages.app import create_app
from slackwater.pipelines import agg
from slackwater.runs.publishing.delivery import Delivery
from slackwater.sinks import ChangeFeedSink
from slackwater.sinks.redis import RedisSink
from slackwater.sinks.sql import SqlSink
from tests.integration.command import here
from tests.pages.page_reader import PageReader
from tests.runs.world import DAILY, Event, World
from tests.sinks.servers import redis_server

SELECT = {"in_order": agg.collect_list("x"), "frequent": agg.top("x", 2), "texts": agg.string_agg("k", "+")}
IN_ORDER, FREQUENT = [5, 3, 5], [{"value": 5, "count": 2}, {"value": 3, "count": 1}]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One window that has fired and one that is open."""
    world = World(tmp_path, replace(DAILY, select=SELECT))
    events = [Event(0.1, 0.2, 0, x=5), Event(0.5, 0.6, 1, x=3), Event(0.7, 0.8, 2, x=5)]
    world.append([*events, Event(23.2, 23.3, 3, x=8), Event(23.1, 23.4, 4, x=7)])
    world.run(24)
    return world


def test_panes_and_published_have_the_lists(world: World) -> None:
    for rows in (world.live("panes"), world.published()):
        [row] = rows
        assert (row["in_order"], row["frequent"], row["texts"]) == (IN_ORDER, FREQUENT, "a+a+a")


def test_expressions_over_results_read_lists(world: World) -> None:
    world.declare(results={"greatest": "list_max(in_order)"}, having="len(in_order) > 2", hidden=["frequent"])
    other = World(world.folder / "other", world.pipeline)
    other.append(
        [Event(0.1, 0.2, row, x=row) for row in range(3)] + [Event(0.1, 0.2, 3, key="b"), Event(9, 9.1, 4)]
    )
    other.run(24)
    [row] = other.published()
    assert (row["k"], row["greatest"]) == ("a", 2) and "frequent" not in row


def test_sql_reads_results_and_the_values_of_open_windows(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    parked = "SELECT unnest(in_order__rows).value AS x, frequent__values AS known FROM windows_now"
    results = "SELECT in_order, frequent FROM published"
    answers = []
    for statement in (parked, results):
        assert here("sql", "daily", statement, "--warehouse", world.folder, "--output", "json") == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == [{"x": 7, "known": [7, 8]}, {"x": 8, "known": [7, 8]}]
    assert answers[1] == [{"in_order": IN_ORDER, "frequent": FREQUENT}]
    assert here("sql", "daily", results, "--warehouse", world.folder) == 0
    assert "5, 3, 5   value 5, count 2, value 3, count 1" in capsys.readouterr().out


def test_pages_show_the_lists_as_json(world: World) -> None:
    pages = PageReader(create_app(str(world.folder), None))
    for statement in ("FROM+published", "FROM+panes_live"):
        text = pages.page(f"/daily/sql?statement={statement}").text
        assert "[5, 3, 5]" in text and '[{"value": 5, "count": 2}, {"value": 3, "count": 1}]' in text
    assert '"value": 7' in pages.page("/daily/state/windows").text


def test_sinks_get_them_as_lists_or_as_json_text(world: World, tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        sql = SqlSink("report", url=f"sqlite:///{tmp_path}/target.db", table="visits")
        sinks = [
            sql,
            RedisSink("live", url=url, key="visits:{k}:{window_start_ms}"),
            ChangeFeedSink("feed", uri="feeds/visits"),
        ]
        world.declare(sinks=sinks)
        for sink in sinks:
            Delivery(world.pipeline, world.tables, str(world.folder)).deliver(sink)
        with sa.create_engine(sql.url, poolclass=sa.NullPool).connect() as connection:
            [row] = connection.execute(sa.text("SELECT in_order, frequent FROM visits")).all()
        assert tuple(map(json.loads, row)) == (IN_ORDER, FREQUENT)
        client = redis.Redis.from_url(url, decode_responses=True)
        [values] = [client.hgetall(key) for key in client.keys("visits:*")]
        assert (json.loads(values["in_order"]), json.loads(values["frequent"])) == (IN_ORDER, FREQUENT)
    [change] = DeltaTable(f"{world.folder}/feeds/visits").to_pyarrow_table().to_pylist()
    assert (change["in_order"], change["frequent"]) == (IN_ORDER, FREQUENT)
