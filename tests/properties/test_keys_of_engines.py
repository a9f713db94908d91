"""Keys of every type, alone and put together, are the same keys in both engines: hash, key group, order in
the snapshot.
"""

import datetime
from dataclasses import replace
from random import Random

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import agg
from slackwater.windowing import EventTimeSessionWindows, TumblingEventTimeWindows
from tests.model import records as model
from tests.properties.slices import declared, replay_pipeline
from tests.properties.test_split_and_parallelism import left

SPAN, TICK = 3_000, 50
VALUES = {
    "tiny": [-128, -1, 0, 1, 127],
    "small": [-(2**15), -129, 0, 128, 2**15 - 1],
    "code": [-(2**31), -(2**15) - 1, 0, 2**15, 2**31 - 1],
    "far": [-(2**63), -(2**63) + 1, -(2**31) - 1, -1, 0, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    "day": [
        datetime.date(1, 1, 1),
        datetime.date(1969, 12, 31),
        datetime.date(1970, 1, 1),
        datetime.date(9999, 12, 31),
    ],
    "flag": [True, False],
    "text": [
        "",
        " ",
        "\0",
        "a",
        "A",
        "é",
        "e\u0301",
        "ключ",
        "\ue000",
        "\uffff",
        "𝒳",
        "😀",
        "x" * 5_000,
        "x" * 4_999 + "y",
        "漢" * 2_000,
    ],
}
COMPOSITIONS = [
    *([name] for name in VALUES),
    ["flag", "tiny"],
    ["far", "text"],
    ["text", "far"],
    ["day", "small", "code"],
    list(VALUES),
]


def replayed(engine, keys, rows, window):
    """The rows, a few of them late, in two runs of different numbers of ranges."""
    rules = model.Replay(0, SPAN, TICK, 0, model.Tumbling(100), 100, None)
    random = Random(7)
    events = []
    for number, row in enumerate(rows):
        arrival = random.randrange(SPAN)
        events.append(
            model.Event(
                arrival - random.choice([0, 0, 0, 150]), arrival, "s", number, "k", {"x": number % 5, **row}
            )
        )
    pipeline = replace(
        declared(rules, window=window, select={"n": agg.count(), "greatest": agg.max("x")}), key_by=keys
    )
    return replay_pipeline(pipeline, events, rules, [2_010], [3, 2], engines=[engine])


@pytest.mark.first_fast
@pytest.mark.parametrize("keys", COMPOSITIONS, ids="+".join)
def test_keys_of_every_type_are_the_same_in_both_engines(keys):
    random = Random(3)
    rows = [{name: random.choice(VALUES[name]) for name in keys} for _ in range(150)]
    rows[0][keys[-1]] = None
    window = EventTimeSessionWindows(gap_ms=60) if "flag" in keys else TumblingEventTimeWindows(size_ms=100)
    theirs, ours = (replayed(engine, keys, rows, window) for engine in (OperatorEngine(), ColumnarEngine()))
    assert [row["reason_code"] for row in theirs.quarantined] == ["null_key"]
    assert {**left(ours), "hashes": ours.hashes} == {**left(theirs), "hashes": theirs.hashes}
    there = {tuple(pane[name] for name in keys) for pane in theirs.panes}
    assert len(keys) > 1 or there == {(value,) for value in VALUES[keys[0]]}


@pytest.mark.parametrize(
    "window",
    [TumblingEventTimeWindows(size_ms=100), EventTimeSessionWindows(gap_ms=60)],
    ids=["fixed", "sessions"],
)
def test_windows_of_all_rows_are_the_same_in_both_engines(window):
    rows = [{"far": number} for number in range(150)]
    theirs, ours = (replayed(engine, None, rows, window) for engine in (OperatorEngine(), ColumnarEngine()))
    assert {**left(ours), "hashes": ours.hashes} == {**left(theirs), "hashes": theirs.hashes}
    assert {pane["key_group"] for pane in theirs.panes} == {94}  # murmur of the hash 0, modulo 128
    assert "key" not in theirs.panes[0]


@pytest.mark.slow
def test_more_keys_than_rows_of_a_batch_meet_are_the_same_in_both_engines():
    rows = [
        {"far": (number * 2_654_435_761) % 2**63 - 2**62, "text": f"customer-{number % 1_999}"}
        for number in range(4_000)
    ]
    window = TumblingEventTimeWindows(size_ms=1_500)
    theirs, ours = (
        replayed(engine, ["far", "text"], rows, window) for engine in (OperatorEngine(), ColumnarEngine())
    )
    assert len({(pane["far"], pane["text"]) for pane in [*theirs.panes, *theirs.windows]}) > 3_900
    assert {**left(ours), "hashes": ours.hashes} == {**left(theirs), "hashes": theirs.hashes}
