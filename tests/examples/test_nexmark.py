"""The Nexmark source is a function of the events' numbers and has the model's proportions, and the four
queries publish what a direct computation gives.
"""

import json
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from slackwater.engine.transport.in_process import InProcess
from slackwater.examples import BadRange, find_example
from slackwater.examples.auctions import SCHEMA, START, events_arrived, load_auctions
from slackwater.runs import opened_pipeline
from tests.integration.command import here
from tests.model import brute_force
from tests.model import records as model

SINCE, TO = 3_600, 3_630  # by then a thousand people are active
QUERIES = {
    "nexmark_q5": (model.Sliding(10_000, 2_000), "auction", model.Aggregate("bids", "count")),
    "nexmark_q7": (model.Tumbling(10_000), "event", model.Aggregate("highest_price", "max", "price")),
    "nexmark_q11": (model.Session(10_000), "bidder", model.Aggregate("bids", "count")),
}

RUNS = [(query, "operator") for query in QUERIES] + [(query, "columnar") for query in QUERIES]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_range_holds_the_same_events_however_it_is_asked_for():
    whole = events_arrived(at(50), at(80))
    parts = [events_arrived(at(start), at(start + 10)) for start in range(50, 80, 10)]
    assert [row for part in parts for row in part.to_pylist()] == whole.to_pylist()
    assert whole.schema == SCHEMA
    assert whole.column("row").to_pylist() != sorted(whole.column("row").to_pylist()), (
        "they arrive out of order"
    )


def test_proportions_and_hot_ones_are_those_of_the_model():
    events = events_arrived(at(0), at(1_000))
    kinds = Counter(events.column("event").to_pylist())
    assert kinds["bid"] / events.num_rows == pytest.approx(46 / 50, abs=0.001)
    assert kinds["auction"] / kinds["person"] == pytest.approx(3, rel=0.01)
    bids = events.filter(pc.equal(events["event"], "bid")).to_pylist()[10_000:]
    # Beside the hot one's half and three quarters, it gets its share of the others: one in about 110, one in
    # at most 1010.
    assert sum(bid["auction"] % 100 == 0 for bid in bids) / len(bids) == pytest.approx(0.505, abs=0.01)
    assert sum(bid["bidder"] % 100 == 1 for bid in bids) / len(bids) == pytest.approx(0.7525, abs=0.01)
    logarithms = sorted(bid["price"] for bid in bids)
    assert logarithms[len(bids) // 2] == pytest.approx(100_000, rel=0.1), (
        "prices are even over six orders of magnitude from 100"
    )
    late = sum(row["arrival_time"] - row["event_time"] >= timedelta(seconds=5) for row in bids)
    assert late / len(bids) == pytest.approx(0.01, abs=0.002)
    for bid in bids[:: len(bids) // 50]:
        newest = 1000 + bid["row"] // 50 * 3 + 2
        assert newest - 200 <= bid["auction"] <= newest + 10


def test_loads_that_overlap_give_each_event_once(tmp_path: Path):
    assert load_auctions(str(tmp_path), at(0), at(20)).rows_present == 0
    again = load_auctions(str(tmp_path), at(10), at(30))
    stored = DeltaTable(tmp_path / "sources" / "nexmark").to_pyarrow_dataset().to_table().sort_by("row")
    assert stored.num_rows == again.rows_written + load_auctions(str(tmp_path), at(0), at(20)).rows_present
    assert stored.to_pylist() == events_arrived(at(0), at(30)).sort_by("row").to_pylist()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (at(-20), at(-10)),
        (at(10), at(10)),
        (datetime(2024, 1, 1), datetime(2024, 1, 2)),  # noqa: DTZ001
        (at(0), at(8 * 86_400)),
    ],
)
def test_a_range_that_cannot_be_is_refused(tmp_path: Path, start: datetime, end: datetime):
    with pytest.raises(BadRange):
        load_auctions(str(tmp_path), start, end)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("nexmark")
    find_example("nexmark_q7").load(str(warehouse), at(SINCE), at(TO))
    return warehouse


def replayed(query: str, engine: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The panes of a query over all events, in two runs of an engine."""
    shutil.rmtree(source / query, ignore_errors=True)
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    where = ("--warehouse", source, "--engine", engine)
    assert (
        here("run", query, "--start", at(SINCE).isoformat(), "--to", at(SINCE + 11).isoformat(), *where) == 0
    )
    assert here("run", query, "--to", at(TO).isoformat(), *where) == 0
    return DeltaTable(source / query / "panes").to_pyarrow_dataset().to_table().to_pylist()


@pytest.mark.first_fast
@pytest.mark.parametrize(("query", "engine"), RUNS)
def test_event_time_queries_fire_what_the_model_fires(query: str, engine: str, source: Path, monkeypatch):
    assigner, key, result = QUERIES[query]
    rules = model.Replay(
        ms(at(SINCE)), ms(at(TO)), 1_000, 3_000, assigner, allowed_lateness=10_000, aggregates=(result,)
    )
    bids = [row for row in events_arrived(at(SINCE), at(TO)).to_pylist() if row["event"] == "bid"]
    events = [
        model.Event(ms(bid["event_time"]), ms(bid["arrival_time"]), "", bid["row"], bid[key], bid)
        for bid in bids
    ]
    expected = brute_force.replay(events, rules).panes
    assert len(expected) > 2

    panes = replayed(query, engine, source, monkeypatch)
    names = (key, "window_start", "window_end", "firing", "kind", result.name)
    facts = [
        tuple(ms(pane[name]) if name.startswith("window") else pane[name] for name in names) for pane in panes
    ]
    assert Counter(facts) == Counter(
        (
            pane.key,
            pane.window.start,
            pane.window.end,
            pane.firing,
            pane.kind,
            pane.results[result.name] if pane.results else None,
        )
        for pane in expected
    )


@pytest.mark.parametrize("engine", ["columnar", "operator"])
def test_processing_time_windows_count_what_arrived_within_them(
    engine: str, source: Path, monkeypatch: pytest.MonkeyPatch
):
    panes = replayed("nexmark_q12", engine, source, monkeypatch)
    arrived = Counter(
        (row["bidder"], ms(row["arrival_time"]) // 10_000)
        for row in events_arrived(at(SINCE), at(TO)).to_pylist()
        if row["event"] == "bid"
    )
    assert ({(pane["bidder"], ms(pane["window_start"]) // 10_000): pane["bids"] for pane in panes}) == arrived
    assert len(panes) == len(arrived), "each window of the clock fires once"


def test_all_four_are_registered_and_read_one_source(capsys: pytest.CaptureFixture[str]):
    assert here("examples", "list", "--output", "json") == 0
    listed = {item["pipeline"]: item["source"] for item in json.loads(capsys.readouterr().out)}
    assert {listed[name] for name in (*QUERIES, "nexmark_q12")} == {"sources/nexmark"}


def ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
