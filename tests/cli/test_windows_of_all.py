"""Windows of all rows: `key_by=None` from the declaration to what is published, parked, listed, restated and
verified. What is expected is computed here, from the rows.
"""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from deltalake import DeltaTable

from slackwater.pipelines.errors import PipelineError
from slackwater.windowing import (
    AllWindowFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
)
from tests.cli.own_source import HOUR, START, OwnPipeline, every_hour, moment
from tests.integration.command import here
from tests.model import records as model
from tests.properties.slices import declared
from tests.sinks.servers import redis_server

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture
def own(tmp_path: Path) -> OwnPipeline:
    own = OwnPipeline(tmp_path)
    own.declare("key_by=None")
    rows = [*every_hour(0, 48, "a"), *every_hour(0, 48, "b")]
    rows.append({"e": moment(19.5), "a": moment(21.2), "k": "a", "x": 1000})  # fires [18, 20) again
    rows.append({"e": moment(2), "a": moment(23.1), "k": "a", "x": 2000})  # too late
    rows.append({"e": moment(3), "a": moment(3), "k": None, "x": 5})  # no column is a key
    own.append(rows)
    return own


def expected(hours: int) -> dict[int, tuple[int, int]]:
    """(count, sum) by the hour at which a window of two hours starts, of those that have fired by then."""
    windows: dict[int, list[int]] = {}
    for hour in range(hours):
        windows.setdefault(hour // 2 * 2, []).extend([hour, hour])
    windows[2].append(5)
    windows[18].append(1000)
    return {start: (len(xs), sum(xs)) for start, xs in windows.items() if start + 2 < hours}


def published(own: OwnPipeline) -> dict[int, tuple[int, int]]:
    return {(row["window_start"] - START) // HOUR: (row["n"], row["total"]) for row in own.rows("published")}


@pytest.mark.slow
def test_windows_of_all_rows_are_published_without_a_key_column(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert published(own) == expected(24)
    windows = own.json(capsys, "state", "windows", "own")
    assert [(window["window_start"][11:16], window["elements"]) for window in windows] == [
        ("20:00", 4),  # has fired, and still takes late rows
        ("22:00", 4),
    ]
    assert {timer["purpose"] for timer in own.json(capsys, "state", "timers", "own")} == {"fire", "cleanup"}
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert published(own) == expected(48)
    assert {"k", "key"}.isdisjoint(own.rows("published")[0])
    assert {row["key_group"] for row in own.rows("panes")} == {94}
    for seq in (1, 2):
        assert own("verify", "own", seq) == 0
    [late] = own.json(capsys, "late", "list", "own")
    assert late["x"] == 2000


@pytest.mark.slow
def test_the_verbs_around_runs_take_a_pipeline_without_a_key(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here("pipelines", "--pipelines", own.file, "--output", "json") == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(line["key"], line["engine"]) for line in lines if line["name"] == "own"] == [
        ("all rows", "columnar")
    ]
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert own("plan", "own", "--to", "2013-01-04") == 0
    own.append(
        [{"e": moment(5), "a": moment(5.1), "k": "c", "x": 7}]
    )  # it was not there when its day was run
    assert own("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    assert published(own) == {**expected(48), 4: (5, 4 + 4 + 5 + 5 + 7)}
    corrections = [row for row in own.rows("corrections") if row["cause"] == "restatement"]
    assert [(row["op"], row["new"]["n"]) for row in corrections] == [("update", 5)]
    head = max(row["seq"] for row in own.rows("runs"))
    assert own("state", "diff", "own", 1, head) == 0
    for verb in (["state", "timers"], ["state", "keyed"], ["state", "watermarks"], ["late", "report"]):
        assert own(*verb, "own") == 0
    assert own("late", "redrive", "own", "--reason", "test") == 0
    assert own("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    assert published(own)[2] == (6, 2 * (2 + 3) + 5 + 2000)
    assert own("maintain", "own") == 0
    assert own("verify", "own", "--tables") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb", [["state", "windows"], ["late", "list"], ["erase", "--dry-run"]], ids=lambda verb: verb[0]
)
def test_a_key_is_refused_where_there_is_none(
    own: OwnPipeline, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert own(*verb, "own", "--key", "a") == 2
    assert "windows of all rows, which have no key column. Leave --key out" in capsys.readouterr().err


def test_late_rows_are_erased_by_a_column_of_the_source(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own("run", "own", "--to", "2013-01-02") == 0
    rows = own.json(capsys, "erase", "own", "--column", "x=2000", "--dry-run")
    assert rows == [{"table": "late_events", "rows": 1}]


def test_two_pipelines_of_all_rows_are_compared_by_window(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own.file.write_text(
        own.file.read_text()
        + "\nfrom dataclasses import replace\n"
        + 'other = replace(own, name="other", where="k = \'a\' or k is null")\n'
    )
    for name in ("own", "other"):
        assert own("run", name, "--to", "2013-01-02") == 0
    rows = own.json(capsys, "diff", "own", "other")
    assert len(rows) == len(expected(24))
    assert all(row["left"]["n"] == row["right"]["n"] + 2 and not row["key"] for row in rows)
    assert own("diff", "own", "other") == 0


SINKS = """
from slackwater import ChangeFeedSink, CountTrigger, GlobalWindows, PurgingTrigger, RedisSink, SqlSink

def sinks(name, key):
    return [
        SqlSink("report", url="sqlite:///{folder}/report.db", table=name),
        RedisSink("live", url="{redis}", key=name + key),
        ChangeFeedSink("feed", uri="feeds/" + name),
    ]

of_time = replace(own, name="of_time", sinks=sinks("of_time", ":{{window_start_ms}}"))
of_count = replace(
    own,
    name="of_count",
    window=GlobalWindows.create(),
    trigger=PurgingTrigger.of(CountTrigger.of(10)),
    allowed_lateness=0 * HOUR,
    sinks=sinks("of_count", ":{{firing}}"),
)
"""


def test_sinks_have_the_rows_by_window_or_by_firing(own: OwnPipeline, tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        text = "\nfrom dataclasses import replace\n" + SINKS.format(folder=tmp_path, redis=url)
        own.file.write_text(own.file.read_text() + text)
        client = redis.Redis.from_url(url, decode_responses=True)
        for name, identity, key in (
            ("of_time", ["window_start", "window_end"], "window_start_ms"),
            ("of_count", ["firing"], "firing"),
        ):
            assert own("run", name, "--to", "2013-01-02") == 0
            assert own("run", name, "--to", "2013-01-03") == 0
            rows = DeltaTable(str(own.warehouse / name / "published")).to_pyarrow_table().to_pylist()
            totals = sorted(row["total"] for row in rows)
            with closing(sqlite3.connect(tmp_path / "report.db")) as connection:
                assert totals == sorted(row[0] for row in connection.execute(f"SELECT total FROM {name}"))
                columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
            assert [column[1] for column in columns if column[5]] == identity  # the primary key
            hashes = {name_of_key: client.hgetall(name_of_key) for name_of_key in client.keys(f"{name}:*")}
            assert sorted(int(fields["total"]) for fields in hashes.values()) == totals
            expected_keys = {
                f"{name}:{row['firing'] if key == 'firing' else int(row['window_start'].timestamp() * 1000)}"
                for row in rows
            }
            assert set(hashes) == expected_keys
            feed = DeltaTable(str(own.warehouse / "feeds" / name)).to_pyarrow_table().to_pylist()
            signs = {"insert": 1, "update_after": 1, "update_before": -1, "delete": -1}
            assert sum(signs[row["op"]] * row["total"] for row in feed) == sum(totals)
        assert len(totals) == 9  # 99 rows, ten at a time: the late ones count like the others


@pytest.mark.slow
def test_functions_without_a_key_publish_and_verify(own: OwnPipeline) -> None:
    own.file.write_text(
        own.file.read_text()
        + """
from slackwater import ProcessAllWindowFunction

class Longest(ProcessAllWindowFunction):
    def process(self, context, elements):
        for element in sorted(elements, key=lambda element: (-element.x, element.k or ""))[:2]:
            yield element.k, element.x

longest = {"select": {}, "process": Longest(), "output": "who string, x long"}
own = Pipeline(**{**declared, "key_by": None, **longest})
"""
    )
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert own("verify", "own", 1) == 0
    rows = [row for row in own.rows("published") if row["window_start"] == moment(2)]
    assert [
        (row["ordinal"], row["who"], row["x"]) for row in sorted(rows, key=lambda row: row["ordinal"])
    ] == [
        (0, None, 5),
        (1, "a", 3),
    ]


class Keyed(ProcessWindowFunction):
    """Gets a key."""


class All(AllWindowFunction):
    """Gets none."""


class PerKey(KeyedProcessFunction):
    """Keeps state by key."""


@pytest.mark.parametrize(
    ("key_by", "function", "problem"),
    [
        (None, Keyed(), "Keyed gets a key; make it a ProcessAllWindowFunction or AllWindowFunction"),
        ("key", All(), "All is for windows of all rows: give key_by=None"),
        (None, PerKey(), "PerKey keeps state and timers by key; name its key columns"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_function_of_the_other_kind_is_refused(key_by: str | None, function: Any, problem: str) -> None:
    rules = model.Replay(0, 100, 10, 0, model.Tumbling(10), 0, None)
    window = None if isinstance(function, PerKey) else TumblingEventTimeWindows(size_ms=10)
    with pytest.raises(PipelineError, match=re.escape(problem)):
        declared(rules, key_by=key_by, window=window, process=function, output="n long")


@pytest.mark.parametrize(("before", "after"), [("key_by=None", ""), ("", "key_by=None")], ids=["key", "all"])
def test_a_lineage_does_not_change_between_a_key_and_none(
    own: OwnPipeline, before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own.declare(before)
    assert own("run", "own", "--to", "2013-01-02") == 0
    own.declare(after)
    assert own("run", "own", "--to", "2013-01-03") == 2
    assert "or begin a new lineage: move the folder own out of the warehouse" in capsys.readouterr().err
    assert len(own.rows("runs")) == 1
