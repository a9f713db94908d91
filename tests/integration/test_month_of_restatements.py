"""A month of flights that goes wrong in every way we know of, and ends as one perfect run.

Files shuffled, random slices, another engine, parallelism and state back end each time, killed drivers, a
repeated command, a wrong aggregate that is restated, wrong rows that are corrected in the source and restated
until the branch meets main again.
"""

import itertools
import random
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import driver, environment, here
from tests.integration.driver import Plan
from tests.integration.facts import iso
from tests.integration.stored import Row, StoredTables
from tests.model import brute_force
from tests.model.flights import HOUR_MS, departures_rules, flights, ms
from tests.model.records import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FROM, MIDDLE, TO = "2013-01-01", "2013-01-21", "2013-02-01"
WRONG_DAY = "2013-01-15"
WRONG_DELAY = 7
NOT_PROMISED = {
    "panes": {"run_id"},
    "late_events": {"run_id"},
    "quarantine": {"run_id", "source_file", "source_version"},
    "published": {"revision", "run_seq"},
}

DECLARATION = """
from slackwater.examples.departures import departures
from slackwater import Pipeline, agg

month = Pipeline(
    name="month",
    source=departures.source,
    watermarks=departures.watermarks,
    key_by="origin",
    window=departures.window,
    allowed_lateness=departures.allowed_lateness,
    start="2013-01-01",
    max_catch_up=100,
    select={
        "flights": FLIGHTS,
        "mean_dep_delay": agg.mean("dep_delay"),
        "max_dep_delay": agg.max("dep_delay"),
    },
)
"""
WRONG_AGGREGATE, RIGHT_AGGREGATE = 'agg.count(where="dep_delay > 15")', "agg.count()"


def is_wrong(row: int) -> bool:
    return row % 41 == 0


@dataclass(frozen=True)
class Month:
    """A warehouse and the declaration that its commands are given."""

    folder: Path

    @property
    def stored(self) -> StoredTables:
        return StoredTables(self.folder, "month")

    def declare(self, flights: str) -> None:
        (self.folder / "month.py").write_text(DECLARATION.replace("FLIGHTS", flights))

    def command(self, verb: str, *options: object) -> tuple[object, ...]:
        return (verb, "month", *options, "--warehouse", self.folder, "--pipelines", self.folder / "month.py")

    def run(self, verb: str, *options: object) -> int:
        return here(*self.command(verb, *options))


def rows_with_wrong_delays(rows: pa.Table) -> pa.Table:
    """On one day, some flights report another delay than they had."""
    day = datetime.fromisoformat(WRONG_DAY).date()
    wrong = pc.and_(
        pc.equal(rows["arrival_date"], day), pa.array([is_wrong(row) for row in rows["row"].to_pylist()])
    )
    delays = pc.if_else(
        pc.and_(wrong, pc.is_valid(rows["dep_delay"])), pa.scalar(WRONG_DELAY, pa.int32()), rows["dep_delay"]
    )
    return rows.set_column(rows.schema.get_field_index("dep_delay"), "dep_delay", delays)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """January's flights, as the loader has them."""
    warehouse = tmp_path_factory.mktemp("loaded")
    assert here("examples", "load", "departures", "--from", FROM, "--to", TO, "--warehouse", warehouse) == 0
    return DeltaTable(str(warehouse / "sources" / "departures")).to_pyarrow_table()


def write_shuffled(folder: Path, rows: pa.Table, seed: int) -> None:
    """The same rows in other files: pieces of the month, in any order of commits, each with its rows in any
    order.
    """
    chance = random.Random(seed)
    pieces = [rows.slice(start, 500) for start in range(0, rows.num_rows, 500)]
    chance.shuffle(pieces)
    for start in range(0, len(pieces), 9):
        together = pa.concat_tables(pieces[start : start + 9])
        order = list(range(together.num_rows))
        chance.shuffle(order)
        write_deltalake(
            str(folder / "sources" / "departures"),
            together.take(order),
            mode="append",
            partition_by=["arrival_date"],
        )


def cuts(seed: int, start: str, to: str, count: int) -> list[str]:
    """`count` random slices of [start, to), to the millisecond."""
    chosen = sorted(random.Random(seed).sample(range(ms(start) + 1, ms(to)), count - 1))
    return [start, *map(iso, chosen), to]


@pytest.fixture(scope="module")
def perfect(
    spark: "SparkSession", loaded: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> StoredTables:
    """One run over the right rows with the right aggregate."""
    month = Month(tmp_path_factory.mktemp("perfect"))
    month.declare(RIGHT_AGGREGATE)
    write_shuffled(month.folder, loaded, 1)
    assert month.run("run", "--from", FROM, "--to", TO) == 0
    return month.stored


@pytest.fixture(scope="module")
def troubled(spark: "SparkSession", loaded: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Month:
    month = Month(tmp_path_factory.mktemp("troubled"))
    month.declare(WRONG_AGGREGATE)
    write_shuffled(month.folder, rows_with_wrong_delays(loaded), 2)
    run_slices(month, cuts(3, FROM, MIDDLE, 7), [1, 4, 2])
    month.declare(RIGHT_AGGREGATE)
    assert month.run("backfill", "--from", FROM, "--to", MIDDLE, "--reason", "every flight counts") == 0
    run_slices(month, cuts(4, MIDDLE, TO, 5), [3, 1])
    return month


def run_slices(month: Month, bounds: list[str], partitions: list[int]) -> None:
    """Slice after slice; the second one is killed once before its commit and once after it, and the third is
    asked for twice.
    """
    for number, (start, to) in enumerate(itertools.pairwise(bounds)):
        engine, megabytes = [("operator", "0"), ("columnar", "1024"), ("operator", "1024")][
            number % 3
        ]  # of 0, all state is in RocksDB
        options = (
            "--from",
            start,
            "--to",
            to,
            "--partitions",
            partitions[number % len(partitions)],
            "--engine",
            engine,
        )
        setting = {"SLACKWATER_STATE_MEMORY_MB": megabytes}
        if number == 1:
            for moment in ("before the ledger commit", "between the roll-forward commits"):
                died = driver(Plan(at=moment), *month.command("run", *options), env=environment(**setting))
                assert died.returncode == -signal.SIGKILL, died.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(*setting.popitem())
            assert month.run("run", *options) == 0
            if number == 2:
                assert month.run("run", *options) == 0


def promised(stored: StoredTables) -> dict[str, list[Row]]:
    tables = {name: stored.rows(name) if name == "published" else stored.live(name) for name in NOT_PROMISED}
    kept = {
        table: Counter(
            repr(
                sorted((name, repr(value)) for name, value in row.items() if name not in NOT_PROMISED[table])
            )
            for row in rows
        )
        for table, rows in tables.items()
    }
    for row in stored.ledger():
        if row["branch"] == "main":
            head = row
    owner = next(row for row in stored.ledger() if row["seq"] == head["live"][-1]["last_seq"])
    return {**kept, "state_hash": [owner["state_hash"]]}


def published_by_model(events: list[Event]) -> dict[tuple, tuple]:
    outcome = brute_force.replay(events, departures_rules(FROM, TO))
    return {
        (pane.key, *pane.window): (pane.kind, pane.firing, *pane.results.values())
        for pane in outcome.published
    }


def test_the_month_ends_as_one_perfect_run(troubled: Month, loaded: pa.Table, perfect: StoredTables) -> None:
    before = troubled.stored
    assert promised(before)["published"] != promised(perfect)["published"], "the wrong rows show"
    seqs_before = {row["seq"] for row in before.ledger()}
    source = str(troubled.folder / "sources" / "departures")
    right = loaded.filter(pc.equal(loaded["arrival_date"], datetime.fromisoformat(WRONG_DAY).date()))
    write_deltalake(
        source,
        right,
        mode="overwrite",
        predicate=f"arrival_date = '{WRONG_DAY}'",
        partition_by=["arrival_date"],
    )

    assert troubled.run("run", "--from", TO, "--to", "2013-02-02") == 2, "a rewritten source is refused"
    assert (
        troubled.run("backfill", "--from", WRONG_DAY, "--to", "2013-01-16", "--reason", "corrected delays")
        == 0
    )

    after = troubled.stored
    assert promised(after) == promised(perfect)
    assert_only_what_was_touched_is_rewritten(after, seqs_before)
    assert_converged(after)


def assert_only_what_was_touched_is_rewritten(stored: StoredTables, seqs_before: set[int]) -> None:
    """The second restatement corrects those windows of which the model publishes another result."""
    right = flights(FROM, TO)
    wrong = [_with_wrong_delay(event) for event in right]
    then, now = published_by_model(wrong), published_by_model(right)
    assert then.keys() == now.keys()
    touched = {window for window in now if now[window] != then[window]}
    corrections = [row for row in stored.rows("corrections") if row["seq"] not in seqs_before]
    assert {(row["origin"], row["window_start"], row["window_end"]) for row in corrections} == touched
    assert len(corrections) == len(touched) > 20
    assert {(row["op"], row["cause"]) for row in corrections} == {("update", "restatement")}


def _with_wrong_delay(event: Event) -> Event:
    is_of_day = ms(WRONG_DAY) <= event.arrival < ms(WRONG_DAY) + 24 * HOUR_MS
    if not is_of_day or not is_wrong(event.order) or event.values["dep_delay"] is None:
        return event
    return event._replace(values={**event.values, "dep_delay": WRONG_DELAY})


def assert_converged(stored: StoredTables) -> None:
    """Main's last runs are live behind the branch: they were not run again."""
    ledger = stored.ledger()
    head = [row for row in ledger if row["branch"] == "main"][-1]
    assert head["kind"] == "publish"
    assert len(head["live"]) >= 3, "what was before the branch, the branch, and main's own runs behind it"
    last = next(row for row in ledger if row["seq"] == head["live"][-1]["last_seq"])
    assert last["branch"] == "main" and last["kind"] == "run"


def test_the_wrong_aggregate_was_restated_from_the_start(troubled: Month) -> None:
    first = next(row for row in troubled.stored.ledger() if row["kind"] == "publish")
    causes = Counter(
        (row["op"], row["cause"]) for row in troubled.stored.rows("corrections") if row["seq"] == first["seq"]
    )
    assert causes[("update", "restatement")] > 500
    assert {cause for _, cause in causes} == {"restatement"}


def test_a_copy_of_the_warehouse_is_whole(troubled: Month, tmp_path: Path) -> None:
    """Nothing in the tables names a place: a copied warehouse goes on where it stands."""
    shutil.copytree(troubled.folder, tmp_path / "copy")
    assert Month(tmp_path / "copy").run("run", "--to", TO) == 0
