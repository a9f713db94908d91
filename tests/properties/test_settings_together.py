"""What a pipeline may declare of its rows holds together, too: several sources, derived columns, conditions,
rows told apart, windows of all rows, and windows of every kind. The brute-force model is given the rows that
are left, with their derived values; cuts, parallelism and engines do not show.
"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from tests.properties import test_split_and_parallelism as fixed_times
from tests.properties.search import searched
from tests.properties.slices import events_of_union, pipeline_of, replay_pipeline, union_of
from tests.properties.test_calendar_windows import stretched
from tests.properties.test_distinct_rows import check_remembered_rows, everything
from tests.properties.test_split_and_parallelism import check_against_model, cuts_of
from tests.properties.test_windows_of_all import of_one_key

COLUMNAR, OPERATOR = ColumnarEngine(), OperatorEngine()
REPLAYS = st.one_of(fixed_times.replays(), stretched(fixed_times.replays()))


@dataclasses.dataclass(frozen=True)
class Together:
    """Which of the settings a pipeline has."""

    sources: int
    tells_apart: bool
    has_condition: bool
    of_all: bool
    purging: bool

    def pipeline(self, rules):
        pipeline = pipeline_of(rules, self.purging)
        if self.sources > 1:
            pipeline = union_of(pipeline, self.sources)
        return dataclasses.replace(
            pipeline,
            derive={"twice": "x * 2", "seventh": "abs(twice) % 7"},
            where="seventh <> 3 OR x IS NULL" if self.has_condition else None,
            distinct_by="twice" if self.tells_apart else None,
            key_by=None if self.of_all else "key",
        )

    def rows_for_the_model(self, events):
        """The events with their derived values, without those that the condition drops."""
        if self.sources > 1:
            events = events_of_union(events, self.sources)
        return [
            event._replace(
                values={
                    **event.values,
                    "twice": None if event.values["x"] is None else 2 * event.values["x"],
                },
                key="a" if self.of_all else event.key,
            )
            for event in events
            if not self.drops(event)
        ]

    def drops(self, event):
        x = event.values["x"]
        return self.has_condition and x is not None and abs(2 * x) % 7 == 3


TOGETHER = st.builds(
    Together,
    sources=st.integers(1, 3),
    tells_apart=st.booleans(),
    has_condition=st.booleans(),
    of_all=st.booleans(),
    purging=st.booleans(),
)


@given(REPLAYS, TOGETHER)
@searched(5, long=60)
def test_one_run_is_what_the_model_says_of_the_rows_that_are_left(replay, together):
    rules, events = replay
    rules = dataclasses.replace(rules, distinct_by=("twice",) if together.tells_apart else ())
    together = dataclasses.replace(together, purging=False)  # the model knows no purging
    ours = replay_pipeline(together.pipeline(rules), events, rules, [], [2], engines=(OPERATOR,))
    if together.of_all:
        ours = of_one_key(ours)
    dropped = sum(
        together.drops(event) and (event.arrival is None or rules.start <= event.arrival < rules.to)
        for event in events
    )
    assert ours.counts.get("rows_filtered", 0) == dropped
    ours.counts["rows_read"] -= dropped  # the model is not given them
    rows = together.rows_for_the_model(events)
    check_against_model(ours, rows, rules)
    if together.tells_apart:
        check_remembered_rows(ours, rows, rules)


@pytest.mark.slow
@given(REPLAYS, TOGETHER, st.data())
@searched(5, long=60)
def test_cuts_parallelism_and_engines_do_not_show(replay, together, data):
    rules, events = replay
    pipeline = together.pipeline(rules)
    once = everything(replay_pipeline(pipeline, events, rules, [], [1], engines=(COLUMNAR,)))
    cuts = data.draw(cuts_of(rules), label="cuts")
    ranges = data.draw(st.lists(st.sampled_from([1, 2, 5, 32]), min_size=1, max_size=3), label="ranges")
    file_rows = data.draw(st.sampled_from([1, 3, 1000]), label="file_rows")
    engines = data.draw(
        st.sampled_from([(COLUMNAR,), (OPERATOR,), (OPERATOR, COLUMNAR), (COLUMNAR, OPERATOR)]),
        label="engines",
    )
    in_slices = replay_pipeline(pipeline, events, rules, cuts, ranges, file_rows, engines=engines)
    assert everything(in_slices) == once
