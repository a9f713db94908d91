"""Random scripts on sessions, restored at random steps, as rows through the operator engine: it does what the
window operator does, which passes the recorded traces of Flink.

The shapes that traces have too few of: evictors that leave nothing, and own folds whose order of arguments
shows when sessions merge after a restore, also into another state back end.
"""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.cli.recorded_cases import play_case
from slackwater.conformance import Case
from slackwater.conformance.operator_player import in_memory
from slackwater.conformance.storages import Storages
from slackwater.conformance.window import WindowPlayer
from tests.properties.search import searched

Json = dict[str, Any]
GAPS = [{"type": "session", "time": "event", "gap": gap} for gap in (4, 60_000)]
DYNAMIC_GAPS = [{"type": "dynamic_session", "time": "event", "gap_per_value": ms} for ms in (1, 3_000)]
EMPTYING_EVICTORS = [
    {"type": kind, limit: value, **({"signed": False} if kind == "delta" else {}), "after": after}
    for kind, limit, value in (("time", "size", 0), ("delta", "threshold", 0.0))
    for after in (False, True)
]
TRIGGERS = [None, {"type": "purging", "trigger": {"type": "event_time"}}]


def unit_of(assigner: Json) -> int:
    """A length in which sessions of this assigner sometimes touch."""
    return int(assigner.get("gap") or assigner["gap_per_value"] * 20)


@st.composite
def steps_of(draw: Any, assigner: Json, back_ends: list[str]) -> list[Json]:
    """Elements and restores, then elements and watermarks: Flink forgets the watermark at a restore, which a
    pipeline keeps.
    """
    unit = unit_of(assigner)
    elements = st.builds(
        lambda key, value, time: {"element": {"key": key, "value": value, "timestamp": time}},
        st.sampled_from("aab"),
        st.integers(1, 40),
        st.integers(0, 6 * unit),
    )
    restore = st.sampled_from(
        [
            {"snapshot_restore": {"parallelism": 1, "format": "canonical", "backend": name}}
            for name in back_ends
        ]
    )
    steps = draw(st.lists(st.one_of(elements, elements, restore), min_size=1, max_size=12))
    watermarks = sorted(draw(st.sets(st.integers(-1, 7 * unit), max_size=3)))
    for watermark in [*watermarks, 8 * unit]:
        steps += [{"watermark": watermark}, *draw(st.lists(elements, max_size=4))]
    return steps


def case_of(steps: list[Json], **settings: Any) -> Case:
    """A script, with what the window operator does in each step."""
    config = {"key_type": "string", "side_output_late": True, "max_parallelism": 128, "parallelism": 1}
    config |= settings
    with Storages("heap") as storages:
        player = WindowPlayer(config, storages, in_memory)
        expected = [json.loads(json.dumps(player.play(step))) for step in steps]
    return Case("random", "window", "a random script", config, steps, expected)


@st.composite
def cases(draw: Any, functions: list[str], evictors: list[Json | None], back_ends: list[str]) -> Case:
    assigner = draw(st.sampled_from([*GAPS, *DYNAMIC_GAPS]))
    return case_of(
        draw(steps_of(assigner, back_ends)),
        assigner=assigner,
        trigger=draw(st.sampled_from(TRIGGERS)),
        evictor=draw(st.sampled_from(evictors)),
        allowed_lateness=draw(st.sampled_from([0, 1, 3])) * unit_of(assigner),
        function={"type": draw(st.sampled_from(functions))},
        backend=draw(st.sampled_from(back_ends)),
    )


def element(value: int, timestamp: int) -> Json:
    return {"element": {"key": "a", "value": value, "timestamp": timestamp}}


# The late element fires its session again, and each time the function sees nothing.
LATE_AND_EVICTED = case_of(
    [element(1, 100), {"watermark": 200}, element(2, 101)],
    assigner=GAPS[0],
    trigger=None,
    evictor=EMPTYING_EVICTORS[0],
    allowed_lateness=200,
    function={"type": "process_list"},
    backend="hashmap",
)
# The third element joins the sessions of the first two: a heap puts the value of the surviving session first.
MERGED_AFTER_A_RESTORE = case_of(
    [
        element(34, 197_343),
        element(-47, 83_093),
        {"snapshot_restore": {"parallelism": 1, "format": "canonical", "backend": "hashmap"}},
        element(-16, 138_213),
        {"watermark": 400_000},
    ],
    assigner=GAPS[1],
    trigger=None,
    evictor=None,
    allowed_lateness=0,
    function={"type": "reduce_concat"},
    backend="rocksdb",
)


def require_same(case: Case) -> None:
    assert play_case(case, "operator") is None


@pytest.mark.slow
@searched(12, long=600)
@example(case=LATE_AND_EVICTED)
@given(case=cases(["process_list", "reduce_concat", "aggregate_concat"], EMPTYING_EVICTORS, ["hashmap"]))
def test_an_evictor_that_leaves_nothing_of_a_session_does_what_the_operator_does(case: Case) -> None:
    require_same(case)


@pytest.mark.slow
@searched(12, long=600)
@example(case=MERGED_AFTER_A_RESTORE)
@given(case=cases(["reduce_concat", "aggregate_concat"], [None], ["hashmap", "rocksdb"]))
def test_merged_sessions_fold_in_the_order_of_the_back_end_that_a_restore_chose(case: Case) -> None:
    require_same(case)
