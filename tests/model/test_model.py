"""The model (`tests.model.brute_force`) against hand calculations and Flink's worked scenarios.

Each expected value is worked out on paper from the rules; none was copied from the model's output.
"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.aggregates import aggregate
from tests.model.brute_force import LONG_MAX, LONG_MIN, replay, windows_of
from tests.model.records import (
    AHEAD_OF_ARRIVAL,
    BEHIND_ARRIVAL,
    DAY_MS,
    NULL_ARRIVAL,
    NULL_EVENT_TIME,
    NULL_KEY,
    TIME_OUT_OF_RANGE,
    Aggregate,
    Cumulative,
    Event,
    OpenWindow,
    Replay,
    Session,
    Sliding,
    SourceProgress,
    Timer,
    Tumbling,
    Window,
)


def event(event_time, arrival, key="k", source="s", order=0, value=None):
    return Event(event_time, arrival, source, order, key, {"value": value})


def rules(**changed):
    """Ticks of 10, no bound (so W = greatest event time − 1), nobody idle, windows of 10, no lateness, over
    [0, 1000).
    """
    return Replay(**{"start": 0, "to": 1000, "tick": 10, "bound": 0, "assigner": Tumbling(10), **changed})


def fired(outcome, key="k"):
    """(window, firing, kind, elements, W) of each pane of a key, in order."""
    return [
        (tuple(p.window), p.firing, p.kind, p.elements, p.watermark) for p in outcome.panes if p.key == key
    ]


# --- ticks and the watermark


def test_element_just_before_a_tick_end_belongs_to_the_tick_that_ends():
    outcome = replay([event(20, 5), event(3, 9)], rules())
    assert fired(outcome) == [((0, 10), 1, "on_time", 1, 19)]
    assert (outcome.panes[0].tick_end, outcome.panes[0].cause_arrival) == (10, None)
    assert outcome.late == ()


def test_element_at_a_tick_end_belongs_to_the_next_tick():
    outcome = replay([event(20, 5), event(3, 10)], rules())
    assert fired(outcome) == []
    [late] = outcome.late
    assert (late.event.event_time, late.windows, late.watermark, late.late_by_ms) == (
        3,
        (Window(0, 10),),
        19,
        16,
    )


def test_tick_that_ends_exactly_at_to_is_finished_and_one_that_to_cuts_is_not():
    events = [event(20, 5), event(3, 6)]
    finished, cut = replay(events, rules(to=10)), replay(events, rules(to=9))
    assert (finished.watermark, fired(finished), finished.unfinished_tick) == (
        19,
        [((0, 10), 1, "on_time", 1, 19)],
        None,
    )
    assert (cut.watermark, fired(cut), cut.unfinished_tick) == (LONG_MIN, [], 0)
    assert [window.window for window in cut.open_windows] == [(0, 10), (20, 30)]


def test_first_tick_end_is_the_first_multiple_after_the_start():
    outcome = replay([event(7, 14), event(50, 15), event(60, 21)], rules(start=14, tick=5, to=25))
    assert outcome.timeline == ((15, 6), (20, 49), (25, 59))


def test_range_is_half_open_and_rows_outside_are_not_read():
    outcome = replay([event(1, 9), event(2, 10), event(3, 19), event(4, 20)], rules(start=10, to=20))
    assert outcome.counts.read == 2
    assert [(w.elements, w.first_arrival, w.last_arrival) for w in outcome.open_windows] == [(2, 10, 19)]


def test_bound_and_slowest_source_partition_hold_the_watermark_back():
    outcome = replay([event(100, 1, source="a"), event(50, 2, source="b")], rules(bound=7, to=10))
    assert outcome.timeline == ((10, 42),)


def test_source_partition_is_idle_when_its_silence_reaches_the_timeout():
    """b arrives at 0 (idle from 20 on); a at 1 and 11 (active at 20 and 30, idle from 31 on)."""
    events = [event(50, 0, source="b"), event(100, 1, source="a"), event(200, 11, source="a")]
    outcome = replay(events, rules(idle_timeout=20, to=40))
    assert outcome.timeline == ((10, 49), (20, 199))
    assert outcome.progress == (SourceProgress("b", 50, 0, True), SourceProgress("a", 200, 11, True))


def test_source_partition_one_short_of_the_timeout_still_counts():
    events = [event(50, 1, source="b"), event(100, 1, source="a"), event(200, 11, source="a")]
    outcome = replay(events, rules(idle_timeout=20, to=30))
    assert outcome.timeline == ((10, 49), (30, 199))
    assert outcome.progress == (SourceProgress("b", 50, 1, True), SourceProgress("a", 200, 11, False))


def test_all_idle_leaves_the_watermark_and_a_returning_partition_never_turns_it_back():
    events = [event(50, 0, source="b"), event(200, 0, source="a"), event(60, 45, source="b")]
    assert replay(events, rules(idle_timeout=10, to=40)).timeline == ()
    assert replay(events, rules(idle_timeout=10, to=60)).timeline == ((50, 59),)
    outcome = replay(events, rules(idle_timeout=11, to=60))
    assert outcome.timeline == ((10, 49), (50, 59))
    assert replay([event(70, 5), event(60, 15)], rules(to=20)).timeline == ((10, 69),)


def test_late_element_is_progress_and_holds_the_others_back():
    events = [event(100, 1, source="a"), event(3, 12, source="b"), event(200, 13, source="a")]
    outcome = replay(events, rules(to=20))
    assert outcome.counts.late == 1
    assert outcome.timeline == ((10, 99),)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 99), st.sampled_from("abc")), max_size=12),
    idle=st.sampled_from([None, 5, 10, 25]),
)
def test_timeline_is_its_definition_at_every_tick_end(rows, idle):
    events = [event(t, arrival, source=source, order=i) for i, (t, arrival, source) in enumerate(rows)]
    expected, previous = [], LONG_MIN
    for end in range(10, 101, 10):
        candidates = []
        for source in "abc":
            seen = [e for e in events if e.source == source and e.arrival < end]
            if seen and (idle is None or end - max(e.arrival for e in seen) < idle):
                candidates.append(max(e.event_time for e in seen) - 4 - 1)
        watermark = max([previous] + ([min(candidates)] if candidates else []))
        if watermark != previous:
            expected.append((end, watermark))
        previous = watermark
    outcome = replay(events, rules(bound=4, idle_timeout=idle, to=100))
    assert list(outcome.timeline) == expected
    assert outcome.watermark == previous


# --- rows that cannot be used


def test_null_event_time_is_quarantined_and_is_no_progress():
    outcome = replay([event(100, 1, source="a"), event(None, 2, source="b")], rules(to=10))
    assert outcome.timeline == ((10, 99),)
    assert [row.reason for row in outcome.quarantined] == [NULL_EVENT_TIME]
    assert [progress.source for progress in outcome.progress] == ["a"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (event(5, None), NULL_ARRIVAL),
        (event(5, 5, key=None), NULL_KEY),
        (event(5, 5, key=("x", None)), NULL_KEY),
        (event(None, 5, key=None), NULL_KEY),
        (event(5 + DAY_MS, 5), None),
        (event(6 + DAY_MS, 5), AHEAD_OF_ARRIVAL),
        (event(LONG_MAX, 5), TIME_OUT_OF_RANGE),
        (event(LONG_MIN, 5), TIME_OUT_OF_RANGE),
        (
            event(LONG_MIN + 9, 5),
            None,
        ),  # the window [−2⁶³ + 8, …) exists: −2⁶³ ≡ 2 mod 10, so −2⁶³ + 8 is a multiple of 10
        (event(LONG_MIN + 7, 5), TIME_OUT_OF_RANGE),
    ],
)
def test_unusable_row_goes_to_quarantine_with_its_reason(row, reason):
    outcome = replay([row], rules())
    assert [quarantined.reason for quarantined in outcome.quarantined] == ([] if reason is None else [reason])
    assert outcome.counts.read == 1
    assert outcome.counts.accepted == (1 if reason is None else 0)


def test_a_row_further_behind_its_arrival_than_the_bound_goes_to_quarantine():
    outcome = replay([event(0, 7), event(0, 8)], rules(max_behind=7))
    assert [row.reason for row in outcome.quarantined] == [BEHIND_ARRIVAL]
    assert outcome.counts.accepted == 1


def test_time_whose_lateness_would_wrap_is_out_of_range():
    far = LONG_MAX - 1000
    assert replay([event(far, 5)], rules(max_ahead=LONG_MAX, allowed_lateness=900)).counts.accepted == 1
    assert replay([event(far, 5)], rules(max_ahead=LONG_MAX, allowed_lateness=1001)).counts.quarantined == 1


# --- windows


@pytest.mark.parametrize(
    ("timestamp", "offset", "start"),
    [
        *[(0, 0, 0), (9, 0, 0), (10, 0, 10), (-1, 0, -10), (-10, 0, -10), (-11, 0, -20)],
        *[(5, 3, 3), (2, 3, -7), (3, 3, 3), (5, -3, -3), (-4, -3, -13)],
    ],
)
def test_tumbling_window_starts_as_in_flink(timestamp, offset, start):
    """Flink's recorded vectors for size 10."""
    assert windows_of(timestamp, Tumbling(10, offset)) == [(start, start + 10)]


def test_sliding_windows_are_flinks_newest_first():
    assert windows_of(5, Sliding(30, 20)) == [(0, 30), (-20, 10)]
    assert windows_of(-7, Sliding(10, 3, -2)) == [(-8, 2), (-11, -1), (-14, -4)]
    assert windows_of(7, Sliding(5, 10)) == []
    assert windows_of(12, Cumulative(30, 10)) == [(0, 20), (0, 30)]
    assert windows_of(-7, Cumulative(20, 10, 5)) == [(-15, -5), (-15, 5)]


def test_lateness_boundaries_of_flinks_worked_scenario():
    """Tumbling 1000, lateness 100. The key `clock` drives W to 998, 999, 1098, 1099 at the tick ends 10, 20,
    30, 40.
    """
    clock = [event(t, arrival, key="clock") for t, arrival in [(999, 1), (1000, 11), (1099, 21), (1100, 31)]]
    outcome = replay(
        [*clock, event(10, 0), event(20, 10), event(20, 20), event(30, 30), event(40, 40)],
        rules(assigner=Tumbling(1000), allowed_lateness=100, to=50),
    )
    assert outcome.timeline == ((10, 998), (20, 999), (30, 1098), (40, 1099))
    assert fired(outcome) == [
        ((0, 1000), 1, "on_time", 2, 999),
        ((0, 1000), 2, "late", 3, 999),
        ((0, 1000), 3, "late", 4, 1098),
    ]
    assert [(pane.tick_end, pane.cause_arrival) for pane in outcome.panes if pane.key == "k"] == [
        (20, None),
        (None, 20),
        (None, 30),
    ]
    [late] = outcome.late
    assert (late.event.event_time, late.windows, late.late_by_ms) == (40, ((0, 1000),), 1059)
    assert [pane.firing for pane in outcome.published if pane.key == "k"] == [3]
    assert {window.key for window in outcome.open_windows} == {"clock"}


def test_without_lateness_the_firing_is_the_cleanup():
    outcome = replay([event(9, 0), event(10, 1, key="clock"), event(9, 10)], rules(to=20))
    assert fired(outcome) == [((0, 10), 1, "on_time", 1, 9)]
    assert [late.event.arrival for late in outcome.late] == [10]


def test_late_element_without_a_window_opens_one_that_fires_at_once():
    outcome = replay([event(30, 0, key="clock"), event(5, 10)], rules(allowed_lateness=100, to=20))
    assert fired(outcome) == [((0, 10), 1, "late", 1, 29)]
    assert [
        (window.next_firing, window.firings, window.last_fired_at)
        for window in outcome.open_windows
        if window.key == "k"
    ] == [(None, 1, 10)]


def test_open_windows_and_timers_at_the_end():
    """W = 15 − 1 = 14 at tick end 10: [0, 10) has fired and waits for its cleanup at 9 + 20, [10, 20) waits
    for both.
    """
    events = [event(5, 1, order=1, value=4), event(15, 2, order=2, value=6), event(6, 3, order=3, value=None)]
    outcome = replay(
        events,
        rules(
            allowed_lateness=20,
            to=15,
            aggregates=(Aggregate("n", "count"), Aggregate("mean", "mean", "value")),
        ),
    )
    assert outcome.open_windows == (
        OpenWindow("k", Window(0, 10), 2, 1, {"n": 2, "mean": 4.0}, 1, 3, 10, None, 29),
        OpenWindow("k", Window(10, 20), 1, 0, {"n": 1, "mean": 6.0}, 2, 2, None, 19, 39),
    )
    assert outcome.timers == (
        Timer("k", Window(0, 10), 29, "cleanup"),
        Timer("k", Window(10, 20), 19, "fire"),
        Timer("k", Window(10, 20), 39, "cleanup"),
    )
    without_lateness = replay(events, rules(to=15))
    assert without_lateness.timers == (Timer("k", Window(10, 20), 19, "fire+cleanup"),)
    assert outcome.unfinished_tick == 10


def test_element_late_for_some_sliding_windows_is_accepted_and_misses_those():
    """W = 10 at tick end 10. ts 5 has [0, 20) and [−10, 10); the latter (max 9) is late."""
    outcome = replay([event(11, 0, key="clock"), event(5, 10)], rules(assigner=Sliding(20, 10), to=20))
    assert outcome.counts.accepted == 2
    assert outcome.counts.assignments_missed == 1
    assert outcome.late == ()
    assert [window.window for window in outcome.open_windows if window.key == "k"] == [(0, 20)]


def test_element_without_a_window_is_unassigned_or_late_by_its_own_timestamp():
    """Size 5, slide 10: ts 7 lies in a gap. W = 7 − 1 = 6 at tick end 10, 30 − 1 = 29 at 20."""
    events = [event(7, 0), event(7, 10, order=1), event(30, 11), event(27, 20), event(29, 21)]
    outcome = replay(events, rules(assigner=Sliding(5, 10), to=30))
    assert [unassigned.arrival for unassigned in outcome.unassigned] == [0, 10]
    assert [(late.event.arrival, late.windows) for late in outcome.late] == [(20, ()), (21, ())]
    assert outcome.counts.accepted == 1


# --- sessions


def test_session_of_flinks_worked_scenario():
    """Gap 10, lateness 30; W 9, 18, 39, 48 at the tick ends 10, 20, 30, 40."""
    clock = [event(t, arrival, key="clock") for t, arrival in [(10, 1), (19, 11), (40, 21), (49, 31)]]
    outcome = replay(
        [*clock, event(0, 0), event(9, 10), event(9, 30), event(9, 40)],
        rules(assigner=Session(10), allowed_lateness=30, to=50),
    )
    assert [watermark for _, watermark in outcome.timeline] == [9, 18, 39, 48]
    assert fired(outcome) == [
        ((0, 10), 1, "on_time", 1, 9),
        ((0, 10), 2, "withdrawn", 0, 9),
        ((0, 19), 1, "on_time", 2, 18),
        ((0, 19), 2, "late", 3, 39),
    ]
    assert [(late.event.arrival, late.windows) for late in outcome.late] == [(40, ((9, 19),))]
    assert [(pane.window, pane.firing) for pane in outcome.published if pane.key == "k"] == [((0, 19), 2)]


def test_element_whose_own_session_is_late_is_accepted_by_merging():
    """Gap 3000, lateness 10, W = 14600: [10000, 13000) alone would be late; [11600, 14600) has fired and is
    absorbed.
    """
    outcome = replay(
        [event(11600, 0), event(14601, 1, key="clock"), event(10000, 10)],
        rules(assigner=Session(3000), allowed_lateness=10, to=20),
    )
    assert fired(outcome) == [
        ((11600, 14600), 1, "on_time", 1, 14600),
        ((11600, 14600), 2, "withdrawn", 0, 14600),
        ((10000, 14600), 1, "late", 2, 14600),
    ]
    withdrawn = outcome.panes[1]
    assert (withdrawn.results, withdrawn.tick_end, withdrawn.cause_arrival) == (None, None, 10)
    assert outcome.counts.late == 0


def test_sessions_that_touch_merge_and_an_element_bridges_two():
    outcome = replay(
        [event(0, 0), event(20, 1), event(40, 2), event(10, 3)], rules(assigner=Session(10), to=5)
    )
    assert [(window.window, window.elements) for window in outcome.open_windows] == [
        ((0, 30), 3),
        ((40, 50), 1),
    ]
    assert (outcome.counts.windows_opened, outcome.counts.windows_merged) == (2, 0)  # none of them had fired
    assert outcome.panes == ()


def test_element_inside_a_session_leaves_its_bounds_and_its_firings():
    events = [event(0, 0), event(9, 1), event(19, 2, key="clock"), event(5, 10)]
    outcome = replay(events, rules(assigner=Session(10), allowed_lateness=30, to=20))
    assert fired(outcome) == [((0, 19), 1, "on_time", 2, 18), ((0, 19), 2, "late", 3, 18)]


def test_late_session_that_touches_none_is_late():
    outcome = replay([event(100, 0, key="clock"), event(5, 10)], rules(assigner=Session(10), to=20))
    assert [(late.windows, late.watermark) for late in outcome.late] == [(((5, 15),), 99)]


# --- results


AGGREGATES = (
    Aggregate("rows", "count"),
    Aggregate("values", "count", "value"),
    Aggregate("sum", "sum", "value"),
    Aggregate("mean", "mean", "value"),
    Aggregate("min", "min", "value"),
    Aggregate("max", "max", "value"),
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 2], (3, 2, 3, 1.5, 1, 2)),
        ([None, None], (2, 0, None, None, None, None)),
        ([-3, -4], (2, 2, -7, -3.5, -4, -3)),
        (
            [0.1] * 10,
            (10, 10, 1.0, 0.1, 0.1, 0.1),
        ),  # adding the doubles one by one would give 0.9999999999999999
        ([1e16, 1.0, -1e16], (3, 3, 1.0, 1 / 3, -1e16, 1e16)),
        ([1e308, 1e308], (2, 2, math.inf, 1e308, 1e308, 1e308)),
        ([math.inf, 1.0], (2, 2, math.inf, math.inf, 1.0, math.inf)),
    ],
)
def test_aggregates_skip_nulls_and_round_once(values, expected):
    results = aggregate([event(0, i, value=value) for i, value in enumerate(values)], AGGREGATES)
    assert tuple(results.values()) == expected


def test_nan_is_the_greatest_value_and_negative_zero_is_zero():
    nan = aggregate([event(0, i, value=value) for i, value in enumerate([math.nan, 1.0])], AGGREGATES)
    assert nan["min"] == 1.0
    assert all(math.isnan(nan[name]) for name in ("max", "sum", "mean"))
    opposite = aggregate(
        [event(0, i, value=value) for i, value in enumerate([math.inf, -math.inf])], AGGREGATES
    )
    assert math.isnan(opposite["sum"])
    zero = aggregate([event(0, 0, value=-0.0)], AGGREGATES)
    assert [math.copysign(1, zero[name]) for name in ("sum", "mean", "min", "max")] == [1, 1, 1, 1]


def test_elements_are_processed_by_arrival_then_order_whatever_the_input_order():
    events = [
        event(1, 5, order=2, value="c"),
        event(1, 4, order=9, value="a"),
        event(1, 5, order=1, value="b"),
        event(20, 6),
    ]
    [pane] = [pane for pane in replay(events, rules(to=10)).panes if pane.kind == "on_time"]
    assert [member.values["value"] for member in pane.members] == ["a", "b", "c"]


# --- conservation


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, 150)), st.integers(0, 120), st.sampled_from("xy")),
        max_size=25,
    ),
    assigner=st.sampled_from(
        [Tumbling(10), Tumbling(7, 3), Sliding(20, 6), Sliding(5, 9), Cumulative(12, 4), Session(8)]
    ),
    lateness=st.sampled_from([0, 12]),
)
def test_every_row_and_every_window_is_accounted_for(rows, assigner, lateness):
    events = [event(t, arrival, key=key, order=i) for i, (t, arrival, key) in enumerate(rows)]
    outcome = replay(events, rules(assigner=assigner, allowed_lateness=lateness, to=110))
    counts = outcome.counts
    assert counts.read == sum(arrival < 110 for _, arrival, _ in rows)
    assert counts.read == counts.accepted + counts.late + counts.unassigned + counts.quarantined
    assert len(outcome.open_windows) == counts.windows_opened - counts.windows_merged - counts.windows_cleaned
    assert counts.on_time_firings + counts.late_firings == sum(
        pane.kind != "withdrawn" for pane in outcome.panes
    )
    if isinstance(assigner, Tumbling):
        fired_rows = sum(pane.elements for pane in outcome.published)
        waiting = [window for window in outcome.open_windows if window.firings == 0]
        assert counts.accepted == fired_rows + sum(window.elements for window in waiting)
