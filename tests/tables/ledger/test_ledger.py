"""The ledger has seqs without gaps over all branches, the right live spans, and one winner whenever two
commit at once. Covers `reader`, `writer` and `rows`.
"""

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import LostRaceError
from slackwater.tables import schemas
from slackwater.tables.errors import DamagedFile, EarlierFormat, NewerFormat, NoRuns
from slackwater.tables.ledger.erasures import ErasedRows
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.ledger.spans import Span
from slackwater.tables.ledger.writer import LedgerWriter, bind_rows
from slackwater.windowing.times import to_ms
from tests.racing import race
from tests.tables.ledger.ledger_rows import clock, day, ledger_folder, run_row


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerWriter:
    return LedgerWriter(ledger_folder(tmp_path))


def commit(ledger: LedgerWriter, branch: str, *run_ids: str) -> list[LedgerRow]:
    head = ledger.head(branch)
    return ledger.commit(
        branch,
        None if head is None else head.seq,
        [run_row(run_id, branch=branch) for run_id in run_ids],
        clock,
    )


def test_an_empty_ledger_has_no_head_and_no_rows(ledger: LedgerWriter) -> None:
    assert ledger.head() is None
    assert ledger.rows() == []
    ledger.folder.ensure()
    assert ledger.head() is None
    assert ledger.by_run_id("a") is None
    with pytest.raises(NoRuns, match="no row 1; `slackwater runs` lists"):
        ledger.row(1)


def test_rows_are_bound_in_order_and_each_continues_the_one_before(ledger: LedgerWriter) -> None:
    commit(ledger, "main", "a")
    bound = commit(ledger, "main", "b", "c")
    assert [(row.seq, row.run_id, row.parent_seq, row.live) for row in bound] == [
        (2, "b", 1, (Span(1, 2),)),
        (3, "c", 2, (Span(1, 3),)),
    ]
    assert all(row.committed_at == clock() for row in bound)
    assert ledger.rows() == [*ledger.rows(until=1), *bound]
    assert ledger.head() == bound[-1]
    assert (ledger.row(2), ledger.by_run_id("c"), ledger.by_run_id("d")) == (*bound, None)


def test_several_rows_make_one_commit(ledger: LedgerWriter) -> None:
    version = ledger.folder.ensure().version()
    commit(ledger, "main", "a", "b", "c")
    assert ledger.folder.open().version() == version + 1


def test_seqs_are_unique_over_branches_and_a_span_covers_rows_of_its_own_branch_alone(
    ledger: LedgerWriter,
) -> None:
    for branch, run_id in [
        ("main", "m1"),
        ("main", "m2"),
        ("fix", "f1"),
        ("main", "m3"),
        ("fix", "f2"),
        ("fix", "f3"),
        ("main", "m4"),
    ]:
        commit(ledger, branch, run_id)
    main, fix = ledger.head("main"), ledger.head("fix")
    assert main is not None and fix is not None
    assert (main.seq, main.run_id, main.parent_seq, main.live) == (
        7,
        "m4",
        4,
        (Span(1, 2), Span(4, 4), Span(7, 7)),
    )
    assert (fix.seq, fix.run_id, fix.parent_seq, fix.live) == (6, "f3", 5, (Span(3, 3), Span(5, 6)))
    assert [row.run_id for row in ledger.live_runs(main)] == ["m1", "m2", "m3", "m4"]
    assert [row.run_id for row in ledger.live_runs(fix)] == ["f1", "f2", "f3"]
    assert ledger.head("other") is None


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["main", "a", "b"]), st.integers(1, 3)), max_size=12))
def test_live_spans_are_exactly_the_rows_of_the_branch(commits: list[tuple[str, int]]) -> None:
    heads: dict[str, LedgerRow | None] = {"main": None, "a": None, "b": None}
    rows: list[LedgerRow] = []
    for branch, count in commits:
        bound = bind_rows(branch, [run_row("r", branch=branch)] * count, heads[branch], len(rows), clock())
        rows += bound
        heads[branch] = bound[-1]
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    for branch, head in heads.items():
        rows_of_branch = [row for row in rows if row.branch == branch]
        assert [row.parent_seq for row in rows_of_branch] == [None, *(row.seq for row in rows_of_branch)][
            : len(rows_of_branch)
        ]
        if head is not None:
            assert [seq for span in head.live for seq in range(span.first_seq, span.last_seq + 1)] == [
                row.seq for row in rows_of_branch
            ]
            assert [row for row in rows if row.is_live_in(head)] == rows_of_branch
            assert all(
                before.last_seq + 1 < after.first_seq
                for before, after in zip(head.live, head.live[1:], strict=False)
            )


def test_live_runs_are_in_slice_order_and_leave_out_rows_that_ran_nothing(ledger: LedgerWriter) -> None:
    commit(ledger, "main", "m1", "m2", "m3")
    commit(ledger, "fix", "f2")
    publish = replace(run_row("p", kind="publish"), seq=5, live=(Span(1, 1), Span(4, 4), Span(3, 3)))
    ledger.folder.append(row_table(publish))
    assert [row.run_id for row in ledger.live_runs(publish)] == ["m1", "f2", "m3"]
    assert ledger.snapshot_owner(publish).run_id == "m3"
    [later] = commit(ledger, "main", "m6")
    assert later.live == (Span(1, 1), Span(4, 4), Span(3, 3), Span(6, 6))
    assert ledger.snapshot_owner(later) == later


def test_live_runs_are_a_sequence_of_rows_with_columns(ledger: LedgerWriter) -> None:
    rows = [*commit(ledger, "main", "m1", "m2", "m3"), *commit(ledger, "main", "m4")]
    live = ledger.live_runs(rows[-1])
    assert live == rows and live[1:3] == rows[1:3] and live[-1] == rows[-1]
    assert live.where(np.array([True, False, False, True])) == [rows[0], rows[3]]
    assert live.column("run_id").to_pylist() == ["m1", "m2", "m3", "m4"]
    assert live.times_ms("slice_end").tolist() == [to_ms(row.slice_end) for row in rows if row.slice_end]
    with pytest.raises(IndexError):
        _ = live[4]


def test_values_of_live_runs_are_those_of_their_rows_and_come_from_the_log_where_it_has_them(
    ledger: LedgerWriter,
) -> None:
    """The log has the first 32 characters of a text, and nothing of a file with several rows or a null."""
    columns = ("run_id", "slice_end", "watermark_out", "config_hash", "windows_open")
    config_hash, watermark = "c" * 64, datetime(2013, 1, 1, 5, 4, 3, 2_000, UTC)
    row = run_row("a", watermark_out=watermark, config_hash=config_hash, windows_open=7)
    of_long_id, of_other_id, without_watermark = (
        replace(row, **changes)
        for changes in ({"run_id": "b" * 40}, {"run_id": "c"}, {"watermark_out": None})
    )
    for rows in ([row], [of_long_id], [of_other_id, replace(of_other_id, run_id="d")], [without_watermark]):
        head = ledger.head()
        ledger.commit("main", None if head is None else head.seq, rows, clock)
    commit(ledger, "fix", "f")
    head = ledger.head()

    def assert_values_are_those_of_rows() -> None:
        expected = [tuple(getattr(row, name) for name in columns) for row in ledger.live_runs(head)]
        assert ledger.live_values(head, *columns) == expected
        assert len(expected) == 5
        cut = ledger.live_values(head, *columns, prefixes=("config_hash",))
        assert [(*row[:3], config_hash, row[4]) for row in cut] == expected
        assert all(config_hash.startswith(row[3]) for row in cut)

    assert_values_are_those_of_rows()
    erased = (ErasedRows(table="window_state", run_id="a", rows=2),)
    [erasure] = ledger.commit("main", head.seq, [run_row("e", kind="erase", erased=erased)], clock)
    head = replace(erasure, live=head.live)
    assert ledger.live_runs(head)[0].windows_open == 5
    assert_values_are_those_of_rows()


def test_a_file_of_which_the_log_has_all_values_is_not_opened(ledger: LedgerWriter) -> None:
    commit(ledger, "main", "a")
    [head] = commit(ledger, "main", "b")
    for path in ledger.folder.files().paths:
        (Path(ledger.folder.uri) / path).unlink()
    assert ledger.live_values(head, "run_id", "seq") == [("a", 1), ("b", 2)]
    with pytest.raises(DamagedFile):
        ledger.live_values(head, "run_id", "verdict")


def row_table(*rows: LedgerRow) -> pa.Table:
    """Rows as the ledger stores them."""
    values = []
    for row in rows:
        columns = {name: getattr(row, name) for name, _ in schemas.RUNS}
        columns["live"] = [{"first_seq": span.first_seq, "last_seq": span.last_seq} for span in row.live]
        columns["inputs"] = [vars(item) for item in row.inputs]
        values.append(columns)
    return pa.Table.from_pylist(values, schema=pa.schema(list(schemas.RUNS)))


class TestWhoCommitsFirst:
    def test_a_run_from_an_old_head_changes_nothing(self, ledger: LedgerWriter) -> None:
        commit(ledger, "main", "a", "b")
        for parent in (None, 1, 3):
            with pytest.raises(
                LostRaceError,
                match=f"the head of main is 2, this run started from {parent}.*run the same command again",
            ) as raised_error:
                ledger.commit("main", parent, [run_row("late")], clock)
            assert (raised_error.value.head, raised_error.value.parent) == (2, parent)  # type: ignore[attr-defined]
        assert [row.run_id for row in ledger.rows()] == ["a", "b"]

    def test_a_commit_to_another_branch_in_between_is_not_a_lost_race(
        self, ledger: LedgerWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other commit lands after the head was looked up and before the append."""
        [first] = commit(ledger, "main", "a")
        meddling_steps: Iterator[None] = iter([None])

        def meddling_clock() -> datetime:
            for _ in meddling_steps:
                commit(LedgerWriter(ledger.folder), "fix", "f")
            return clock()

        [bound] = ledger.commit("main", first.seq, [run_row("b")], meddling_clock)
        assert (bound.seq, bound.parent_seq, bound.live) == (3, 1, (Span(1, 1), Span(3, 3)))
        assert [row.run_id for row in ledger.rows()] == ["a", "f", "b"]

    def test_a_commit_to_the_same_branch_in_between_is(self, ledger: LedgerWriter) -> None:
        meddling_steps: Iterator[None] = iter([None])

        def meddling_clock() -> datetime:
            for _ in meddling_steps:
                commit(LedgerWriter(ledger.folder), "main", "first")
            return clock()

        with pytest.raises(LostRaceError, match="the head of main is 1, this run started from None"):
            ledger.commit("main", None, [run_row("second")], meddling_clock)
        assert [row.run_id for row in ledger.rows()] == ["first"]

    def test_of_two_processes_one_wins_and_the_other_changes_nothing(
        self, ledger: LedgerWriter, tmp_path: Path
    ) -> None:
        commit(ledger, "main", "a")
        outcomes = race(tmp_path, commit_from_one, str(tmp_path))
        assert sorted(outcomes) == ["LostRaceError", "seq 2"]
        assert len(ledger.rows()) == 2

    def test_the_first_run_of_all_has_one_winner_too(self, tmp_path: Path) -> None:
        assert sorted(race(tmp_path, commit_the_first, str(tmp_path))) == ["LostRaceError", "seq 1"]


def commit_from_one(root: str, parent: int | None = 1) -> str:
    try:
        [row] = LedgerWriter(ledger_folder(Path(root))).commit("main", parent, [run_row("contender")], clock)
    except LostRaceError as error:
        return type(error).__name__
    return f"seq {row.seq}"


def commit_the_first(root: str) -> str:
    return commit_from_one(root, None)


class TestFindingTheHead:
    def test_rows_far_behind_are_not_read(self, ledger: LedgerWriter) -> None:
        """Their files are gone, and the head is found all the same."""
        for number in range(20):
            commit(ledger, "main", f"r{number}")
        files = pa.table(DeltaTable(ledger.folder.uri).get_add_actions(flatten=True))
        for path, seq in zip(files["path"].to_pylist(), files["max.seq"].to_pylist(), strict=True):
            if seq <= 12:
                (Path(ledger.folder.uri) / path).unlink()
        head = ledger.head()
        assert head is not None and head.seq == 20
        assert [row.seq for row in ledger.rows(since=15)] == [16, 17, 18, 19, 20]
        [bound] = commit(ledger, "main", "next")
        assert bound.seq == 21

    def test_a_branch_that_has_been_quiet_for_long_is_found(self, ledger: LedgerWriter) -> None:
        commit(ledger, "fix", "f")
        ledger.commit("main", None, [run_row(f"r{number}") for number in range(600)], clock)
        head = ledger.head("fix")
        assert head is not None and (head.seq, head.run_id) == (1, "f")


FULL = run_row(
    "r1",
    seq=7,
    parent_seq=6,
    live=(Span(1, 3), Span(7, 7)),
    slice_start=datetime(2013, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
    watermark_in=None,
    watermark_out=datetime(2013, 1, 1, 20, 45, 59, 999000, tzinfo=UTC),
    inputs=(
        Input(table="sources/departures", table_id="of-the-table", version=3, files=2, rows=800, bytes=12345),
    ),
    files={"panes": ("run_id=r1/a.parquet", "run_id=r1/b.parquet"), "timers": ()},
    rows_read=800,
    verdict="passed",
    phase_seconds={"replay": 1.25},
    started_at=day(3),
    committed_at=day(4),
    table_versions={"runs": 7, "panes": 0},
)


def test_a_row_survives_json() -> None:
    assert LedgerRow.from_json(FULL.to_json()) == FULL
    assert LedgerRow.from_json(run_row("r").to_json()) == run_row("r")


def test_a_row_survives_the_table(ledger: LedgerWriter) -> None:
    ledger.folder.append(row_table(FULL))
    assert ledger.rows() == [FULL]


def test_columns_are_fields_in_the_documented_order() -> None:
    assert [field.name for field in fields(LedgerRow)] == [name for name, _ in schemas.RUNS]


class TestANewerFormat:
    def newer(self) -> LedgerRow:
        return replace(run_row("r9", seq=1, version="9.9"), format_version=schemas.FORMAT_VERSION + 1)

    def test_is_refused_by_every_reader(self, ledger: LedgerWriter) -> None:
        ledger.folder.append(row_table(self.newer()))
        for read in (
            ledger.head,
            ledger.rows,
            lambda: ledger.row(1),
            lambda: ledger.by_run_id("r9"),
            lambda: commit(ledger, "main", "x"),
        ):
            with pytest.raises(
                NewerFormat,
                match=r"run 1 was written in format 2 by slackwater 9\.9; this one reads up to 1\. Install",
            ):
                read()

    def test_is_refused_before_its_columns_are_looked_at(self, ledger: LedgerWriter) -> None:
        rows = row_table(self.newer()).append_column("something_new", pa.array([1]))
        reader = LedgerReader(replace(ledger.folder, schema=rows.schema))
        reader.folder.append(rows)
        with pytest.raises(NewerFormat):
            reader.rows()

    def test_is_refused_as_json(self) -> None:
        with pytest.raises(NewerFormat):
            LedgerRow.from_json(self.newer().to_json())
        with pytest.raises(NewerFormat, match="run r9 was written"):
            LedgerRow.from_json(
                json.dumps({"seq": 0, "run_id": "r9", "format_version": 99, "version": "9.9"})
            )


class TestAnEarlierFormat:
    SENTENCE = r"run 1 was written by slackwater 0\.1\.0; formats from before 0\.2\.0 are not read\. Move"

    def test_is_refused_by_every_reader(self, ledger: LedgerWriter) -> None:
        ledger.folder.append(row_table(run_row("r1", seq=1, version="0.1.0")))
        for read in (ledger.head, ledger.rows, lambda: ledger.row(1), lambda: commit(ledger, "main", "x")):
            with pytest.raises(EarlierFormat, match=self.SENTENCE):
                read()

    def test_is_refused_as_json(self) -> None:
        with pytest.raises(EarlierFormat, match=self.SENTENCE):
            LedgerRow.from_json(run_row("r1", seq=1, version="0.1.0").to_json())
