"""Branches on the ledger: what a fork, a publish, a restore and a drop make live, against lists in plain
Python.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import LostRaceError
from slackwater.tables.ledger.lineage_rows import (
    BadBranchName,
    cause_of,
    check_branch_name,
    drop_row,
    fork_row,
    publish_row,
    restore_row,
)
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.ledger.spans import Span, seqs_of
from slackwater.tables.ledger.writer import LedgerWriter
from tests.racing import race
from tests.tables.ledger.ledger_rows import START, clock, day, ledger_folder, run_row


def head_of(ledger: LedgerWriter, branch: str = MAIN) -> LedgerRow:
    head = ledger.head(branch)
    assert head is not None
    return head


def run(ledger: LedgerWriter, branch: str = MAIN, days: int = 1) -> list[LedgerRow]:
    """Run the next slices of a branch, a day each."""
    head = ledger.head(branch)
    first = 0 if head is None else len(seqs_of(head.live))
    rows = [
        run_row(f"{branch}-{number}", day_number=number, state_hash=f"state-{number}")
        for number in range(first, first + days)
    ]
    return ledger.commit(branch, None if head is None else head.seq, rows, clock)


def fork(ledger: LedgerWriter, branch: str, at: int | None) -> LedgerRow:
    """Fork from main behind the run `at`."""
    head, before = head_of(ledger), ledger.head(branch)
    row = fork_row(branch, head, None if at is None else ledger.row(at), ledger.start_of(head))
    [bound] = ledger.commit(branch, None if before is None else before.seq, [row], clock)
    return bound


def publish(ledger: LedgerWriter, name: str, resume_from: int | None = None) -> LedgerRow:
    head, branch = head_of(ledger), ledger.branch(name)
    assert branch is not None
    owner = ledger.snapshot_owner(branch.head if resume_from is None else head)
    assert owner is not None
    row = publish_row(head, branch, owner, (day(0), day(1)), resume_from)
    [bound] = ledger.commit(MAIN, head.seq, [row], clock, other_heads={name: branch.head.seq})
    return bound


def restore(ledger: LedgerWriter, seq: int) -> LedgerRow:
    head, to = head_of(ledger), ledger.row(seq)
    [bound] = ledger.commit(
        MAIN, head.seq, [restore_row(head, to, ledger.snapshot_owner(to), ledger.start_of(to))], clock
    )
    return bound


def drop(ledger: LedgerWriter, name: str) -> LedgerRow:
    branch = ledger.branch(name)
    assert branch is not None
    [bound] = ledger.commit(name, branch.head.seq, [drop_row(branch)], clock)
    return bound


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerWriter:
    return LedgerWriter(ledger_folder(tmp_path))


class TestByHand:
    def test_a_restated_day_takes_the_place_of_its_first_run_and_main_resumes_behind_it(
        self, ledger: LedgerWriter
    ) -> None:
        run(ledger, days=4)
        forked = fork(ledger, "fix", 1)
        assert (forked.seq, forked.parent_seq, forked.live) == (5, 1, (Span(1, 1),))
        assert (forked.slice_start, forked.slice_end, forked.state_hash) == (START, day(1), "state-0")
        [rerun] = run(ledger, "fix")
        assert (rerun.seq, rerun.parent_seq, rerun.live) == (6, 5, (Span(1, 1), Span(6, 6)))
        row_of_publish = publish(ledger, "fix", resume_from=3)
        assert (row_of_publish.seq, row_of_publish.parent_seq, row_of_publish.live) == (
            7,
            4,
            (Span(1, 1), Span(6, 6), Span(3, 4)),
        )
        assert row_of_publish.state_hash == "state-3" and row_of_publish.rows_read == 0
        assert [row.seq for row in ledger.live_runs(head_of(ledger))] == [1, 6, 3, 4]
        assert ledger.snapshot_owner(row_of_publish) == ledger.row(4)
        [later] = run(ledger)
        assert later.live == (Span(1, 1), Span(6, 6), Span(3, 4), Span(8, 8))
        assert [ledger.row(seq).is_live_in(later) for seq in (1, 2, 3, 4, 5, 6, 7, 8)] == [
            True,
            False,
            True,
            True,
            False,
            True,
            False,
            True,
        ]

    def test_a_branch_that_did_not_converge_replaces_all_that_came_after_its_fork(
        self, ledger: LedgerWriter
    ) -> None:
        run(ledger, days=3)
        fork(ledger, "fix", 1)
        run(ledger, "fix", days=2)
        row_of_publish = publish(ledger, "fix")
        assert row_of_publish.live == (Span(1, 1), Span(5, 6))
        assert ledger.snapshot_owner(row_of_publish) == ledger.row(6)

    def test_a_branch_may_begin_where_the_lineage_does(self, ledger: LedgerWriter) -> None:
        run(ledger, days=2)
        forked = fork(ledger, "anew", None)
        assert (forked.live, forked.parent_seq, forked.slice_start, forked.slice_end) == ((), 2, START, START)
        assert ledger.snapshot_owner(forked) is None and ledger.live_runs(forked) == []
        assert ledger.start_of(forked) == START
        [first] = run(ledger, "anew")
        assert first.live == (Span(4, 4),)

    def test_restore_makes_live_what_was_live_then(self, ledger: LedgerWriter) -> None:
        run(ledger, days=3)
        fork(ledger, "fix", 1)
        run(ledger, "fix", days=2)
        publish(ledger, "fix")
        row_of_restore = restore(ledger, 2)
        assert (
            row_of_restore.seq,
            row_of_restore.parent_seq,
            row_of_restore.live,
            row_of_restore.slice_end,
        ) == (
            8,
            7,
            (Span(1, 2),),
            day(2),
        )
        [later] = run(ledger)
        assert later.live == (Span(1, 2), Span(9, 9)) and later.slice_start == day(2)
        assert restore(ledger, 7).live == (Span(1, 1), Span(5, 6))

    def test_a_close_is_live_as_a_run_is(self, ledger: LedgerWriter) -> None:
        run(ledger, days=2)
        [row_of_close] = ledger.commit(MAIN, 2, [run_row("close", kind="close")], clock)
        assert row_of_close.live == (Span(1, 3),)
        assert [row.kind for row in ledger.live_runs(row_of_close)] == ["run", "run", "close"]
        assert restore(ledger, 2).live == (Span(1, 2),)

    def test_a_dropped_branch_is_gone_and_its_name_is_free(self, ledger: LedgerWriter) -> None:
        run(ledger, days=2)
        for name in ("one", "two"):
            fork(ledger, name, 1)
        run(ledger, "one")
        assert [(branch.name, branch.own_seqs) for branch in ledger.branches()] == [
            ("one", (5,)),
            ("two", ()),
        ]
        row_of_drop = drop(ledger, "one")
        assert (row_of_drop.live, row_of_drop.parent_seq) == ((), 5)
        assert ledger.branch("one") is None and [branch.name for branch in ledger.branches()] == ["two"]
        second_fork = fork(ledger, "one", 2)
        result = ledger.branch("one")
        assert result is not None and (result.fork, result.own_seqs) == (second_fork, ())
        assert [branch.name for branch in ledger.branches()] == ["two", "one"]

    def test_there_is_no_branch_before_its_fork_and_main_is_none(self, ledger: LedgerWriter) -> None:
        run(ledger)
        assert ledger.branch("fix") is None and ledger.branch(MAIN) is None and ledger.branches() == []

    def test_live_runs_since_a_time_are_those_that_end_after_it(self, ledger: LedgerWriter) -> None:
        run(ledger, days=4)
        assert [row.seq for row in ledger.live_runs(head_of(ledger), since=day(2))] == [3, 4]
        assert ledger.live_runs(head_of(ledger), since=day(4)) == []

    @pytest.mark.parametrize("name", ["main", "", "Fix", "1", "a b", "-a", "x" * 64, "ä"])
    def test_a_branch_has_a_plain_name(self, name: str) -> None:
        with pytest.raises(BadBranchName, match="can't name a branch"):
            check_branch_name(name)


class TestWhoMovesABranch:
    def test_a_branch_that_moved_while_it_was_published_is_not(self, ledger: LedgerWriter) -> None:
        run(ledger, days=2)
        fork(ledger, "fix", 1)
        run(ledger, "fix")
        branch, head = ledger.branch("fix"), head_of(ledger)
        assert branch is not None
        row = publish_row(head, branch, branch.head, (day(1), day(2)))
        drop(ledger, "fix")
        with pytest.raises(LostRaceError, match="the head of fix is 5, this run started from 4"):
            ledger.commit(MAIN, head.seq, [row], clock, other_heads={"fix": branch.head.seq})
        assert head_of(ledger) == head

    def test_of_two_forks_of_one_name_one_wins(self, ledger: LedgerWriter, tmp_path: Path) -> None:
        run(ledger)
        assert sorted(race(tmp_path, fork_from_a_process, str(tmp_path))) == ["LostRaceError", "fork 2"]


def fork_from_a_process(root: str) -> str:
    ledger = LedgerWriter(ledger_folder(Path(root)))
    head = head_of(ledger)
    try:
        [row] = ledger.commit("fix", None, [fork_row("fix", head, head, ledger.start_of(head))], clock)
    except LostRaceError as error:
        return type(error).__name__
    return f"{row.kind} {row.seq}"


class TestReadingLittle:
    def test_a_head_is_found_though_another_branch_has_moved_for_long(self, ledger: LedgerWriter) -> None:
        """Of all files only the newest of its own is left, and the newest seq comes from the statistics."""
        name = "a" * 63
        run(ledger, days=3)
        fork(ledger, name, 2)
        for _ in range(4):
            run(ledger, name)
        keep_files(ledger, {3, 8})
        assert (head_of(ledger).seq, head_of(ledger, name).seq) == (3, 8)
        assert run(ledger)[0].seq == 9

    def test_live_runs_read_no_files_of_other_branches(self, ledger: LedgerWriter) -> None:
        run(ledger)
        fork(ledger, "fix", 1)
        run(ledger, "fix")
        run(ledger)
        keep_files(ledger, {1, 4})
        assert [row.seq for row in ledger.live_runs(head_of(ledger))] == [1, 4]

    def test_rows_in_any_order_of_files_have_the_same_heads(self, ledger: LedgerWriter) -> None:
        """As compaction may leave them: files whose ranges overlap."""
        run(ledger, days=2)
        fork(ledger, "fix", 1)
        run(ledger, "fix")
        run(ledger)
        rows = ledger.folder.read().sort_by("seq")
        heads = {branch: head_of(ledger, branch) for branch in (MAIN, "fix")}
        ledger.folder.open().as_delta_rs().delete()
        for part in ([0, 4], [1, 2], [3]):
            ledger.folder.append(rows.take(pa.array(part)))
        assert {branch: head_of(ledger, branch) for branch in heads} == heads
        assert run(ledger)[0].seq == 6


def keep_files(ledger: LedgerWriter, greatest: set[int]) -> None:
    """Remove every file of the ledger but those whose newest row is one of `greatest`."""
    files = pa.table(DeltaTable(ledger.folder.uri).get_add_actions(flatten=True))
    for path, seq in zip(files["path"].to_pylist(), files["max.seq"].to_pylist(), strict=True):
        if seq not in greatest:
            (Path(ledger.folder.uri) / path).unlink()


@dataclass
class Model:
    """The lineage as lists of seqs."""

    live: dict[str, list[int]] = field(default_factory=lambda: {MAIN: []})
    after: list[list[int]] = field(default_factory=list)  # what is live in the branch of each row, after it
    forked: dict[str, int] = field(default_factory=dict)  # how many runs each open branch began with

    def note(self, branch: str, live: list[int]) -> None:
        self.live[branch] = live
        self.after.append(live)


@settings(max_examples=20)
@given(st.data())
def test_live_runs_are_those_of_a_model_of_lists(data: st.DataObject) -> None:
    with TemporaryDirectory() as root:
        ledger, model = LedgerWriter(ledger_folder(Path(root))), Model()
        run(ledger)
        model.note(MAIN, [1])
        for _ in range(data.draw(st.integers(0, 10))):
            do_something(ledger, model, data)
        rows = ledger.rows()
        assert [row.seq for row in rows] == list(range(1, len(model.after) + 1))
        assert [list(seqs_of(row.live)) for row in rows] == model.after
        assert {branch.name: branch.own_seqs for branch in ledger.branches()} == {
            name: tuple(model.live[name][count:]) for name, count in model.forked.items()
        }
        for name, live in model.live.items():
            head = head_of(ledger, name)
            assert [row.seq for row in ledger.live_runs(head)] == live
            owner = ledger.snapshot_owner(head)
            assert (None if owner is None else owner.seq) == (live[-1] if live else None)


def do_something(ledger: LedgerWriter, model: Model, data: st.DataObject) -> None:
    what = data.draw(st.sampled_from(["run", "run", "fork", "publish", "restore", "drop"]))
    seq = len(model.after) + 1
    main = model.live[MAIN]
    if what == "run":
        branch, days = data.draw(st.sampled_from([MAIN, *model.forked])), data.draw(st.integers(1, 2))
        run(ledger, branch, days)
        for number in range(days):
            model.note(branch, [*model.live[branch], seq + number])
    elif what == "fork" and len(model.forked) < 3:
        name = data.draw(st.sampled_from([name for name in "abc" if name not in model.forked]))
        keep = data.draw(st.integers(0, len(main)))
        fork(ledger, name, main[keep - 1] if keep else None)
        model.note(name, main[:keep])
        model.forked[name] = keep
    elif what == "restore":
        to = data.draw(st.integers(1, seq - 1).filter(lambda to: model.after[to - 1]))
        restore(ledger, to)
        model.note(MAIN, model.after[to - 1])
    elif what in ("publish", "drop") and model.forked:
        name = data.draw(st.sampled_from(sorted(model.forked)))
        if what == "drop":
            drop(ledger, name)
            model.note(name, [])
            del model.forked[name]
        elif model.live[name]:
            behind = [seq for seq in main if seq not in model.live[name]]
            resume = data.draw(st.sampled_from([None, *behind]))
            publish(ledger, name, resume)
            model.note(MAIN, model.live[name] + ([] if resume is None else main[main.index(resume) :]))


def test_a_row_that_is_no_run_has_the_cause_of_its_corrections(ledger: LedgerWriter) -> None:
    run(ledger, days=2)
    fork(ledger, "redrive-by-name-alone", 1)
    [tip] = run(ledger, "redrive-by-name-alone")
    head, branch = head_of(ledger), ledger.branch("redrive-by-name-alone")
    assert branch is not None
    publish_rows = [
        publish_row(head, branch, tip, (day(1), day(2)), redrives=redrives) for redrives in (False, True)
    ]
    result = [cause_of(row) for row in (*publish_rows, restore(ledger, 1), branch.fork, tip)]
    assert result == ["restatement", "redrive", "restore", None, None]


def test_sums_over_the_ledger_count_no_run_twice(ledger: LedgerWriter) -> None:
    head = None
    for number in range(2):
        row = replace(run_row(f"r{number}", day_number=number), rows_read=10, windows_open=3)
        [head] = ledger.commit(MAIN, None if head is None else head.seq, [row], clock)
    row_of_restore = restore(ledger, 1)
    assert (row_of_restore.rows_read, row_of_restore.windows_open) == (0, 3)
    assert sum(row.rows_read for row in ledger.rows()) == 20
