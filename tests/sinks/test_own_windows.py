"""Rows of windows of a user's own class in sinks: told apart by the columns that the class declares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
import sqlalchemy as sa

from slackwater.runs.publishing.delivery import Delivery, identity_of
from slackwater.sinks.errors import SinkUnsuitable
from slackwater.sinks.redis import RedisSink
from slackwater.sinks.sql import SqlSink
from slackwater.sinks.targets.redis import check_key
from tests.runs.own_lanes import LANES, TURNS, lanes_of_a_day
from tests.runs.world import Event, World
from tests.sinks.servers import redis_server


def test_rows_of_sinks_are_told_apart_by_the_declared_columns(tmp_path: Path) -> None:
    assert identity_of(LANES) == ("k", "window_start", "window_end", "tier")
    assert identity_of(TURNS) == ("k", "tier", "number", "size")
    for pipeline, name in ((LANES, "lanes"), (TURNS, "turns")):
        sink = SqlSink("report", url=f"sqlite:///{tmp_path}/{name}.db", table="visits")
        world = lanes_of_a_day(replace(pipeline, sinks=[sink]), tmp_path / name)
        delivery = Delivery(world.pipeline, world.tables, str(world.folder))
        delivery.deliver(sink)
        with sa.create_engine(sink.url, poolclass=sa.NullPool).connect() as connection:
            rows = connection.execute(sa.text("SELECT k, tier, n FROM visits")).all()
        assert sorted(rows) == sorted((row["k"], row["tier"], row["n"]) for row in world.published())
        context = delivery.context()
        with pytest.raises(SinkUnsuitable, match=r"rows that differ in .*tier"):
            check_key("live", "{k}", context)
        check_key("live", ":".join(f"{{{column}}}" for column in context.identity), context)


def test_hashes_in_redis_have_the_lane_in_their_keys(tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        sink = RedisSink("live", url=url, key="visits:{k}:{tier}:{number}:{size}")
        world = lanes_of_a_day(replace(TURNS, sinks=[sink]), tmp_path)
        Delivery(world.pipeline, world.tables, str(world.folder)).deliver(sink)
        assert hashes_in(url) == hashes_of(world)
        world.rewrite(0, 24, [Event(0.1, 0.2, 0, x=0), Event(0.2, 0.3, 1, x=2)])
        world.backfill(0, 24)
        Delivery(world.pipeline, world.tables, str(world.folder)).deliver(sink)
        assert hashes_in(url) == hashes_of(world)


def hashes_in(url: str) -> dict[str, dict[str, str]]:
    """The hashes that stand in Redis, by key."""
    client = redis.Redis.from_url(url, decode_responses=True)
    return {key: client.hgetall(key) for key in client.keys("visits:*")}


def hashes_of(world: World) -> dict[str, dict[str, str]]:
    """The hashes of what is published."""
    return {
        f"visits:{row['k']}:{quote(row['tier'])}:{row['number']}:{row['size']}": {
            "n": str(row["n"]),
            "total": str(row["total"]),
        }
        for row in world.published()
    }
