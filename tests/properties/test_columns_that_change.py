"""The expressions of derived columns change between the runs of a lineage, in one source or in one of
several, of rows or of items: what a column was read for before it can't be another one, so the run is
refused, and a restatement from the start reads all anew; a result that comes or goes with its column is null
where it is not known. Held by a brute-force model of the windows at each cut.
"""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.staging.evolution import SettingsChanged
from tests.model import brute_force
from tests.model import records as model
from tests.properties.search import searched
from tests.runs.world import DAILY, HOUR, World, ms

LENGTH, SLICES = 4, 5  # hours of a slice, and how many there are
HOUR_MS = 3_600_000
NAMES = ("events", "more")
# SQL in which {x} is the column that holds the value, and what it gives for a value; `h` is a derived column.
HELPERS = {"{x}": lambda x: x, "3 * {x}": lambda x: 3 * x}
TEXTS = {"{x}": lambda x, h: x, "2 * {x}": lambda x, h: 2 * x, "h + 1": lambda x, h: h + 1}
RESULTS = ("v", "w")


@dataclass(frozen=True)
class Declared:
    """What of the declaration changes.

    Attributes:
        results: of `RESULTS`, those that are selected: the sum of the column of that name.
        texts: of each source the expressions of `RESULTS`; None: it lacks the column.
        helpers: of each source the expression of `h`.
        shift, delay: how many hours an event happens, and arrives, after the stored time.
        key, explode: expressions.
    """

    results: frozenset[str]
    texts: tuple[Mapping[str, str | None], ...]
    helpers: tuple[str, ...]
    shift: int = 0
    delay: int = 0
    key: str = "who"
    explode: str | None = None

    def derive(self, source: int) -> dict[str, str]:
        """The derived columns of a source."""
        own = "item." if self.explode else ""
        texts = {name: self.texts[source][name] for name in self.results}
        return {
            "e": f"epoch_ms({own}happened + {self.shift * HOUR_MS})",
            "seen_at": f"seen + {self.delay * HOUR_MS}",
            "a": "epoch_ms(seen_at)",
            "k": self.key,
            "h": self.helpers[source].replace("{x}", f"{own}x"),
            **{name: text.replace("{x}", f"{own}x") for name, text in texts.items() if text is not None},
        }

    def lacks(self, source: int) -> list[str]:
        return sorted(name for name in self.results if self.texts[source][name] is None)

    def pipeline(self, count: int) -> Pipeline:
        sources = [
            DeltaSource(
                NAMES[source],
                event_time="e",
                arrival_time="a",
                order_by="row",
                explode=self.explode,
                derive=self.derive(source),
                **({"lacks": self.lacks(source)} if count > 1 else {}),
            )
            for source in range(count)
        ]
        select = {"n": agg.count(), **{name: agg.sum(name) for name in sorted(self.results)}}
        return replace(DAILY, source=sources, select=select, slice=LENGTH * HOUR)

    def value(self, name: str, source: int, x: int) -> int | None:
        text = self.texts[source][name]
        return None if text is None else TEXTS[text](x, HELPERS[self.helpers[source]](x))

    def meaning(self, name: str, source: int) -> tuple[str | None, ...]:
        text = self.texts[source][name]
        return (text, self.helpers[source]) if text == "h + 1" else (text,)

    def can_follow(self, before: "Declared") -> bool:
        """Whether a run by these declarations goes on from one by those of before."""
        if self.explode != before.explode:
            return False
        for source in range(len(self.texts)):
            old, new = before.derive(source), self.derive(source)
            if any(old[name] != new[name] for name in old.keys() & new.keys()):
                return False
            if any(
                self.meaning(name, source) != before.meaning(name, source)
                for name in self.results & before.results
            ):
                return False
        return True


@dataclass(frozen=True)
class StoredRow:
    number: int
    who: str
    seen: float
    items: tuple[tuple[float, int], ...]  # hours, x


@dataclass
class Lineage:
    """A world, and what was declared for each of its slices.

    Attributes:
        rows: of each source.
        declared: of each slice that main has, what its run was declared with.
    """

    world: World
    rows: list[list[StoredRow]]
    explodes: bool
    declared: list[Declared] = field(default_factory=list)

    def store(self) -> None:
        """Write the rows, in files of a few hours."""
        for source, rows in enumerate(self.rows):
            in_order = sorted(rows, key=lambda row: row.seen)
            for first in range(0, len(rows), 5):
                write_deltalake(
                    self.world.place(source), self.table(in_order[first : first + 5]), mode="append"
                )

    def table(self, rows: list[StoredRow]) -> pa.Table:
        columns: dict[str, Any] = {
            "row": pa.array([row.number for row in rows], pa.int64()),
            "who": pa.array([row.who for row in rows], pa.string()),
            "seen": pa.array([ms(row.seen) for row in rows], pa.int64()),
        }
        if self.explodes:
            item = pa.struct([("happened", pa.int64()), ("x", pa.int64())])
            items = [[{"happened": ms(hour), "x": x} for hour, x in row.items] for row in rows]
            columns["items"] = pa.array(items, pa.list_(item))
        else:
            columns["happened"] = pa.array([ms(row.items[0][0]) for row in rows], pa.int64())
            columns["x"] = pa.array([row.items[0][1] for row in rows], pa.int64())
        return pa.table(columns)

    def try_to_run(self, declared: Declared) -> bool:
        """Whether a run by `declared` follows."""
        self.world.declare(source=declared.pipeline(len(self.rows)).source)
        self.world.pipeline = declared.pipeline(len(self.rows))
        before = self.world.main.seq if self.declared else None
        try:
            self.world.run((len(self.declared) + 1) * LENGTH)
        except SettingsChanged as error:
            assert f"slackwater backfill daily --from {'2013-01-01T00:00:00Z'} --to END" in str(error)
            assert self.world.main.seq == before
            return False
        self.declared.append(declared)
        return True

    def restate(self, declared: Declared) -> None:
        self.world.backfill(0, len(self.declared) * LENGTH)
        self.declared = [declared] * len(self.declared)

    # --- the model

    def events(self) -> list[model.Event]:
        now, several = self.declared[-1], len(self.rows) > 1
        events = []
        for source, rows in enumerate(self.rows):
            for row in rows:
                items = row.items[:1] if now.explode == "items[1:1]" else row.items
                for hour, x in items if self.explodes else row.items[:1]:
                    values = {
                        f"{name} {number}": declared.value(name, source, x)
                        for number, declared in enumerate(self.declared)
                        for name in declared.results
                    }
                    events.append(
                        model.Event(
                            ms(hour) + now.shift * HOUR_MS,
                            ms(row.seen) + now.delay * HOUR_MS,
                            NAMES[source] if several else None,
                            (source, row.number),
                            row.who.upper() if now.key == "upper(who)" else row.who,
                            values,
                        )
                    )
        return events

    def outcome(self, slices: int) -> Any:
        """What the first so many slices leave, by the model."""
        names = [
            f"{name} {number}" for number, declared in enumerate(self.declared) for name in declared.results
        ]
        rules = model.Replay(
            start=ms(0),
            to=ms(slices * LENGTH),
            tick=600_000,
            bound=HOUR_MS,
            assigner=model.Tumbling(2 * HOUR_MS),
            allowed_lateness=3 * HOUR_MS,
            aggregates=(
                model.Aggregate("n", "count"),
                *(model.Aggregate(name, "sum", name) for name in names),
            ),
        )
        return brute_force.replay(self.events(), rules)

    def expected(self) -> list[tuple]:
        """The rows of `published`: key, start of the window, n, and the results, None where not known."""
        outcomes = [self.outcome(slices) for slices in range(len(self.declared) + 1)]
        published: dict[tuple, tuple] = {}
        fired = set[tuple]()
        for number, declared in enumerate(self.declared):
            for pane in outcomes[number + 1].panes:
                if (pane.key, pane.window, pane.firing) in fired:
                    continue
                fired.add((pane.key, pane.window, pane.firing))
                results = [
                    pane.results[f"{name} {number}"] if self.is_known(name, number, pane, outcomes) else None
                    for name in RESULTS
                ]
                window = pane.key, pane.window.start
                published[window] = (*window, pane.results["n"], *results)
                assert declared.results >= {
                    name for name, value in zip(RESULTS, results, strict=True) if value is not None
                }
        return sorted(published.values(), key=repr)

    def is_known(self, name: str, number: int, pane: model.Pane, outcomes: list[Any]) -> bool:
        """Whether slice `number` knows a result of a window: it was not open when the result was added."""
        if name not in self.declared[number].results:
            return False
        added_in = max((i for i in range(number) if name not in self.declared[i].results), default=-1) + 1
        return added_in == 0 or not any(
            (window.key, window.window) == (pane.key, pane.window)
            for window in outcomes[added_in].open_windows
        )

    def check(self) -> None:
        published = [
            (row["k"], ms_of(row["window_start"]), row["n"], *(row.get(name) for name in RESULTS))
            for row in self.world.published()
        ]
        assert sorted(published, key=repr) == self.expected()

    def verify(self) -> None:
        """Each live run, repeated as it was declared, leaves what it left."""
        world = self.world
        verifier = Verifier(world.warehouse, world.pipeline, world.code, world.engine, InProcess())
        for row in world.ledger.live_runs(world.main):
            assert row.seq is not None
            assert [fact for fact in verifier.verify(row.seq).facts if not fact.is_equal] == []


def ms_of(moment: Any) -> int:
    return round(moment.timestamp() * 1000)


def random_rows(seed: int, explodes: bool, count: int) -> list[list[StoredRow]]:
    """Rows of each source over all slices, some of them late, of which a few are too late."""
    random = Random(seed)
    rows: list[list[StoredRow]] = [[] for _ in range(count)]
    for number in range(40):
        seen = round(random.uniform(0, LENGTH * SLICES), 2)
        items = tuple(
            (max(-1.0, round(seen - random.choice([0.1, 0.4, 1.5, 3.5, 8]), 2)), random.randint(-9, 9))
            for _ in range(random.choice([0, 1, 2, 3]) if explodes else 1)
        )
        rows[number % count].append(StoredRow(number, random.choice("ab"), seen, items))
    return rows


def others(values: Iterable[Any], value: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([other for other in values if other != value])


@st.composite
def changes(draw: st.DrawFn, before: Declared) -> Declared:
    """What is declared next: one thing is changed, or two, or none."""
    after = before
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 0]))):
        kind = draw(st.sampled_from(["results", "texts", "helpers", "roles", "roles"]))
        source = draw(st.integers(0, len(before.texts) - 1))
        if kind == "results":
            after = replace(after, results=after.results ^ {draw(st.sampled_from(RESULTS))})
        elif kind == "texts":
            texts, name = [dict(each) for each in after.texts], draw(st.sampled_from(RESULTS))
            is_elsewhere = any(each[name] is not None for place, each in enumerate(texts) if place != source)
            choices = [*TEXTS, *([None] if is_elsewhere else [])]
            texts[source][name] = draw(others(choices, texts[source][name]))
            after = replace(after, texts=tuple(texts))
        elif kind == "helpers":
            helpers = list(after.helpers)
            helpers[source] = draw(others(HELPERS, helpers[source]))
            after = replace(after, helpers=tuple(helpers))
        else:
            roles = {"shift": [0, 1], "delay": [0, 1], "key": ["who", "upper(who)"]}
            if before.explode is not None:
                roles["explode"] = ["items", "items[1:1]"]
            role = draw(st.sampled_from(sorted(roles)))
            after = replace(after, **{role: draw(others(roles[role], getattr(after, role)))})
    return after


def check_lineage(data: st.DataObject, seed: int, count: int, explodes: bool, folder: Path) -> None:
    declared = Declared(
        frozenset(RESULTS[:1]),
        ({"v": "{x}", "w": "h + 1"}, {"v": None, "w": "2 * {x}"})[:count],
        ("{x}",) * count,
        explode="items" if explodes else None,
    )
    engine = data.draw(st.sampled_from([ColumnarEngine(), OperatorEngine()]), label="engine")
    world = World(folder, declared.pipeline(count), engine=engine)
    lineage = Lineage(world, random_rows(seed, explodes, count), explodes)
    lineage.store()
    assert lineage.try_to_run(declared)
    while len(lineage.declared) < SLICES:
        after = data.draw(changes(declared), label="declared")
        follows = lineage.try_to_run(after)
        assert follows == after.can_follow(declared)
        if not follows and data.draw(st.booleans(), label="restated"):
            lineage.restate(after)
        elif not follows:
            after = declared
        lineage.check()
        declared = after
    lineage.world.pipeline = declared.pipeline(count)
    lineage.verify()


@pytest.mark.first_fast
@pytest.mark.parametrize("explodes", [False, True], ids=["rows", "items"])
@pytest.mark.parametrize("count", [1, 2], ids=["one source", "two sources"])
@given(st.data(), st.integers(0, 2**32))
@searched(2, long=25)
def test_a_changed_expression_is_refused_or_counts_from_here_on(
    count: int, explodes: bool, data: st.DataObject, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_lineage(data, seed, count, explodes, Path(folder))
