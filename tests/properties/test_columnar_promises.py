"""What the columnar engine promises by itself, with every trigger that it has: cuts, ranges, files and memory
do not show (P1, P2), to the bit of a sum of doubles; every row is accounted for (P5); a run repeated gives
equal hashes (P7).
"""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.pipelines import agg
from slackwater.windowing import EventTimeTrigger, GlobalWindows
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import (
    AT_THE_END,
    CONTINUOUS,
    COUNTED,
    cuts_between,
    purging_or_not,
    replays,
)
from tests.properties.test_split_and_parallelism import left, multiset

SELECT = {
    "n": agg.count(),
    "positive": agg.count(where="x > 0"),
    "total": agg.sum("y"),
    "wide": agg.sum("big"),
    "centre": agg.mean("y"),
    "spread": agg.variance("y"),
    "deviation": agg.stddev("big"),
    "greatest": agg.max("y"),
    "newest": agg.last("x", by="arrival"),
}
WHERE = {None: lambda x: True, "x > 0 or x is null": lambda x: x is None or x > 0}
EARLY = purging_or_not(COUNTED | CONTINUOUS | st.just(EventTimeTrigger()))


@st.composite
def cases(draw):
    """(rules, events, pipeline, what its condition says of an x)."""
    rules, events = draw(replays())
    where = draw(st.sampled_from(list(WHERE)))
    pipeline = replace(pipeline_of(rules, False), select=SELECT, where=where)
    if draw(st.integers(0, 4)) == 0:
        trigger = draw(purging_or_not(COUNTED | CONTINUOUS | AT_THE_END))
        pipeline = replace(
            pipeline, window=GlobalWindows.create(), trigger=trigger, allowed_lateness=timedelta(0)
        )
    elif not isinstance(rules.assigner, model.Session):
        pipeline = replace(pipeline, trigger=draw(EARLY))
    return rules, events, pipeline, WHERE[where]


def run(pipeline, rules, events, cuts, ranges, file_rows=1000, memory=(1024,)):
    return replay_pipeline(
        pipeline, events, rules, cuts, ranges, file_rows, engines=[ColumnarEngine()], state_memory=memory
    )


def seen(replayed):
    """All that must not show; of a quarantined row the file that it stands in does."""
    return {**left(replayed), "quarantine": multiset(replayed.quarantined, "source_version", "source_file")}


@pytest.mark.slow
@given(cases(), st.data())
@searched(4, long=18)
def test_cuts_ranges_files_and_memory_do_not_show(case, data):
    rules, events, pipeline, _ = case
    cuts = data.draw(cuts_between(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=2), label="ranges")
    elsewhere = Random(data.draw(st.integers(0, 99), label="order in files")).sample(events, len(events))
    file_rows = data.draw(st.sampled_from([1, 1000]), label="file_rows")
    memory = data.draw(st.sampled_from([[1024], [0, 1024]]), label="memory")
    once = run(pipeline, rules, events, [], [1])
    assert seen(run(pipeline, rules, elsewhere, cuts, ranges, file_rows, memory)) == seen(once)


@pytest.mark.slow
@given(cases(), st.data())
@searched(4, long=16)
def test_every_row_is_accounted_for(case, data):
    rules, events, pipeline, meets = case
    replayed = run(pipeline, rules, events, data.draw(cuts_between(rules), label="cuts"), [1, 2])
    counts = replayed.counts
    read = [event for event in events if rules.start <= event.arrival < rules.to]
    assert counts["rows_read"] == len(read)
    assert counts["rows_filtered"] == len([event for event in read if not meets(event.values["x"])])
    parts = ("filtered", "accepted", "late", "unassigned", "quarantined")
    assert len(read) == sum(counts[f"rows_{part}"] for part in parts)
    assert (counts["rows_late"], counts["rows_quarantined"]) == (
        len(replayed.late),
        len(replayed.quarantined),
    )
    assert (
        counts["windows_opened"]
        == counts["windows_merged"] + counts["windows_cleaned"] + counts["windows_open"]
    )
    assert (counts["windows_open"], counts["timers_pending"]) == (len(replayed.windows), len(replayed.timers))
    fired = [pane["kind"] for pane in replayed.panes if pane["kind"] != "withdrawn"]
    assert (counts["windows_fired"], counts["windows_refired"]) == (
        len(fired) - fired.count("late"),
        fired.count("late"),
    )


@pytest.mark.slow
@given(cases(), st.data())
@searched(3, long=8)
def test_a_run_repeated_gives_equal_hashes(case, data):
    rules, events, pipeline, _ = case
    cuts = data.draw(cuts_between(rules), label="cuts")
    first, second = (run(pipeline, rules, events, cuts, [ranges]) for ranges in (1, 5))
    assert first.hashes == second.hashes
    assert first.state_hash == second.state_hash
