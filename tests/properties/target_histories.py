"""Random histories of a lineage and of the targets that its results are delivered to, and what each target
has to hold: the model is a dictionary per ledger row.

Not a test: the part that the tests of targets share. The model shares no code with deliveries: it is what
`published` held when each ledger row had been rolled forward, without the rows that an erasure has taken out
since.
"""

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis
from deltalake import DeltaTable

from slackwater import (
    ChangeFeedSink,
    FunctionSink,
    RedisSink,
    Sink,
    SinkContext,
    SinkPosition,
    SinkTarget,
    SqlSink,
    agg,
)
from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import RetryableError, UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.runs.lineage.erasure import Erasure, person_of_key
from slackwater.runs.lineage.moves import Moves
from slackwater.runs.publishing.delivery import Delivery
from slackwater.runs.publishing.rebuild import Rebuild
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.redrive import Redrive
from slackwater.runs.staging.declarations import Declarations
from tests.runs.world import DAILY, HOUR, Event, World, moment

LENGTH = 4  # hours of a slice
KEYS = "abcd"
RESULTS = {"n": agg.count(), "total": agg.sum("x"), "most": agg.max("x"), "least": agg.min("x")}
START = SinkPosition(0, 0)
EVERYTHING = 1 << 60

Identity = tuple[str, datetime]
Rows = dict[Identity, dict[str, int]]


class TargetFailed(RetryableError):
    """What a target raises that a history makes fail."""


@dataclass
class Place:
    """A sink, and how a stranger reads and changes what it delivers to.

    Attributes:
        sink: the declaration.
        rows: what is there now.
        delete_key: deletes the rows of a key by hand, as whoever erases a person does.
        empty: takes the whole target away, where the sink cannot be reset.
        leftovers: rows of erased keys that nobody has deleted by hand.
        before_reset: the position before a reset: until it is reached, later rows stand in the target.
    """

    sink: Sink
    rows: Callable[[], Rows]
    delete_key: Callable[[str], None]
    empty: Callable[[], None] | None = None
    leftovers: set[Identity] = field(default_factory=set)
    before_reset: SinkPosition = START


def results_of(row: dict[str, Any]) -> dict[str, int]:
    """The results of a row that are not null."""
    return {name: row[name] for name in (*RESULTS, "twice") if row.get(name) is not None}


def sql_place(name: str, folder: Path) -> Place:
    """A table of SQLite."""
    path = folder / "targets.db"

    def ask(statement: str, *values: str) -> list[dict[str, Any]]:
        if not path.exists():
            return []
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchall():
                return []
            return [dict(row) for row in connection.execute(statement, values)]

    def rows() -> Rows:
        return {
            (row["k"], datetime.fromisoformat(row["window_start"]).replace(tzinfo=UTC)): results_of(row)
            for row in ask(f"SELECT * FROM {name}")
        }

    sink = SqlSink(name, url=f"sqlite:///{path}", table=name)
    return Place(sink, rows, lambda key: ask(f"DELETE FROM {name} WHERE k = ?", key) and None)


def redis_place(name: str, url: str) -> Place:
    """Hashes in Redis."""
    client = redis.Redis.from_url(url, decode_responses=True)

    def rows() -> Rows:
        standing: Rows = {}
        for key in client.keys(f"{name}:*"):
            _, page, start = key.split(":")
            values = {column: int(text) for column, text in client.hgetall(key).items()}
            standing[page, datetime.fromtimestamp(int(start) / 1000, UTC)] = values
        return standing

    def delete_key(key: str) -> None:
        for hash_of_key in client.keys(f"{name}:{key}:*"):
            client.delete(hash_of_key)

    return Place(RedisSink(name, url=url, key=f"{name}:{{k}}:{{window_start_ms}}"), rows, delete_key)


def feed_place(name: str, folder: Path) -> Place:
    """A change feed, replayed: each of its rows must fit what stands, and be there once."""
    path = folder / "feeds" / name
    order = ["delete", "update_before", "insert", "update_after"]

    def rows() -> Rows:
        if not DeltaTable.is_deltatable(str(path)):
            return {}
        changes = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        counts = Counter((row["k"], row["window_start"], row["seq"], row["op"]) for row in changes)
        assert set(counts.values()) <= {1}, "a correction stands in the feed more than once"
        standing: Rows = {}
        for change in sorted(changes, key=lambda row: (row["seq"], order.index(row["op"]))):
            identity = change["k"], change["window_start"]
            if change["op"] in ("update_before", "delete"):
                assert standing.pop(identity) == results_of(change)
            else:
                standing[identity] = results_of(change)
        return standing

    def delete_key(key: str) -> None:
        if DeltaTable.is_deltatable(str(path)):
            DeltaTable(str(path)).delete(f"k = '{key}'")

    def empty() -> None:
        shutil.rmtree(path, ignore_errors=True)

    return Place(ChangeFeedSink(name, uri=f"feeds/{name}"), rows, delete_key, empty)


def function_place(name: str) -> Place:
    """A function that keeps a dictionary."""
    standing: Rows = {}

    def deliver(changes: Any, position: tuple[int, int]) -> None:
        for change in changes.to_pylist():
            identity = change["k"], change["window_start"]
            standing.pop(identity, None)
            if change["op"] != "withdraw":
                standing[identity] = results_of(change["new"])

    def delete_key(key: str) -> None:
        for identity in [identity for identity in standing if identity[0] == key]:
            del standing[identity]

    return Place(FunctionSink(name, deliver), lambda: dict(standing), delete_key)


@dataclass
class _FailingTarget(SinkTarget):
    """Fails at its n-th batch, before it or after it."""

    target: SinkTarget
    batches: list[int]
    fails_after: bool

    def position(self) -> SinkPosition:
        return self.target.position()

    def deliver(self, changes: Any, start: SinkPosition, end: SinkPosition) -> bool:
        self.batches[0] -= 1
        if self.batches[0] == 0 and not self.fails_after:
            raise TargetFailed("the target has failed before a batch")
        is_done = self.target.deliver(changes, start, end)
        if self.batches[0] == 0:
            raise TargetFailed("the target has failed behind a batch")
        return is_done

    def reset(self, position: SinkPosition) -> None:
        self.target.reset(position)

    def lane(self, number: int) -> SinkTarget | None:
        lane = self.target.lane(number)
        return None if lane is None else _FailingTarget(lane, self.batches, self.fails_after)

    def close(self) -> None:
        self.target.close()


@dataclass(frozen=True)
class FailingSink(Sink):
    """A sink whose target fails at its n-th batch."""

    sink: Sink
    batch: int
    fails_after: bool

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.sink.name

    def open(self, context: SinkContext) -> SinkTarget:
        return _FailingTarget(self.sink.open(context), [self.batch], self.fails_after)


@dataclass
class TargetHistory:
    """A lineage with targets, and what it has published at each of its ledger rows.

    Attributes:
        folder: of the warehouse and of the targets.
        chance: what is drawn from.
        redis_url: a Redis server; None leaves Redis out.
        standing: by ledger row: `published` behind it, without what was erased since.
        counts: by ledger row: how many corrections it had when it was committed.
    """

    folder: Path
    chance: random.Random
    redis_url: str | None = None
    places: list[Place] = field(default_factory=list)
    standing: dict[int, Rows] = field(default_factory=lambda: {0: {}})
    counts: dict[int, int] = field(default_factory=dict)
    rows: int = 0

    def __post_init__(self) -> None:
        select = {name: RESULTS[name] for name in ("n", "total")}
        pipeline = replace(DAILY, select=select, slice=LENGTH * HOUR)
        self.world = World(self.folder / "world", pipeline)
        self.world.append([Event(-1, -0.5, 0, "z")])  # before the lineage: the source is never empty
        self.run()
        for _ in range(2):
            self.add_sink()

    # --- steps of the lineage

    @property
    def slices(self) -> int:
        """How many slices main has."""
        live = self.world.ledger.live_runs(self.world.main)
        return round((live[-1].slice_end - moment(0)) / HOUR) // LENGTH if live else 0  # type: ignore[operator]

    def events(self, slice_: int) -> list[Event]:
        """Rows that arrive in a slice, some of them late."""
        drawn = []
        for _ in range(self.chance.randint(2, 9)):
            self.rows += 1
            arrival = slice_ * LENGTH + self.chance.random() * LENGTH
            delay = self.chance.choice([0.1, 0.5, 2, 3, 8])
            key, x = self.chance.choice(KEYS), self.chance.randint(-9, 9)
            drawn.append(Event(max(0.0, arrival - delay), arrival, self.rows, key, x))
        return drawn

    def run(self) -> None:
        slices = self.slices if (self.world.folder / "daily" / "runs").exists() else 0
        self.world.append(self.events(slices))
        try:
            self.world.run((slices + 1) * LENGTH)
        except SourceRewritten:  # a restore has made runs live again that have read other rows
            self.world.backfill(0, slices * LENGTH)
            self.record()
            self.world.run((slices + 1) * LENGTH)
        self.record()

    def restate(self) -> None:
        """A slice is written anew and restated."""
        first = self.chance.randrange(self.slices) if self.slices else 0
        if self.slices:
            self.world.rewrite(first * LENGTH, (first + 1) * LENGTH, self.events(first))
            self.world.backfill(first * LENGTH, (first + 1) * LENGTH)
            self.record()

    def restore(self) -> None:
        """An earlier row of main counts again."""
        rows = [row.seq for row in self.world.ledger.rows() if row.branch == "main"]
        runner = self.world.runner()
        rolling = RollForward.of(self.world.pipeline, runner.tables, runner.shape)
        declarations = Declarations(self.world.pipeline, self.world.code, runner.tables)
        moves = Moves("daily", runner.tables, rolling, declarations)
        try:
            moves.restore(self.chance.choice(rows[-4:]))
        except UsageError:  # its results are no longer declared, say
            return
        self.record()

    def redrive(self) -> None:
        """Late rows of a key are given another arrival, and what the redrive names is restated."""
        world = self.world
        late = Inspection("daily", world.tables).late(self.chance.choice(KEYS)).rows
        rolling = RollForward.from_stored(world.pipeline, world.tables)
        result = Redrive(world.warehouse, world.pipeline, rolling, InProcess).run(late, "a reason")
        if result.to_restate is not None:
            first, last = ((bound - moment(0)) / HOUR for bound in result.to_restate)
            world.backfill(first, last)
            self.record()

    def change_results(self) -> None:
        """Results are added, removed and put back, computed ones and a condition, too; the next run has them,
        or all that is published.
        """
        chance, world = self.chance, self.world
        first, *others = chance.sample(sorted(RESULTS), chance.randint(1, len(RESULTS)))
        world.declare(
            select={name: RESULTS[name] for name in (first, *others)},
            results=chance.choice([{}, {"twice": f"{first} * 2"}]),
            hidden=[name for name in others if chance.random() < 0.3],
            having=chance.choice([None, f"{first} > 1"]),
        )
        if chance.random() < 0.5:
            tables = world.runner().tables
            Rebuild("daily", tables, RollForward.from_stored(world.pipeline, tables)).compute_results()
            self.record()

    def erase(self) -> None:
        """A key is erased by the documented steps; its rows in targets are deleted by hand, or forgotten."""
        key, world = self.chance.choice(KEYS), self.world
        DeltaTable(world.source).delete(f"k = '{key}'")
        tables = world.tables
        rolling = RollForward.from_stored(world.pipeline, tables)
        person = person_of_key(world.pipeline, key)
        Erasure(world.warehouse, world.pipeline, tables, rolling).run([person], "asked for")
        for seq, rows in self.standing.items():
            self.standing[seq] = {identity: row for identity, row in rows.items() if identity[0] != key}
        for place in self.places:
            if self.chance.random() < 0.5:
                place.delete_key(key)
                place.leftovers = {identity for identity in place.leftovers if identity[0] != key}
            else:
                place.leftovers |= {identity for identity in place.rows() if identity[0] == key}
        self.record()

    def record(self) -> None:
        """Remember what is published behind the newest ledger row."""
        seq = self.world.main.seq
        rows = self.world.table("published").read().to_pylist()
        self.standing[seq] = {(row["k"], row["window_start"]): results_of(row) for row in rows}
        seqs = self.world.table("corrections").read(["seq"]).column("seq").to_pylist()
        self.counts.setdefault(seq, seqs.count(seq))

    # --- steps of the targets

    def add_sink(self) -> None:
        number = len(self.places)
        makers: list[Callable[[str], Place]] = [
            lambda name: sql_place(name, self.folder),
            lambda name: feed_place(name, self.world.folder),
            function_place,
        ]
        if self.redis_url is not None:
            makers.append(lambda name: redis_place(name, self.redis_url or ""))
        self.places.append(makers[number % len(makers)](f"sink{number}"))

    def delivery(self) -> Delivery:
        """With batches of any size; ledger rows of any size may be delivered in lanes."""

        def one_by_one(task: Callable[[int], None], numbers: Iterable[int]) -> None:
            for number in numbers:
                task(number)

        chance, world = self.chance, self.world
        pipeline = replace(world.pipeline, sinks=[place.sink for place in self.places])
        return Delivery(
            pipeline,
            world.tables,
            str(world.folder),
            batch_rows=chance.choice([1, 2, 3, 5, 10_000]),
            large_rows=chance.choice([3, 1_000_000]),
            parallel=chance.choice([None, one_by_one]),
        )

    def deliver(self) -> None:
        """Some targets are delivered to; the others stay behind."""
        for place in self.places:
            if self.chance.random() < 0.6:
                self.delivery().deliver(place.sink)
                assert self.delivery().states(place.sink.name)[0].backlog == 0
                self.check(place, is_all=True)

    def fail(self) -> None:
        """A target fails in the middle of a delivery."""
        place = self.chance.choice(self.places)
        sink = FailingSink(place.sink, self.chance.randint(1, 4), self.chance.random() < 0.5)
        try:
            self.delivery().deliver(sink)
        except TargetFailed:
            self.check(place)
        else:
            self.check(place, is_all=True)

    def reset(self) -> None:
        """A target is delivered to again, from a ledger row or from the beginning."""
        place, delivery = self.chance.choice(self.places), self.delivery()
        before = self.position(place)
        if place.empty is not None:
            place.empty()
            place.leftovers.clear()
            return
        to_seq = self.chance.choice([None, self.chance.randint(0, before.seq)])
        delivery.reset(place.sink, to_seq)
        place.before_reset = max(before, place.before_reset)

    # --- what has to stand

    def position(self, place: Place) -> SinkPosition:
        """Where the target is; far behind the ledger row where that is delivered in lanes."""
        target = place.sink.open(self.delivery().context())
        try:
            return target.position()
        finally:
            target.close()

    def check(self, place: Place, *, is_all: bool = False) -> None:
        """The target holds what was published at its position; in the middle of a ledger row, each of its
        rows is as of before that one or as of after it.
        """
        seq, offset = self.position(place)
        newest = max(self.standing)
        if is_all:
            seq, offset = newest, EVERYTHING
        elif (seq, offset) < place.before_reset or offset < 0:
            return
        before = self.standing[max((number for number in self.standing if number < seq), default=0)]
        after = self.standing[max(number for number in self.standing if number <= seq)]
        is_whole = offset >= self.counts.get(seq, 0)
        standing, tolerated = place.rows(), place.leftovers
        for identity in {*standing, *before, *after}:
            rows = [after.get(identity), *([] if is_whole else [before.get(identity)])]
            if identity in tolerated and identity not in after:
                continue
            if isinstance(place.sink, RedisSink):  # a hash without fields is none
                rows = [row or None for row in rows]
            assert standing.get(identity) in rows, (place.sink.name, identity, (seq, offset))
        if is_all:
            place.before_reset = START

    def finish(self) -> None:
        """Everything is delivered, twice."""
        for _ in range(2):
            for place in self.places:
                self.delivery().deliver(place.sink)
                self.check(place, is_all=True)
