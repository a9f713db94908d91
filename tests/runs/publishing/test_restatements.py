"""What a publish or a restore does to `published`, by hand: rows of the old lineage alone go, older ones come
back, nothing else moves.
"""

from pathlib import Path
from typing import Any

import pytest

from slackwater.runs.publishing.corrections import Identity
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.delta.folder import Folder
from tests.runs.lineages import History
from tests.runs.published_model import PaneRow
from tests.runs.rolling import pane, roll_forward, write
from tests.tables.ledger.ledger_rows import day


@pytest.fixture
def rolling(tmp_path: Path) -> RollForward:
    return roll_forward(tmp_path)


class Past:
    """A history that is written to the ledger as it grows."""

    def __init__(self, rolling: RollForward) -> None:
        self.history = History(Identity.WINDOW)
        self.rolling = rolling

    def main(self, *panes: PaneRow) -> None:
        self.history.run("main", self.history.main, panes)
        self._write()

    def restate(self, keep: int, *runs: list[PaneRow], resume: bool = False) -> None:
        """Fork behind the first `keep` live runs, replay `runs` on the branch, and publish it."""
        live, later = self.history.main[:keep], self.history.main[keep + len(runs) :]
        self.history.add("fork", "fix", live)
        self._write()
        for panes in runs:
            live = self.history.run("fix", live, panes)
            self._write()
        self.history.add(
            "publish", "main", live + later if resume else live, resume_from=later[0] if resume else None
        )
        self._write()

    def restore(self, to: int) -> None:
        self.history.add("restore", "main", self.history.rows[to - 1].live, to=to)
        self._write()

    def _write(self) -> None:
        write(self.rolling.tables, self.history.rows[-1])


@pytest.fixture
def past(rolling: RollForward) -> Past:
    return Past(rolling)


def changes(rolling: RollForward, since: int) -> list[tuple[Any, ...]]:
    """(seq, day, op, cause, kind, firing, revision, old n, new n) of every correction after `since`."""
    rows = (
        rolling.tables["corrections"]
        .read()
        .sort_by([("seq", "ascending"), ("window_start", "ascending")])
        .to_pylist()
    )
    names = ("op", "cause", "kind", "firing", "revision")
    return [
        (
            row["seq"],
            row["window_start"].day,
            *(row[name] for name in names),
            *(row[side] and row[side]["n"] for side in ("old", "new")),
        )
        for row in rows
        if row["seq"] > since
    ]


def standing(rolling: RollForward) -> list[tuple[int, int, int | None]]:
    """(day, firing, n) of every published row."""
    rows = rolling.tables["published"].read().sort_by("window_start").to_pylist()
    return [(row["window_start"].day, row["firing"], row["n"]) for row in rows]


def on(number: int, firing: int = 1, kind: str = "on_time", n: int = 1) -> PaneRow:
    """The pane of a window of the n-th of January."""
    return pane(firing, kind, n, start=day(number - 1))


def test_a_window_that_only_the_old_lineage_had_is_withdrawn(rolling: RollForward, past: Past) -> None:
    past.main(on(1))
    past.main(on(2, n=20), on(3, n=30))
    past.restate(1, [on(3, n=30)])
    rolling.finish()
    assert changes(rolling, 2) == [(5, 2, "withdraw", "restatement", "on_time", 1, 2, 20, None)]
    assert standing(rolling) == [(1, 1, 1), (3, 1, 30)]


def test_a_window_that_was_refired_only_in_the_old_lineage_is_again_what_it_was_before(
    rolling: RollForward, past: Past
) -> None:
    past.main(on(1, n=10))
    past.main(on(1, 2, "late", n=11))
    past.main(on(1, 3, "late", n=12))
    past.restate(1, [], [])
    rolling.finish()
    assert changes(rolling, 3) == [(7, 1, "update", "restatement", "on_time", 1, 4, 12, 10)]
    assert standing(rolling) == [(1, 1, 10)]


def test_a_firing_of_a_run_that_stays_live_behind_the_branch_stays_the_newest(
    rolling: RollForward, past: Past
) -> None:
    past.main(on(1, n=10))
    past.main(on(1, 2, "late", n=11), on(2, n=20))
    past.main(on(1, 3, "late", n=12))
    past.restate(1, [on(1, 2, "late", n=99), on(2, n=21)], resume=True)
    rolling.finish()
    assert changes(rolling, 3) == [(6, 2, "update", "restatement", "on_time", 1, 2, 20, 21)]
    assert standing(rolling) == [(1, 3, 12), (2, 1, 21)]


def test_a_restatement_that_changes_nothing_makes_no_correction(rolling: RollForward, past: Past) -> None:
    past.main(on(1))
    past.main(on(2))
    past.restate(0, [on(1)], [on(2)])
    rolling.finish()
    assert changes(rolling, 2) == []
    assert rolling.pending() == []


def test_a_restore_undoes_what_came_after_and_undoing_that_brings_it_back(
    rolling: RollForward, past: Past
) -> None:
    past.main(on(1, n=10))
    past.main(on(1, 2, "late", n=11), on(2, n=20))
    past.restore(1)
    past.restore(2)
    rolling.finish()
    assert changes(rolling, 2) == [
        (3, 1, "update", "restore", "on_time", 1, 3, 11, 10),
        (3, 2, "withdraw", "restore", "on_time", 1, 2, 20, None),
        (4, 1, "update", "restore", "late", 2, 4, 10, 11),
        (4, 2, "insert", "restore", "on_time", 1, 1, None, 20),
    ]


def test_a_session_absorbed_in_the_new_lineage_is_withdrawn_and_one_absorbed_only_in_the_old_comes_back(
    rolling: RollForward, past: Past
) -> None:
    past.main(on(1, n=10), on(2, n=20))
    past.main(on(1, 2, "withdrawn"))
    past.restate(1, [on(2, 2, "withdrawn")])
    rolling.finish()
    assert changes(rolling, 2) == [
        (5, 1, "insert", "restatement", "on_time", 1, 1, None, 10),
        (5, 2, "withdraw", "restatement", "withdrawn", 2, 2, 20, None),
    ]


def test_a_run_after_a_restatement_continues_what_is_live(rolling: RollForward, past: Past) -> None:
    past.main(on(1, n=10))
    past.main(on(1, 2, "late", n=11))
    past.restate(1, [])
    past.main(on(1, 2, "late", n=15))
    rolling.finish()
    assert changes(rolling, 5) == [(6, 1, "update", "late", "late", 2, 4, 10, 15)]


def test_days_that_no_run_of_the_change_touches_are_not_rewritten(rolling: RollForward, past: Past) -> None:
    past.main(on(1), on(9))
    past.main(on(2, n=20))
    rolling.finish()
    before = {path for path in rolling.tables["published"].files().paths if "2013-01-02" not in path}
    past.restate(1, [on(2, n=21)])
    rolling.finish()
    assert len(before) == 2 and before <= set(rolling.tables["published"].files().paths)


class Killed(Exception):
    pass


def test_a_restatement_killed_between_its_two_commits_is_finished_by_whoever_comes_next(
    rolling: RollForward, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    past.main(on(1, n=10))
    past.main(on(1, 2, "late", n=11), on(2, n=20))
    rolling.finish()
    past.restate(1, [on(2, n=22)])

    commit_files = Folder.commit_files

    def dying(folder: Folder, *arguments: Any, **named: Any) -> None:
        if folder.name == "published":
            raise Killed
        commit_files(folder, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "commit_files", dying)
        with pytest.raises(Killed):
            rolling.finish()
    corrections = changes(rolling, 2)
    assert standing(rolling) == [(1, 2, 11), (2, 1, 20)]  # as of the run before, wholly
    past.main(on(2, 2, "late", n=23))
    assert [row.seq for row in rolling.finish()] == [5, 6]
    assert changes(rolling, 2)[: len(corrections)] == corrections
    assert standing(rolling) == [(1, 1, 10), (2, 2, 23)]
