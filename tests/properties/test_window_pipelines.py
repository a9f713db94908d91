"""Every window pipeline that the core can run works slice after slice: cuts, ranges and repetitions do not
show, every row is accounted for, and one run over the range is what the core gives key by key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.operator import range as range_work
from slackwater.engine.operator import snapshot
from slackwater.engine.operator.firing import FunctionRaised
from slackwater.engine.replaying import spilling
from slackwater.pipelines import Pipeline
from slackwater.windowing.errors import WindowingError
from slackwater.windowing.snapshot import list_pieces
from slackwater.windowing.state.rocksdb import list_state
from tests.model import records as model
from tests.properties.keyed_model import Expected, expected
from tests.properties.search import searched
from tests.properties.slices import Replayed, replay_pipeline
from tests.properties.test_split_and_parallelism import cuts_of, left
from tests.properties.window_pipelines import pipelines, replays

RANGES = st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3)


def outcome_of(replay: Callable[[], Any]) -> Any:
    """What a replay gives, or the class of the error that ends it, as the core raises for some elements."""
    try:
        return replay()
    except FunctionRaised as error:
        return type(error.__cause__)
    except WindowingError as error:
        return type(error)


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=60)
def test_cuts_parallelism_and_where_state_lives_do_not_show(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    pipeline = data.draw(pipelines(rules), label="pipeline")
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(RANGES, label="ranges")
    file_rows = data.draw(st.sampled_from([1, 1000]), label="file_rows")
    memory = data.draw(
        st.lists(st.sampled_from([0, 1, 2, 1024]), min_size=1, max_size=3),
        label="kilobytes of state in memory",
    )
    with short_pieces():
        once = outcome_of(lambda: everything(replay_pipeline(pipeline, events, rules, [], [1])))
        with spilling_soon():
            in_slices = outcome_of(
                lambda: everything(
                    replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, state_memory=memory)
                )
            )
    assert in_slices == once


@contextmanager
def spilling_soon() -> Iterator[None]:
    """Kilobytes are what megabytes are elsewhere, and state is looked at after each element. A list of a few
    elements is read from RocksDB in chunks.
    """
    with (
        patch.object(spilling, "BYTES_PER_MB", 1024),
        patch.object(spilling, "FIRST_LOOK", 1),
        patch.object(range_work, "BETWEEN_LOOKS", 1),
        patch.object(list_state, "CHUNK_BYTES", 64),
        patch.object(list_state, "LONG_LIST_CHUNKS", 1),
        patch.object(snapshot, "BYTES_READ_AT_ONCE", 0),
    ):
        yield


@contextmanager
def short_pieces() -> Iterator[None]:
    """Lists of more than two elements are parked in pieces, which are part of what is hashed."""
    with (
        patch.object(list_pieces, "FEWEST_IN_PIECE", 2),
        patch.object(list_pieces, "PIECE_CHARS", 64),
        patch.object(list_pieces, "TYPED_ELEMENTS", 2),
    ):
        yield


@pytest.mark.slow
@given(replays(), st.data())
@searched(8, long=36)
def test_a_run_repeated_gives_the_same_hashes(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    pipeline = data.draw(pipelines(rules), label="pipeline")
    cuts = data.draw(cuts_of(rules), label="cuts")

    def run() -> Replayed:
        return replay_pipeline(pipeline, events, rules, cuts, data.draw(RANGES, label="ranges"))

    first, second = outcome_of(run), outcome_of(run)
    assert (first == second) if isinstance(first, type) else (first.hashes == second.hashes)


@pytest.mark.slow
@given(replays(), st.data())
@searched(20, long=100)
def test_one_run_is_what_the_core_gives_key_by_key(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    pipeline = data.draw(pipelines(rules), label="pipeline")
    ours = outcome_of(lambda: replay_pipeline(pipeline, events, rules, [], [2]))
    theirs = outcome_of(lambda: expected(pipeline, events, rules))
    check_against_core(pipeline, ours, theirs)


@given(replays(), st.data())
@searched(10, long=52)
def test_stragglers_are_elements_of_the_slice_that_finds_them(
    replay: tuple[model.Replay, list[model.Event]], data: st.DataObject
) -> None:
    rules, events = replay
    pipeline = data.draw(pipelines(rules), label="pipeline")
    bounds = [rules.start, *data.draw(cuts_of(rules), label="cuts")]
    appears = data.draw(
        st.lists(st.integers(0, len(bounds) - 1), min_size=len(events), max_size=len(events)), label="appears"
    )
    ours = outcome_of(lambda: replay_pipeline(pipeline, events, rules, bounds[1:], [1, 3], appears=appears))
    moved = [
        arriving(event, bounds[first], rules.start) for event, first in zip(events, appears, strict=True)
    ]
    check_against_core(pipeline, ours, outcome_of(lambda: expected(pipeline, moved, rules)))


def arriving(event: model.Event, from_ms: int, start: int) -> model.Event:
    """The event as the model is told of it: a row that appears after its slice arrives at the start of the
    one that finds it.
    """
    assert event.arrival is not None
    is_folded = start <= event.arrival < from_ms
    return event._replace(arrival=from_ms if is_folded else event.arrival, order=(event.arrival, event.order))


def everything(replayed: Replayed) -> dict[str, Any]:
    """All that must not depend on cuts and parallelism."""
    sides = {
        tag: Counter(map(repr, (sorted({**row, "run_id": ""}.items()) for row in rows)))
        for tag, rows in replayed.sides.items()
    }
    return {**left(replayed), "keyed": Counter(map(repr, replayed.keyed)), "sides": sides}


def check_against_core(pipeline: Pipeline, ours: Replayed | type, theirs: Expected | type) -> None:
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours == theirs
        return
    assert Counter(pane_of(row, pipeline) for row in ours.panes) == theirs.panes
    assert (
        Counter(side_of(tag, row, pipeline) for tag, rows in ours.sides.items() for row in rows)
        == theirs.sides
    )
    assert Counter(row["row"] for row in ours.late) == theirs.late
    counts = ours.counts
    for name in ("rows_read", "rows_late", "rows_unassigned", "rows_quarantined", "assignments_missed"):
        assert counts[name] == theirs.counts[name], name
    parts = ("filtered", "accepted", "late", "unassigned", "quarantined")
    assert counts["rows_read"] == sum(counts[f"rows_{part}"] for part in parts)
    assert counts["windows_opened"] == sum(
        counts[f"windows_{part}"] for part in ("merged", "cleaned", "open")
    )
    assert counts["windows_open"] == len(ours.windows)


def pane_of(row: dict[str, Any], pipeline: Pipeline) -> str:
    place = (row["key"], row["window_start"], row["window_end"], row["firing"], row["ordinal"], row["kind"])
    results = tuple(row[name] for name in pipeline.pane_results)
    return repr((*place, *results, row["elements"], row["watermark"], row["tick_end"], row["cause_arrival"]))


def side_of(tag: str, row: dict[str, Any], pipeline: Pipeline) -> str:
    values: Sequence[Any] = [row[name] for name, _ in pipeline.side_columns[tag] if name != "key"]
    place = (
        row["key"],
        row["window_start"],
        row["window_end"],
        row["firing"],
        row["ordinal"],
        row["timestamp"],
    )
    return repr((tag, *place, *values))
