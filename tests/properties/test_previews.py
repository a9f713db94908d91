"""What a preview of a restatement shows is, to the row, what its publication changes, or the publication is
refused: after random late rows, redrives and restatements, with more runs in between.
"""

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.runs.lineage.moves import NoBranch
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.publish_branch import (
    BranchBehind,
    BranchPublisher,
    ChangedSinceShown,
    ForkedFromAnotherPast,
)
from tests.properties.test_redrives import SLICE, Histories, delayed_rows
from tests.runs.world import moment, ms

keys = st.sampled_from(["a", "b", "c", None])
steps_before = st.lists(
    st.one_of(
        st.tuples(st.just("run"), delayed_rows),
        st.tuples(st.just("redrive"), keys),
        st.tuples(st.just("restate"), st.integers(0, 3), st.integers(1, 2)),
    ),
    max_size=4,
)
steps_between = st.lists(
    st.one_of(
        st.tuples(st.just("run"), delayed_rows),
        st.tuples(st.just("redrive"), keys),
        st.tuples(st.just("restate"), st.integers(0, 3), st.integers(1, 2)),
        st.tuples(st.just("looked again")),
    ),
    max_size=2,
)
Rows = dict[tuple[str, Any], tuple[Any, ...]]


class Preview:
    """The preview of a restatement of [first, last), in slices, with what it has shown."""

    def __init__(self, history: Histories, first: int, last: int) -> None:
        self.history, self.world = history, history.world
        assert self.world.backfill(first * SLICE, last * SLICE, publish=False) is None
        self.model = deepcopy(history.model)
        self.model.restate(ms(first * SLICE))
        [branch] = self.world.ledger.branches()
        self.name = branch.name
        self.look()
        self.as_of: int | None = None  # nobody need say as of when

    @property
    def is_there(self) -> bool:
        return self.world.ledger.branch(self.name) is not None

    def publisher(self) -> BranchPublisher:
        runner = self.world.runner()
        rolling = RollForward.of(self.world.pipeline, runner.tables, runner.shape)
        return BranchPublisher(self.world.pipeline, self.world.warehouse, runner.tables, rolling)

    def look(self) -> None:
        """As `diff --branch` does."""
        publisher = self.publisher()
        publication = publisher.publication_of(self.name)
        assert publication is not None
        changes = PublishedChanges.of_branch(publisher, publication, limit=None)
        self.shown = {
            (row["k"], row["window_start"]): (_values(row["old"]), _values(row["new"]))
            for row in changes.rows
        }
        self.as_of, self.seen_head, self.obstacle = (
            publication.as_of,
            self.world.main.seq,
            publication.obstacle,
        )

    def publish(self) -> None:
        before = published(self.world.table("published").read().to_pylist())
        if self.world.main.seq != self.seen_head or self.obstacle is not None:
            with pytest.raises((ChangedSinceShown, BranchBehind, ForkedFromAnotherPast)):
                self.publisher().publish_as_it_is(self.name, self.as_of)
            assert published(self.world.table("published").read().to_pylist()) == before
            return
        assert self.publisher().publish_as_it_is(self.name, self.as_of) is not None
        after = published(self.world.table("published").read().to_pylist())
        changed = {window for window in {**before, **after} if before.get(window) != after.get(window)}
        assert changed == set(self.shown)
        for window, (old, new) in self.shown.items():
            assert (_results(before.get(window)), _results(after.get(window))) == (old, new)
        self.history.model.arrivals |= self.model.arrivals
        self.history.check()


def published(rows: list[dict[str, Any]]) -> Rows:
    """Window → what a publication may change of it."""
    return {
        (row["k"], row["window_start"]): (row["n"], row["total"], row["kind"], row["firing"]) for row in rows
    }


def _values(results: dict[str, Any] | None) -> tuple[Any, ...] | None:
    return None if results is None else (results["n"], results["total"])


def _results(row: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if row is None else row[:2]


def do(history: Histories, step: Any) -> None:
    match step:
        case ("run", rows):
            history.run(rows)
        case ("redrive", key):
            history.redrive(key)
        case ("restate", first, width) if first < history.slices:
            history.restate(first * SLICE, (first + width) * SLICE)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(delayed_rows, steps_before, st.integers(0, 3), st.integers(1, 2), steps_between)
def test_a_publication_changes_the_rows_that_its_preview_has_shown_or_is_refused(
    delayed: list[Any], before: list[Any], first: int, width: int, between: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = Histories(Path(folder))
        for rows in ((), (), (), delayed):
            history.run(rows)
        for step in before:
            do(history, step)
        preview = Preview(history, first, first + width)
        for step in between:
            if step == ("looked again",):
                try:
                    preview.look()
                except ForkedFromAnotherPast:
                    return
            else:
                begins_alike = step[:2] == ("restate", first)  # up to main's end it may be the same range
                try:
                    do(history, step)
                except ChangedSinceShown:
                    assert begins_alike, "it has gone on with the branch of the preview"
                    return
                if begins_alike and not preview.is_there:
                    with pytest.raises(NoBranch):  # the same range without --preview has published it
                        preview.look()
                    return
        preview.publish()


@pytest.mark.slow
def test_what_convergence_needs_behind_the_range_is_part_of_the_preview(tmp_path: Path) -> None:
    history = Histories(tmp_path)
    history.run()
    history.run()
    history.run([(8, 2, "a")])
    history.run()
    history.redrive(None)
    preview = Preview(history, 0, 1)
    assert set(preview.shown) == {("a", moment(2))}, "its row has come in the third slice"
    preview.publish()
