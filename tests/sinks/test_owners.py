"""A target belongs to one sink of one pipeline, in one warehouse as across warehouses."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from slackwater import ChangeFeedSink, RedisSink, Sink, SinkContext, SinkPosition, SqlSink
from slackwater.sinks.errors import SinkUnsuitable
from tests.sinks.histories import History, context
from tests.sinks.servers import redis_server

KEY = "visits:{page}:{window_start_ms}"
START = SinkPosition(0, 0)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def clients(redis_url: str) -> Any:
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.flushall()
    return client


def deliver(sink: Sink, sink_context: SinkContext, seed: int = 1) -> SinkPosition:
    """Deliver a history of few corrections, from where the target is."""
    history = History.drawn(random.Random(seed), seqs=2, most=5)
    target, end = sink.open(sink_context), SinkPosition(*history.position(len(history.changes)))
    try:
        target.deliver(history.table(0, len(history.changes)), target.position(), end)
        return target.position()
    finally:
        target.close()


def in_sql(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.parametrize(
    ("change", "sink_name"),
    [
        ({"pipeline": "clicks"}, "report"),
        ({"pipeline": "clicks", "lineage": "another"}, "report"),
        ({}, "second"),
    ],
    ids=["pipeline", "warehouse", "sink"],
)
@pytest.mark.parametrize("kind", ["sql", "redis", "feed"])
def test_a_target_is_refused_for_a_second_sink_and_keeps_the_rows_of_the_first(
    tmp_path: Path, redis_url: str, clients: Any, kind: str, change: dict[str, str], sink_name: str
) -> None:
    makers: dict[str, Callable[[str], Sink]] = {
        "sql": lambda name: SqlSink(name, url=f"sqlite:///{tmp_path}/t.db", table="visits"),
        "redis": lambda name: RedisSink(name, url=redis_url, key=KEY),
        "feed": lambda name: ChangeFeedSink(name, uri="feeds/visits"),
    }
    first, sink_context = makers[kind]("report"), context(str(tmp_path))
    end = deliver(first, sink_context)
    with pytest.raises(SinkUnsuitable, match=r"belongs to the sink report of pipeline visits|not delivered"):
        deliver(makers[kind](sink_name), replace(sink_context, **change), seed=2)
    target = first.open(sink_context)
    assert target.position() == end
    target.close()


def test_an_empty_table_is_taken_over_by_a_reset_and_no_other(tmp_path: Path) -> None:
    path, sink_context = tmp_path / "t.db", context(str(tmp_path))
    sink, clicks = (
        SqlSink("report", url=f"sqlite:///{path}", table="visits"),
        replace(sink_context, pipeline="clicks"),
    )
    deliver(sink, sink_context)
    target = sink.open(clicks)
    with pytest.raises(SinkUnsuitable, match="belongs to the sink report of pipeline visits"):
        target.reset(START)
    in_sql(path, "DELETE FROM visits")
    target.reset(START)
    assert target.position() == START
    target.close()
    assert deliver(sink, clicks) > START
    with pytest.raises(SinkUnsuitable, match="belongs to the sink report of pipeline clicks"):
        deliver(sink, sink_context)


def test_a_sink_with_another_table_or_a_dropped_one_begins_anew(tmp_path: Path) -> None:
    path, sink_context = tmp_path / "t.db", context(str(tmp_path))
    sink = SqlSink("report", url=f"sqlite:///{path}", table="visits")
    deliver(sink, sink_context)
    rows = in_sql(path, "SELECT * FROM visits ORDER BY 1, 2")
    deliver(replace(sink, table="moved"), sink_context)
    assert in_sql(path, "SELECT * FROM moved ORDER BY 1, 2") == rows
    in_sql(path, "DROP TABLE moved")
    deliver(replace(sink, table="moved"), sink_context)
    assert in_sql(path, "SELECT * FROM moved ORDER BY 1, 2") == rows


def test_lanes_of_a_table_have_positions_of_their_own(tmp_path: Path) -> None:
    """Lanes may be opened by several processes, and belong to the sink that has the table."""
    sink, sink_context = (
        SqlSink("report", url=f"sqlite:///{tmp_path}/t.db", table="visits"),
        context(str(tmp_path)),
    )
    target, history = sink.open(sink_context), History.drawn(random.Random(1), seqs=1, most=9)
    count = len(history.changes)
    lane, end = target.lane(3), SinkPosition(*history.position(count))
    assert lane is not None and lane.position() == START
    assert lane.deliver(history.table(0, count), START, end)
    assert (lane.position(), target.position()) == (end, START)
    target.reset(START)
    same_lane = target.lane(3)
    assert same_lane is not None and same_lane.position() == START
    target.close()


def test_keys_of_which_one_beginning_goes_on_with_the_other_are_refused(
    tmp_path: Path, redis_url: str, clients: Any
) -> None:
    """`visits:{page}` writes keys of `visits:late:{page}` where a page is called so."""
    sink_context = context(str(tmp_path))
    deliver(RedisSink("live", url=redis_url, key=KEY), sink_context)
    clicks = replace(sink_context, pipeline="clicks")
    with pytest.raises(SinkUnsuitable, match="belongs to the sink live of pipeline visits"):
        deliver(RedisSink("live", url=redis_url, key=f"visits:late:{KEY}"), clicks)
    assert deliver(RedisSink("live", url=redis_url, key=f"late:{KEY}"), clicks) > START


def test_a_sink_with_another_key_begins_anew(tmp_path: Path, redis_url: str, clients: Any) -> None:
    sink_context = context(str(tmp_path))
    deliver(RedisSink("live", url=redis_url, key=KEY), sink_context)
    hashes = {key: clients.hgetall(key) for key in clients.keys("visits:*")}
    deliver(RedisSink("live", url=redis_url, key=f"v2:{KEY}"), sink_context)
    assert {key.removeprefix("v2:"): clients.hgetall(key) for key in clients.keys("v2:*")} == hashes
