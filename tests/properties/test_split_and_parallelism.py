"""However a range is cut into slices, and into however many key-group ranges each slice is divided, the
tables end up the same; and one run over the range is what the brute-force model says.
"""

import dataclasses
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model import brute_force
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import AGGREGATES, SELECT, replay_slices

START = 1_000_000
TICK = 50


def assigners():
    tumbling = st.builds(
        model.Tumbling, size=st.sampled_from([60, 100, 130]), offset=st.sampled_from([0, 7, -20])
    )
    sliding = st.builds(
        model.Sliding,
        size=st.sampled_from([90, 200]),
        slide=st.sampled_from([30, 60, 120]),
        offset=st.sampled_from([0, 11]),
    )
    cumulative = st.builds(
        model.Cumulative,
        size=st.sampled_from([90, 240]),
        step=st.sampled_from([30, 15]),
        offset=st.sampled_from([0, 11]),
    )
    sessions = st.builds(model.Session, gap=st.sampled_from([30, 80]))
    return st.one_of(tumbling, sliding, cumulative, sessions)


@st.composite
def replays(draw):
    """Rules, events and a range; events out of order, with nulls, ties and several source partitions.

    A seed draws the rows, because drawn one by one most would be alike, and hardly a window would fire.
    """
    length = draw(st.sampled_from([500, 900, 250, 60, 1]))
    rules = model.Replay(
        start=START,
        to=START + length,
        tick=TICK,
        bound=draw(st.sampled_from([0, 20, 75])),
        assigner=draw(assigners()),
        allowed_lateness=draw(st.sampled_from([0, 30, 200])),
        idle_timeout=draw(st.sampled_from([None, 60, 120])),
        max_ahead=draw(st.sampled_from([50, 100_000])),
        max_behind=draw(st.sampled_from([None, 150])),
        aggregates=AGGREGATES,
    )
    share = draw(st.sampled_from([0.2, 0.5, 0.0]), label="share of late rows")
    size = draw(st.sampled_from([40, 25, 10, 2, 0]))
    random = Random(draw(st.integers(0, 2**32), label="seed"))
    return rules, [_event(random, length, number, share) for number in range(size)]


def _event(random, length, number, share):
    """One event, late or in time; now and then without a time, a key or a value, from outside of the range or
    from the future.
    """

    def some(*values):
        return None if random.random() < 0.05 else random.choice(values)

    arrival = some(random.randint(-length // 20 - 1, length + length // 20 + 1))
    delay = random.randint(50, 400) if random.random() < share else random.randint(-3, 60)
    event = (
        random.randint(-200, length + 100) if arrival is None or random.random() < 0.05 else arrival - delay
    )
    return model.Event(
        None if random.random() < 0.05 else START + event,
        None if arrival is None else START + arrival,
        some("s", "s", "t"),
        number,
        some("a", "a", "b", "key1", "key2", "ключ"),
        {
            "x": some(*range(-5, 6)),
            "y": some(0.1, -0.0, 0.0, 1e300, -1e300, 1e-300, float("nan"), float("inf")),
        },
    )


def cuts_of(rules):
    return st.lists(
        st.integers(rules.start + 1, max(rules.start + 1, rules.to - 1)), max_size=4, unique=True
    ).map(lambda cuts: sorted(cut for cut in cuts if cut < rules.to))


def multiset(rows, *without):
    return Counter(
        repr(sorted((name, repr(value)) for name, value in row.items() if name not in ("run_id", *without)))
        for row in rows
    )


def left(replayed):
    """All that must not depend on cuts and parallelism."""
    return {
        "panes": multiset(replayed.panes),
        "late": multiset(replayed.late),
        "quarantine": multiset(replayed.quarantined, "source_version"),
        "windows": multiset(replayed.windows),
        "timers": multiset(replayed.timers),
        "progress": multiset(replayed.progress),
        "hash": replayed.state_hash,
        "counts": replayed.counts,
    }


@pytest.mark.slow
@given(replays(), st.data())
@searched(4, long=16)
def test_cuts_and_parallelism_do_not_show(replay, data):
    check_cuts_and_parallelism(replay, data)


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=40)
def test_cuts_and_parallelism_do_not_show_in_many_more_replays(replay, data):
    check_cuts_and_parallelism(replay, data)


def check_cuts_and_parallelism(replay, data):
    rules, events = replay
    purging = data.draw(st.booleans(), label="purging")
    once = left(replay_slices(events, rules, [], [1], purging))
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5, 32]), min_size=1, max_size=3), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    assert left(replay_slices(events, rules, cuts, ranges, purging, file_rows)) == once


@pytest.mark.slow
@given(replays())
@searched(14, long=72)
def test_one_run_is_what_the_model_says(replay):
    rules, events = replay
    check_against_model(replay_slices(events, rules, [], [2]), events, rules)


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=40)
def test_rows_that_appear_after_their_slice_are_folded_into_a_later_one_at_its_start(replay, data):
    rules, events = replay
    # Both rules look at the true arrival, which the model is not told.
    rules = dataclasses.replace(rules, max_ahead=100_000, max_behind=None)
    bounds = [rules.start, *data.draw(cuts_of(rules), label="cuts")]
    appears = data.draw(
        st.lists(st.integers(0, len(bounds) - 1), min_size=len(events), max_size=len(events)), label="appears"
    )
    ours = replay_slices(events, rules, bounds[1:], [1, 3], appears=appears)
    # The model is told what folding means: the row arrives at the slice's start, before all that really
    # arrive then.
    moved = [_moved(event, bounds[first], rules.start) for event, first in zip(events, appears, strict=True)]
    check_against_model(ours, moved, rules)
    late = sum(
        rules.start <= (event.arrival or 0) < bounds[first]
        for event, first in zip(events, appears, strict=True)
    )
    assert ours.counts["rows_folded"] == late


@pytest.mark.slow
@given(replays(), st.data())
@settings(max_examples=40)
def test_another_lateness_counts_from_its_cut_on_also_for_windows_that_are_open(replay, data):
    rules, events = replay
    cuts = data.draw(cuts_of(rules), label="cuts")
    latenesses = data.draw(
        st.lists(st.sampled_from([0, 1, 30, 200]), min_size=len(cuts) + 1, max_size=len(cuts) + 1),
        label="latenesses",
    )
    rules = dataclasses.replace(rules, allowed_lateness=latenesses[0])
    ours = replay_slices(events, rules, cuts, [1, 3], latenesses=latenesses)
    changes = {
        cut: {"allowed_lateness": lateness} for cut, lateness in zip(cuts, latenesses[1:], strict=True)
    }
    check_against_model(ours, events, rules, changes)


def _moved(event, from_ms, start):
    is_folded = event.arrival is not None and start <= event.arrival < from_ms
    order = (event.arrival or 0, event.order)
    return event._replace(arrival=from_ms if is_folded else event.arrival, order=order)


def _row_of(order):
    return _row_of(order[1]) if isinstance(order, tuple) else order


def check_against_model(ours, events, rules, changes=None):
    theirs = brute_force.replay(
        [event._replace(source=event.source or "") for event in events], rules, changes
    )
    assert Counter(map(_our_pane, ours.panes)) == Counter(map(_their_pane, theirs.panes))
    assert Counter(
        (
            row["row"],
            tuple((w["start"], w["end"]) for w in row["windows"]),
            row["late_by_ms"],
            row["watermark"],
        )
        for row in ours.late
    ) == Counter(
        (
            _row_of(row.event.order),
            tuple(row.windows),
            row.late_by_ms,
            None if row.watermark == brute_force.LONG_MIN else row.watermark,
        )
        for row in theirs.late
    )
    assert Counter(row["reason_code"] for row in ours.quarantined) == Counter(
        row.reason for row in theirs.quarantined
    )
    assert Counter(map(_our_window, ours.windows)) == Counter(map(_their_window, theirs.open_windows))
    assert Counter((t["key"], t["window_start"], t["time"], t["purpose"]) for t in ours.timers) == Counter(
        (t.key, t.window.start, t.time, t.purpose) for t in theirs.timers
    )
    assert [
        (p["source_partition"], p["max_event_time"], p["last_arrival"], p["idle"]) for p in ours.progress[1:]
    ] == sorted((p.source, p.max_event_time, p.last_arrival, p.idle) for p in theirs.progress)
    assert ours.progress[0]["watermark"] == (
        None if theirs.watermark == brute_force.LONG_MIN else theirs.watermark
    )
    counts = theirs.counts
    names = (
        "rows_read",
        "rows_accepted",
        "rows_late",
        "rows_unassigned",
        "rows_quarantined",
        "assignments_missed",
        "windows_fired",
    )
    expected = (
        counts.read,
        counts.accepted,
        counts.late,
        counts.unassigned,
        counts.quarantined,
        counts.assignments_missed,
        counts.on_time_firings,
    )
    assert tuple(ours.counts[name] for name in names) == expected
    assert ours.counts["windows_refired"] == counts.late_firings
    lives = tuple(ours.counts[name] for name in ("windows_opened", "windows_merged", "windows_cleaned"))
    assert lives == (counts.windows_opened, counts.windows_merged, counts.windows_cleaned)


def _results(values):
    return tuple(repr(values[name.name]) for name in AGGREGATES)


def _our_pane(row):
    facts = (row["key"], row["window_start"], row["window_end"], row["firing"], row["kind"], row["elements"])
    return (*facts, _results(row), row["watermark"], row["tick_end"], row["cause_arrival"])


def _their_pane(pane):
    facts = (pane.key, pane.window.start, pane.window.end, pane.firing, pane.kind, pane.elements)
    watermark = None if pane.watermark == brute_force.LONG_MIN else pane.watermark
    results = dict.fromkeys(SELECT) if pane.results is None else pane.results
    return (*facts, _results(results), watermark, pane.tick_end, pane.cause_arrival)


def _our_window(row):
    facts = (
        row["key"],
        row["window_start"],
        row["window_end"],
        row["elements"],
        row["firings"],
        row["first_arrival"],
        row["last_arrival"],
    )
    return (*facts, row["last_fired_at"], row["next_firing"], row["cleanup_time"])


def _their_window(window):
    facts = (
        window.key,
        window.window.start,
        window.window.end,
        window.elements,
        window.firings,
        window.first_arrival,
        window.last_arrival,
    )
    return (*facts, window.last_fired_at, window.next_firing, window.cleanup_time)
