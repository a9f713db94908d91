"""However main came to the runs of some slices, by runs, published branches, backfills or restores,
`published` holds the same rows: those of the newest firings by the order of the slices, then by firing
within a run.
"""

from dataclasses import replace
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.runs.publishing.corrections import Identity
from tests.runs.lineages import History, panes
from tests.runs.published_model import PaneRow, Published, comparable, newest_firings
from tests.runs.publishing.test_corrections import InMemory
from tests.runs.rolling import pane, roll_forward, write
from tests.runs.tables_of_panes import in_any_order, published_of

Slices = tuple[tuple[PaneRow, ...], ...]


@st.composite
def slices(draw: st.DrawFn, identity: Identity) -> Slices:
    """The panes of each slice, whoever runs it: equal rows and equal code on equal state."""
    history = History(identity)
    for _ in range(draw(st.integers(2, 4))):
        history.run("main", history.main, draw(panes(identity, history.state(history.main))))
    return tuple(row.panes for row in history.rows)


def straight(identity: Identity, slices_: Slices) -> History:
    history = History(identity)
    for panes_ in slices_:
        history.run("main", history.main, panes_)
    return history


@st.composite
def paths(draw: st.DrawFn, identity: Identity, slices_: Slices) -> History:
    """Some way to bring all slices to main, once or several times each."""
    history = History(identity)
    history.run("main", (), slices_[0])
    for number in range(draw(st.integers(1, 4))):
        main = history.main
        what = draw(st.sampled_from(["run", "restate", "restate", "restore"]))
        if what == "run" and len(main) < len(slices_):
            history.run("main", main, slices_[len(main)])
        elif what == "restate":
            first = draw(st.integers(0, len(main) - 1))
            restate(history, slices_, first, draw(st.integers(first + 1, len(slices_))), f"fix{number}")
        elif what == "restore":
            to = draw(st.sampled_from([row for row in history.rows if row.branch == "main"]))
            history.add("restore", "main", to.live, to=to.seq)
    while len(history.main) < len(slices_):
        history.run("main", history.main, slices_[len(history.main)])
    return history


def restate(history: History, slices_: Slices, first: int, last: int, branch: str) -> None:
    """Run the slices [first, last) on a branch and publish it; main's later runs stay live behind it."""
    main = history.main
    live, later = main[:first], main[last:]
    history.add("fork", branch, live)
    for panes_ in slices_[first:last]:
        live = history.run(branch, live, panes_)
    history.add("publish", "main", live + later, resume_from=later[0] if later else None)


def rolled_forward(history: History) -> list[Published]:
    """`published` of a lineage on disk."""
    with TemporaryDirectory() as root:
        rolling = replace(roll_forward(root, history.identity), portion_rows=50)
        for row in history.rows:
            write(rolling.tables, row)
        rolling.finish()
        return published_of(rolling.tables["published"].read())


def facts(identity: Identity, rows: list[PaneRow]) -> list[str]:
    """All that a reader may compare. The ordinal of a row that stands for itself follows the cuts."""
    shown = [replace(row, results=comparable(row.results)) for row in rows]
    return in_any_order([replace(row, ordinal=0) for row in shown] if identity is Identity.RUN else shown)


def wanted(identity: Identity, slices_: Slices) -> list[PaneRow]:
    if identity is Identity.RUN:
        return [row for panes_ in slices_ for row in panes_]
    return list(newest_firings(slices_, purging=identity is Identity.FIRING).values())


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("identity", list(Identity))
@settings(max_examples=15)
@given(st.data())
def test_published_is_the_same_by_any_path(identity: Identity, data: st.DataObject) -> None:
    slices_ = data.draw(slices(identity))
    for history in (straight(identity, slices_), data.draw(paths(identity, slices_))):
        found = published_of(InMemory(history).published)
        assert facts(identity, [row.pane for row in found]) == facts(identity, wanted(identity, slices_))


@pytest.mark.slow
@settings(max_examples=6)
@given(st.sampled_from([Identity.WINDOW, Identity.WINDOW, Identity.FIRING, Identity.RUN]), st.data())
def test_published_is_the_same_by_any_path_on_disk(identity: Identity, data: st.DataObject) -> None:
    slices_ = data.draw(slices(identity))
    for history in (straight(identity, slices_), data.draw(paths(identity, slices_))):
        found = rolled_forward(history)
        assert facts(identity, [row.pane for row in found]) == facts(identity, wanted(identity, slices_))


# A window that earlier releases made anew, empty, after it had been collected: its second firing is again the
# first.
BEGUN_AGAIN: Slices = ((pane(1, n=23), pane(2, "late", n=24)), (pane(1, "late", n=1),))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("identity", "left"), [(Identity.WINDOW, [(1, 1)]), (Identity.FIRING, [(1, 1), (2, 24)])]
)
@pytest.mark.parametrize("first", [None, 0, 1])
def test_a_window_that_began_again_is_what_its_last_run_says_whether_that_was_run_or_published(
    identity: Identity, left: list[tuple[int, int]], first: int | None
) -> None:
    history = straight(identity, BEGUN_AGAIN)
    if first is not None:
        restate(history, BEGUN_AGAIN, first, 2, "fix")
    found = sorted(rolled_forward(history), key=lambda row: row.pane.firing)
    assert [(row.pane.firing, row.pane.results[0]) for row in found] == left
    assert {row.run_seq for row in found} <= {1, 2}, "the restatement has changed nothing"


def test_a_window_that_began_again_is_what_its_last_run_says_after_a_restore() -> None:
    history = straight(Identity.WINDOW, BEGUN_AGAIN)
    history.add("restore", "main", (1,), to=1)
    history.add("restore", "main", (1, 2), to=2)
    [row] = rolled_forward(history)
    assert (row.pane.firing, row.pane.results[0], row.run_seq) == (1, 1, 4)
