"""Sinks hold what `published` shows, after any history of runs, restatements, restores, closes and kills,
with batches of a few rows and targets that are down for a while.

The model of a sink is `published` itself, as delta-rs reads it; sinks are read by their own clients.
"""

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from deltalake import DeltaTable, write_deltalake

from tests.cli.own_source import OwnPipeline, moment
from tests.integration.command import driver
from tests.integration.driver import MOMENTS, Plan
from tests.sinks.servers import redis_server

Row = tuple[str, datetime, int, int]
DELIVERIES = [name for name in MOMENTS if "batch" in name]
FILE = """
from slackwater import ChangeFeedSink, FunctionSink, RedisSink, SqlSink

def deliver(changes, position):
    raise RuntimeError("the function is not done yet")

sinks = [
    SqlSink("report", url="sqlite:///{folder}/report.db", table="totals"),
    RedisSink("live", url="{redis}", key="totals:{{k}}:{{window_start_ms}}"),
    ChangeFeedSink("feed", uri="feeds/totals"),
]
"""


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@dataclass
class Delivered:
    """The pipeline `own` with three sinks, and who reads them."""

    own: OwnPipeline
    url: str
    end: int = 0
    rows: int = 0
    chance: random.Random = field(default_factory=random.Random)
    large_rows: int = 15

    def __post_init__(self) -> None:
        redis.Redis.from_url(self.url).flushall()
        text = FILE.format(folder=self.own.root, redis=self.url)
        self.own.file.write_text(
            self.own.file.read_text().replace("own = Pipeline", f"{text}\nown = Pipeline")
        )
        self.own.file.write_text(self.own.file.read_text().replace("**dict()", "**dict(sinks=sinks)"))

    def append_a_day(self) -> None:
        """A day of rows, some of them a few hours late, some too late."""
        rows = []
        for hour in range(self.end, self.end + 24):
            for _ in range(self.chance.randint(0, 3)):
                delay = self.chance.choice([0, 0, 0, 0.5, 1.5, 3, 30])
                self.rows += 1
                key = self.chance.choice("abc")
                event = max(0.0, hour - delay)
                rows.append({"e": moment(event), "a": moment(hour), "k": key, "x": self.rows})
        self.own.append(rows or [{"e": moment(self.end), "a": moment(self.end), "k": "a", "x": 0}])
        self.end += 24

    def drive(
        self,
        *verb: object,
        at: str | None = None,
        nth: int = 1,
        batch_rows: int = 7,
        spark: bool = False,
    ) -> int:
        """Run a verb in a process of its own, with small batches; it may be killed at a moment."""
        plan = Plan(at=at, nth=nth, batch_rows=batch_rows, large_rows=self.large_rows, spark=spark)
        arguments = [*verb, "--warehouse", self.own.warehouse, "--pipelines", self.own.file]
        return driver(plan, *arguments).returncode

    def published(self) -> set[Row]:
        return {(row["k"], row["window_start"], row["n"], row["total"]) for row in self.own.rows("published")}

    def in_sql(self) -> set[Row]:
        with closing(sqlite3.connect(self.own.root / "report.db")) as connection:
            rows = connection.execute("SELECT k, window_start, n, total FROM totals").fetchall()
        return {
            (k, datetime.fromisoformat(start).replace(tzinfo=UTC), n, total) for k, start, n, total in rows
        }

    def in_redis(self) -> set[Row]:
        client = redis.Redis.from_url(self.url, decode_responses=True)
        rows = {key: client.hgetall(key) for key in client.keys("totals:*")}
        return {
            (
                key.split(":")[1],
                datetime.fromtimestamp(int(key.split(":")[2]) / 1000, UTC),
                int(row["n"]),
                int(row["total"]),
            )
            for key, row in rows.items()
        }

    def in_feed(self) -> set[Row]:
        rows: list[dict[str, Any]] = (
            DeltaTable(str(self.own.warehouse / "feeds/totals")).to_pyarrow_table().to_pylist()
        )
        signs = {"insert": 1, "update_after": 1, "update_before": -1, "delete": -1}
        counts: dict[Row, int] = {}
        for row in rows:
            identity = row["k"], row["window_start"], row["n"], row["total"]
            counts[identity] = counts.get(identity, 0) + signs[row["op"]]
        assert set(counts.values()) <= {0, 1}
        return {identity for identity, count in counts.items() if count}

    def assert_delivered(self) -> None:
        published = self.published()
        assert self.in_sql() == published
        assert self.in_redis() == published
        assert self.in_feed() == published


@pytest.fixture
def delivered(tmp_path: Path, redis_url: str) -> Delivered:
    return Delivered(OwnPipeline(tmp_path), redis_url)


def days(first: int, last: int) -> tuple[object, ...]:
    return "--from", moment(24 * first).isoformat(), "--to", moment(24 * last).isoformat()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 8))
def test_any_history_leaves_in_every_sink_what_is_published(delivered: Delivered, seed: int) -> None:
    chance = delivered.chance = random.Random(seed)
    delivered.append_a_day()
    assert delivered.drive("run", "own", "--to", moment(24).isoformat()) == 0
    delivered.assert_delivered()
    for _ in range(6):
        day = delivered.end // 24
        match chance.choice(["run", "run", "killed", "killed", "backfill", "restore", "no deliver"]):
            case "run":
                delivered.append_a_day()
                assert delivered.drive("run", "own", "--to", moment(delivered.end).isoformat()) == 0
            case "no deliver":
                delivered.append_a_day()
                verb = ("run", "own", "--to", moment(delivered.end).isoformat())
                assert delivered.drive(*verb, "--no-deliver") == 0
                assert delivered.drive("sinks", "deliver", "own") == 0
            case "killed":
                delivered.append_a_day()
                verb = ("run", "own", "--to", moment(delivered.end).isoformat())
                delivered.drive(*verb, at=chance.choice([*DELIVERIES, *MOMENTS]), nth=chance.randint(1, 3))
                assert delivered.drive(*verb) == 0
            case "backfill":
                first = chance.randrange(day)
                assert delivered.drive("backfill", "own", *days(first, day)) == 0
            case "restore":
                seqs = [row["seq"] for row in delivered.own.rows("runs") if row["kind"] == "run"]
                assert delivered.drive("state", "restore", "own", chance.choice(seqs)) in (0, 2)
                assert delivered.drive("run", "own", "--to", moment(delivered.end).isoformat(), "--all") == 0
        delivered.assert_delivered()


@pytest.mark.slow
@pytest.mark.parametrize("at", DELIVERIES)
def test_a_delivery_killed_at_a_batch_is_finished_by_the_next(delivered: Delivered, at: str) -> None:
    delivered.chance = random.Random(at)
    for _ in range(2):
        delivered.append_a_day()
    verb = ("run", "own", "--to", moment(delivered.end).isoformat())
    assert delivered.drive(*verb, at=at, nth=2) == -9
    assert delivered.drive("sinks", "deliver", "own") == 0
    delivered.assert_delivered()


def lanes(delivered: Delivered) -> set[str]:
    """The lanes that the database has positions of."""
    with closing(sqlite3.connect(delivered.own.root / "report.db")) as connection:
        rows = connection.execute("SELECT sink FROM slackwater_positions WHERE sink LIKE '%/%'").fetchall()
    return {sink for (sink,) in rows}


@pytest.mark.slow
def test_a_ledger_row_with_many_corrections_is_delivered_in_lanes(delivered: Delivered) -> None:
    delivered.chance = random.Random(3)
    for _ in range(2):
        delivered.append_a_day()
        assert delivered.drive("run", "own", "--to", moment(delivered.end).isoformat()) == 0
    assert lanes(delivered) == {f"report/{number}" for number in range(8)}
    delivered.assert_delivered()
    assert delivered.drive("sinks", "reset", "own", "report") == 0
    assert lanes(delivered) == set()
    assert delivered.drive("sinks", "deliver", "own") == 0
    delivered.assert_delivered()


@pytest.mark.slow
@pytest.mark.spark
def test_lanes_are_tasks_of_spark(delivered: Delivered) -> None:
    delivered.chance = random.Random(4)
    delivered.append_a_day()
    assert delivered.drive("run", "own", "--to", moment(24).isoformat(), spark=True) == 0
    assert lanes(delivered) == {f"report/{number}" for number in range(8)}
    delivered.assert_delivered()


def test_a_sink_that_is_down_never_blocks_publishing(
    delivered: Delivered, capsys: pytest.CaptureFixture[str]
) -> None:
    delivered.append_a_day()
    text = delivered.own.file.read_text()
    delivered.own.file.write_text(text.replace(delivered.url, "redis://127.0.0.1:1/0"))
    assert delivered.own("run", "own", "--to", moment(24).isoformat()) == 0
    warnings = capsys.readouterr().err
    assert "warning: sink live: Redis of redis://127.0.0.1:1/0 has failed" in warnings
    assert delivered.in_sql() == delivered.in_feed() == delivered.published()
    assert delivered.in_redis() == set()
    assert delivered.own("sinks", "deliver", "own") == 3
    states = delivered.own.json(capsys, "sinks", "list", "own")
    assert [state["backlog"] for state in states] == [0, None, 0]
    assert [state["state"] for state in states] == ["delivered", "out of reach", "delivered"]
    assert "Redis of redis://127.0.0.1:1/0" in states[1]["problem"]
    delivered.own.file.write_text(text)
    [live] = delivered.own.json(capsys, "sinks", "list", "own", "live")
    assert live["backlog"] == len(delivered.published())
    delivered.append_a_day()
    assert delivered.own("run", "own", "--to", moment(48).isoformat()) == 0
    delivered.assert_delivered()


def test_rows_that_a_table_refuses_are_set_aside_listed_and_retried(
    delivered: Delivered, capsys: pytest.CaptureFixture[str]
) -> None:
    delivered.append_a_day()
    assert delivered.own("run", "own", "--to", moment(24).isoformat()) == 0
    with closing(sqlite3.connect(delivered.own.root / "report.db")) as connection:
        connection.execute(
            "CREATE TRIGGER refuses BEFORE INSERT ON totals WHEN NEW.k = 'a' "
            "BEGIN SELECT RAISE(ABORT, 'no key a here'); END"
        )
    delivered.append_a_day()
    capsys.readouterr()
    assert delivered.own("run", "own", "--to", moment(48).isoformat()) == 0
    assert "set aside, which its target can't take: key" in capsys.readouterr().err
    published = delivered.published()
    refused = published - delivered.in_sql()
    assert refused and {key for key, *_ in refused} == {"a"}
    assert delivered.in_redis() == delivered.in_feed() == published
    assert delivered.own("sinks", "deliver", "own") == 1
    assert "no key a here" in capsys.readouterr().err
    rows = delivered.own.json(capsys, "sinks", "set-aside", "own")
    assert {(row["sink"], row["column"], row["reason"]) for row in rows} == {("report", "k", "no key a here")}
    assert {json.loads(row["key"])["window_start"][:19] for row in rows} == {
        f"{start:%Y-%m-%d %H:%M:%S}" for _, start, *_ in refused
    }
    states = delivered.own.json(capsys, "sinks", "list", "own")
    assert [(state["state"], state["set_aside"]) for state in states] == [
        ("rows set aside", len(refused)),
        ("delivered", 0),
        ("delivered", 0),
    ]
    assert delivered.own("sinks", "retry", "own", "report") == 1
    with closing(sqlite3.connect(delivered.own.root / "report.db")) as connection:
        connection.execute("DROP TRIGGER refuses")
    assert delivered.own("sinks", "retry", "own") == 0
    delivered.assert_delivered()
    assert delivered.own.json(capsys, "sinks", "set-aside", "own") == []


def test_a_reset_sink_is_delivered_to_again(delivered: Delivered, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        delivered.append_a_day()
    assert delivered.own("run", "own", "--to", moment(72).isoformat()) == 0
    with closing(sqlite3.connect(delivered.own.root / "report.db")) as connection, connection:
        connection.execute("DELETE FROM totals")
    assert delivered.own("sinks", "reset", "own", "report") == 0
    assert delivered.own("sinks", "reset", "own", "live", "--to", "2") == 0
    [live] = delivered.own.json(capsys, "sinks", "list", "own", "live")
    assert (live["seq"], live["backlog"] > 0) == (2, True)
    assert delivered.own("sinks", "deliver", "own") == 0
    delivered.assert_delivered()
    assert delivered.own("sinks", "reset", "own", "feed") == 2
    assert delivered.own("sinks", "reset", "own", "report", "--to", "99") == 2


def test_a_window_that_takes_the_place_of_another_is_there_after_it_has_gone(delivered: Delivered) -> None:
    """A session that a restatement makes shorter begins where the longer one did: with one row a batch, the
    row that is withdrawn must not take the new one with it.
    """
    text = delivered.own.file.read_text()
    delivered.own.file.write_text(
        text.replace(
            "window=TumblingEventTimeWindows.of(2 * HOUR)", "window=EventTimeSessionWindows.with_gap(HOUR)"
        )
    )
    rows = [{"e": moment(hour), "a": moment(hour), "k": "a", "x": 1} for hour in (0, 0.5, 9)]
    delivered.own.append(rows)
    assert delivered.drive("run", "own", "--to", moment(24).isoformat()) == 0
    table = pa.Table.from_pylist([rows[0], rows[2]], schema=delivered.own.schema)
    write_deltalake(delivered.own.source, table, mode="overwrite")
    assert delivered.drive("backfill", "own", *days(0, 1), batch_rows=1) == 0
    assert moment(1) in {row["window_end"] for row in delivered.own.rows("published")}
    delivered.assert_delivered()


def test_a_function_that_raises_leaves_its_sink_behind(
    delivered: Delivered, capsys: pytest.CaptureFixture[str]
) -> None:
    delivered.append_a_day()
    text = delivered.own.file.read_text()
    delivered.own.file.write_text(text.replace("sinks = [", 'sinks = [FunctionSink("mine", deliver),'))
    assert delivered.own("run", "own", "--to", moment(24).isoformat()) == 0
    assert "the function is not done yet" in capsys.readouterr().err
    delivered.assert_delivered()
    assert delivered.own("sinks", "deliver", "own", "mine") == 3
    delivered.own.file.write_text(
        text.replace("sinks = [", 'sinks = [FunctionSink("mine", lambda c, p: None),')
    )
    assert delivered.own("sinks", "deliver", "own", "mine") == 0
    [mine] = delivered.own.json(capsys, "sinks", "list", "own", "mine")
    assert mine["backlog"] == 0
