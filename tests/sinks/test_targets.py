"""What every target promises, whatever it is: a batch is applied once, at its position, with the position;
what stands in it is what the corrections up to there say. Covers slackwater.sinks.targets.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from deltalake import DeltaTable

from slackwater import ChangeFeedSink, FunctionSink, RedisSink, Sink, SinkContext, SinkPosition, SqlSink
from slackwater.sinks.errors import SinkDown, SinkUnsuitable
from tests.sinks.histories import EPOCH, History, Identity, Result, context
from tests.sinks.servers import postgres_binaries, postgres_server, redis_server

KINDS = ("sqlite", "postgres", "redis", "feed", "function")
KEY = "visits:{page}:{window_start_ms}"


@dataclass
class Place:
    """Where a sink of one kind delivers to, and how a stranger reads it."""

    sink: Sink
    rows: Callable[[], dict[Identity, Result]]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine")
    with postgres_server(binaries) as url:
        yield url


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    match request.param:
        case "sqlite":
            return of_sql(f"sqlite:///{tmp_path}/target.db", monkeypatch)
        case "postgres":
            url = request.getfixturevalue("postgres_url")
            tables = "visits, slackwater_positions, slackwater_set_aside"
            with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
                connection.execute(sa.text(f"DROP TABLE IF EXISTS {tables}"))
            return of_sql(url, monkeypatch)
        case "redis":
            return of_redis(request.getfixturevalue("redis_url"), monkeypatch)
        case "feed":
            return Place(ChangeFeedSink("feed", uri="feeds/visits"), lambda: replayed_feed(tmp_path))
        case _:
            return of_function()


def of_sql(url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TARGET", url)

    def rows() -> dict[Identity, Result]:
        with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
            stored = connection.execute(sa.text("SELECT * FROM visits")).mappings().all()
        return {(row["page"], moment(row["window_start"])): result_of(row) for row in stored}

    return Place(SqlSink("report", url="env:TARGET", table="visits"), rows)


def of_redis(url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TARGET", url)
    client = redis.Redis.from_url(url, decode_responses=True)
    client.flushall()

    def rows() -> dict[Identity, Result]:
        keys = [key for key in client.scan_iter() if key.startswith("visits:")]
        return {identity_of_key(key): texts_read(client.hgetall(key)) for key in keys}

    return Place(RedisSink("live", url="env:TARGET", key=KEY), rows)


def of_function() -> Place:
    rows: dict[Identity, Result] = {}

    def deliver(changes: Any, position: tuple[int, int]) -> None:
        for change in changes.to_pylist():
            if change["op"] == "withdraw":
                del rows[change["page"], change["window_start"]]
            else:
                rows[change["page"], change["window_start"]] = change["new"]

    return Place(FunctionSink("mine", deliver), lambda: dict(rows))


def moment(value: Any) -> Any:
    from datetime import datetime

    value = datetime.fromisoformat(value) if isinstance(value, str) else value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def result_of(row: Any) -> Result:
    return {name: row[name] for name in ("visits", "mean", "label")}


def identity_of_key(key: str) -> Identity:
    from datetime import datetime

    _, _, rest = key.partition(":")
    page, _, start = rest.rpartition(":")
    return page, datetime.fromtimestamp(int(start) / 1000, UTC)


def texts_read(fields: dict[str, str]) -> Result:
    mean = fields.get("mean")
    return {
        "visits": int(fields["visits"]),
        "mean": None if mean is None else float(mean),
        "label": fields.get("label"),
    }


def replayed_feed(warehouse: Path) -> dict[Identity, Result]:
    """What the rows of the feed say in their order, each of which must fit what stands."""
    if not DeltaTable.is_deltatable(str(warehouse / "feeds/visits")):
        return {}
    table = DeltaTable(str(warehouse / "feeds/visits"))
    paths = [path for _, path in sorted(commit_order(table))]
    import pyarrow.parquet as pq

    rows: dict[Identity, Result] = {}
    for path in paths:
        for change in pq.read_table(warehouse / "feeds/visits" / path).to_pylist():
            identity = change["page"], change["window_start"]
            if change["op"] in ("update_before", "delete"):
                assert rows[identity] == result_of(change)
            if change["op"] == "delete":
                del rows[identity]
            if change["op"] == "insert":
                assert identity not in rows
            if change["op"] in ("insert", "update_after"):
                rows[identity] = result_of(change)
    return rows


def commit_order(table: DeltaTable) -> list[tuple[int, str]]:
    """(version, path) of each file."""
    import json

    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    return [
        (int(commit.stem), action["add"]["path"])
        for commit in log.glob("*.json")
        for action in map(json.loads, commit.read_text().splitlines())
        if "add" in action
    ]


def at(history: History, count: int) -> SinkPosition:
    return SinkPosition(*history.position(count))


@pytest.fixture
def of_visits(tmp_path: Path) -> SinkContext:
    return context(str(tmp_path))


@pytest.mark.first_fast
@pytest.mark.parametrize("seed", range(4))
def test_what_stands_is_what_the_corrections_up_to_the_position_say(
    place: Place, of_visits: SinkContext, seed: int
) -> None:
    """Cut anywhere, by deliverers that come and go, with batches delivered again in between."""
    chance = random.Random(seed)
    history, delivered = History.drawn(chance, seqs=8, most=12), 0
    while delivered < len(history.changes):
        target = place.sink.open(of_visits)
        assert target.position() == at(history, delivered)
        for _ in range(chance.randint(1, 3)):
            first = chance.choice([delivered, delivered, chance.randint(0, delivered)])
            last = chance.randint(first, min(first + 9, len(history.changes)))
            is_new = at(history, first) == at(history, delivered)
            done = target.deliver(history.table(first, last), at(history, first), at(history, last))
            assert done == is_new
            delivered = last if is_new else delivered
            assert place.rows() == history.standing[delivered]
        target.close()


def test_of_two_deliverers_one_applies_a_batch(place: Place, of_visits: SinkContext) -> None:
    history = History.drawn(random.Random(7), seqs=3, most=20)
    first, second = place.sink.open(of_visits), place.sink.open(of_visits)
    count = len(history.changes)
    assert first.position() == second.position() == SinkPosition(0, 0)
    assert first.deliver(history.table(0, count), at(history, 0), at(history, count))
    assert not second.deliver(history.table(0, count), at(history, 0), at(history, count))
    assert second.position() == at(history, count)
    assert place.rows() == history.standing[count]
    first.close()
    second.close()


def test_a_target_of_another_lineage_is_told_apart(place: Place, of_visits: SinkContext) -> None:
    history = History.drawn(random.Random(1), seqs=2, most=5)
    with closing(place.sink.open(of_visits)) as target:
        target.deliver(history.table(0, 3), at(history, 0), at(history, 3))
    if isinstance(place.sink, ChangeFeedSink):
        with pytest.raises(SinkUnsuitable, match="rows that this sink has not delivered"):
            place.sink.open(replace(of_visits, lineage="another"))
        return
    with closing(place.sink.open(replace(of_visits, lineage="another"))) as other:
        if isinstance(place.sink, SqlSink | RedisSink):
            with pytest.raises(SinkUnsuitable, match=r"delivered from another warehouse.*sinks reset visits"):
                other.position()
        else:
            assert other.position() == SinkPosition(0, 0)


def test_a_reset_target_takes_the_corrections_again(place: Place, of_visits: SinkContext) -> None:
    history = History.drawn(random.Random(3), seqs=5, most=10)
    count = len(history.changes)
    with closing(place.sink.open(of_visits)) as target:
        target.deliver(history.table(0, count), at(history, 0), at(history, count))
        if isinstance(place.sink, ChangeFeedSink):
            with pytest.raises(SinkUnsuitable, match="only grows"):
                target.reset(SinkPosition(0, 0))
            return
        target.reset(SinkPosition(0, 0))
        assert target.position() == SinkPosition(0, 0)
        if isinstance(place.sink, FunctionSink):
            return
        target.deliver(history.table(0, count), at(history, 0), at(history, count))
    assert place.rows() == history.standing[count]


def test_a_database_that_is_not_there_is_down(
    of_visits: SinkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARGET", "postgresql+psycopg2://somebody:s3cret@127.0.0.1:1/nothing")
    with pytest.raises(SinkDown, match="sink report") as caught:
        SqlSink("report", url="env:TARGET", table="visits").open(of_visits)
    assert "s3cret" not in str(caught.value)


def test_a_redis_that_is_not_there_is_down(of_visits: SinkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET", "redis://:s3cret@127.0.0.1:1/0")
    with pytest.raises(SinkDown, match="sink live") as caught:
        RedisSink("live", url="env:TARGET", key=KEY).open(of_visits).position()
    assert "s3cret" not in str(caught.value)


@pytest.fixture
def connections() -> Iterator[dict[str, list[object]]]:
    """The connections of SQLAlchemy that a test opens and closes, by event, in that order."""
    events: dict[str, list[object]] = {"connect": [], "close": []}
    listeners = {name: lambda connection, _, name=name: events[name].append(connection) for name in events}
    for name, listener in listeners.items():
        sa.event.listen(sa.Pool, name, listener)
    yield events
    for name, listener in listeners.items():
        sa.event.remove(sa.Pool, name, listener)


def test_no_connection_stays_open_behind_a_closed_or_a_refused_target(
    tmp_path: Path,
    of_visits: SinkContext,
    monkeypatch: pytest.MonkeyPatch,
    connections: dict[str, list[object]],
) -> None:
    history = History.drawn(random.Random(11), seqs=2, most=9)
    sink = of_sql(f"sqlite:///{tmp_path}/target.db", monkeypatch).sink
    with closing(sink.open(of_visits)) as target:
        target.deliver(history.table(0, 2), at(history, 0), at(history, 2))
        target.lane(1).position()
    with pytest.raises(SinkUnsuitable, match="lacks site"):
        sink.open(replace(of_visits, keys=(("site", of_visits.keys[0][1]),), identity=("site",)))
    assert len(connections["connect"]) >= 2
    assert connections["close"] == connections["connect"]


def test_a_table_that_lacks_a_column_is_refused(
    tmp_path: Path, of_visits: SinkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/target.db"
    monkeypatch.setenv("TARGET", url)
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.text("CREATE TABLE visits (page TEXT, window_start TEXT, visits INTEGER)"))
    with pytest.raises(SinkUnsuitable, match="lacks window_end, mean, label"):
        SqlSink("report", url="env:TARGET", table="visits").open(of_visits)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("visits:{page}", "the same for rows that differ in window_start, window_end"),
        ("visits:{window_start_ms}", "the same for rows that differ in page"),
        ("visits:{site}:{page}:{window_end}", r"names site; there are page, "),
    ],
)
def test_a_key_that_is_the_same_for_two_rows_is_refused(
    of_visits: SinkContext, key: str, problem: str
) -> None:
    with pytest.raises(SinkUnsuitable, match=problem):
        RedisSink("live", url="redis://127.0.0.1:1/0", key=key).open(of_visits)


def test_texts_side_by_side_stay_apart_in_a_key(of_visits: SinkContext, redis_url: str) -> None:
    import pyarrow as pa

    two = replace(
        of_visits,
        keys=(("page", pa.string()), ("site", pa.string())),
        identity=("page", "site", "window_start", "window_end"),
    )
    with pytest.raises(SinkUnsuitable, match="nothing is between two texts"):
        RedisSink("live", url=redis_url, key="{page}{site}:{window_end}").open(two)
    target = RedisSink("live", url=redis_url, key="visits:{page}:{site}:{window_start_ms}").open(two)
    history = History.drawn(random.Random(5), seqs=1, most=9)
    rows = history.table(0, 2).to_pylist()
    rows[0] |= {"page": "a:b", "site": "c", "window_start": rows[1]["window_start"]}
    rows[1] |= {"page": "a", "site": "b:c"}
    schema = history.table(0, 0).schema.append(pa.field("site", pa.string()))
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.flushall()
    assert target.deliver(pa.Table.from_pylist(rows, schema), SinkPosition(0, 0), SinkPosition(1, 2))
    assert len(client.keys("visits:*")) == 2


def test_a_target_that_was_delivered_to_gets_the_column_of_a_result_that_the_pipeline_gains(
    place: Place, of_visits: SinkContext, tmp_path: Path
) -> None:
    """Rows of before have no value of it. One that the pipeline loses again stays, without values."""
    chance, history = random.Random(0), History()
    identities = [(page, EPOCH) for page in ("home", "a:b", "{braces}")]
    for seq, identity in enumerate(identities, 1):
        history.correct(chance, seq, identity)
    assert history.standing[-1][identities[1]]["label"] is not None
    few = replace(of_visits, results=of_visits.results[:2])
    expected = {
        identity: {**history.standing[-1][identity], **({} if number == 1 else {"label": None})}
        for number, identity in enumerate(identities)
    }
    if isinstance(place.sink, FunctionSink):  # it is handed what `corrections` have
        expected = history.standing[-1]
    for number, declared in enumerate((few, of_visits, few)):
        target = place.sink.open(declared)
        position = at(history, number), at(history, number + 1)
        assert target.deliver(history.table(number, number + 1), *position)
        target.close()
    rows = place.rows() if not isinstance(place.sink, ChangeFeedSink) else newest_of_feed(tmp_path)
    assert rows == expected


def newest_of_feed(warehouse: Path) -> dict[Identity, Result]:
    """The rows of a feed that has inserts alone."""
    rows = DeltaTable(str(warehouse / "feeds/visits")).to_pyarrow_table().to_pylist()
    return {(row["page"], row["window_start"]): result_of(row) for row in rows}
