"""The roll-forward against the rules: `published` is the newest firing of each identity, corrections are its
exact changes.

Each step of it happens once, whoever dies or races.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.runs.publishing.corrections import Identity, Publication
from slackwater.runs.publishing.portion_tasks import PortionTasks
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import APPLICATION, Tables
from tests.open_files import FEWEST, with_few_open_files
from tests.racing import race
from tests.runs.lineages import HOUR, LATE_EVENING, histories
from tests.runs.published_model import (
    Correction,
    PaneRow,
    Published,
    comparable,
    history,
    history_of,
)
from tests.runs.rolling import commit_run, pane, roll_forward, with_file_rows, write
from tests.runs.tables_of_panes import corrections_of, fold, in_any_order, published_of
from tests.runs.task_bytes import AsOnACluster
from tests.tables.ledger.ledger_rows import clock, day, run_row


def found_published(tables: Tables) -> list[Published]:
    return published_of(tables["published"].read())


def found_corrections(tables: Tables) -> list[Correction]:
    return corrections_of(tables["corrections"].read().to_pylist())


@pytest.mark.slow
@settings(max_examples=8)
@given(st.sampled_from([Identity.WINDOW, Identity.WINDOW, Identity.FIRING, Identity.RUN]), st.data())
def test_published_and_corrections_are_what_the_rules_say(identity: Identity, data: st.DataObject) -> None:
    """Over random lineages with restatements and restores, rolled forward after any ledger row, several at
    once or not, whole or in portions, by one process or by tasks, days in one file or in bands."""
    past = data.draw(histories(identity, most=3))
    with TemporaryDirectory() as root:
        rolling = replace(
            with_file_rows(roll_forward(root, identity), data.draw(st.sampled_from([1, 2, 1 << 18]))),
            portion_rows=data.draw(st.sampled_from([1, 1 << 20])),
            tasks=data.draw(st.sampled_from([None, PortionTasks(AsOnACluster(2), least=1)])),
        )
        for row in past.rows:
            write(rolling.tables, row)
            if data.draw(st.booleans()):
                rolling.finish()
        rolling.finish()
        found = found_published(rolling.tables)
        assert in_any_order(fold(rolling.tables["corrections"].read().to_pylist(), identity)) == in_any_order(
            found
        )
        if identity is Identity.RUN:
            wanted = [pane for seq in past.main for pane in past.panes(seq)]
            assert in_any_order(map(without_ordinal, (row.pane for row in found))) == in_any_order(
                map(without_ordinal, wanted)
            )
        else:
            published, corrections = history_of(past.changes(), purging=identity is Identity.FIRING)
            assert in_any_order(found) == in_any_order(published.values())
            assert in_any_order(found_corrections(rolling.tables)) == in_any_order(corrections)


def without_ordinal(pane: PaneRow) -> PaneRow:
    return replace(pane, ordinal=0, results=comparable(pane.results))


@pytest.fixture
def rolling(tmp_path: Path) -> RollForward:
    return roll_forward(tmp_path)


def changes(rolling: RollForward) -> list[tuple[Any, ...]]:
    """(seq, op, cause, kind, firing, revision, old n, new n) of every correction, in seq order."""
    rows = (
        rolling.tables["corrections"]
        .read()
        .sort_by([("seq", "ascending"), ("ordinal", "ascending")])
        .to_pylist()
    )
    return [
        (
            row["seq"],
            row["op"],
            row["cause"],
            row["kind"],
            row["firing"],
            row["revision"],
            *(row[side] and row[side]["n"] for side in ("old", "new")),
        )
        for row in rows
    ]


class TestByHand:
    def test_a_window_appears_changes_and_is_absorbed(self, rolling: RollForward) -> None:
        for panes in (
            [pane(1, n=5)],
            [pane(2, "late", n=6), pane(3, "late", n=7)],
            [],
            [pane(4, "withdrawn")],
        ):
            commit_run(rolling.tables, panes)
            rolling.finish()
        assert changes(rolling) == [
            (1, "insert", "first", "on_time", 1, 1, None, 5),
            (2, "update", "late", "late", 3, 2, 5, 7),
            (4, "withdraw", "merge", "withdrawn", 4, 3, 7, None),
        ]
        assert rolling.tables["published"].read().num_rows == 0

    def test_a_window_that_was_withdrawn_begins_again_at_revision_1(self, rolling: RollForward) -> None:
        for panes in ([pane(1)], [pane(2, "withdrawn")], [pane(3, "late", n=9)]):
            commit_run(rolling.tables, panes)
        rolling.finish()
        assert changes(rolling)[-1] == (3, "insert", "late", "late", 3, 1, None, 9)

    def test_a_window_that_fires_and_is_withdrawn_in_one_run_leaves_no_trace(
        self, rolling: RollForward
    ) -> None:
        commit_run(rolling.tables, [pane(1), pane(2, "withdrawn")])
        rolling.finish()
        assert changes(rolling) == []

    def test_a_firing_with_fewer_rows_withdraws_the_others(self, rolling: RollForward) -> None:
        commit_run(rolling.tables, [pane(1, n=1), pane(1, n=2, ordinal=1), pane(1, n=3, ordinal=2)])
        commit_run(rolling.tables, [pane(2, "late", n=1), pane(2, "late", n=2, ordinal=1)])
        rolling.finish()
        assert changes(rolling)[3:] == [
            (2, "update", "late", "late", 2, 2, 1, 1),
            (2, "update", "late", "late", 2, 2, 2, 2),
            (2, "withdraw", "late", "late", 2, 2, 3, None),
        ]

    def test_the_same_firing_with_the_same_results_is_no_correction(self, rolling: RollForward) -> None:
        """As when a range is restated and nothing came out differently."""
        for _ in range(2):
            commit_run(rolling.tables, [pane(1, n=5)])
        rolling.finish()
        assert [change[0] for change in changes(rolling)] == [1]
        assert rolling.tables["published"].read(["run_seq", "revision"]).to_pylist() == [
            {"run_seq": 1, "revision": 1}
        ]

    def test_a_correction_that_is_none_but_for_kind_or_firing_is_one(self, rolling: RollForward) -> None:
        for panes in ([pane(1, "early")], [pane(2, "early")], [pane(2, "on_time")]):
            commit_run(rolling.tables, panes)
        rolling.finish()
        assert [(change[1], change[5]) for change in changes(rolling)] == [
            ("insert", 1),
            ("update", 2),
            ("update", 3),
        ]

    def test_firings_of_the_global_window_stand_side_by_side_though_the_trigger_accumulates(
        self, rolling: RollForward
    ) -> None:
        for firing in (1, 2):
            commit_run(rolling.tables, [pane(firing, "count", n=firing, start=None)])
        rolling.finish()
        assert [change[1:3] for change in changes(rolling)] == [("insert", "first")] * 2
        rows = (
            rolling.tables["published"]
            .read(["firing", "n", "revision", "window_date"])
            .sort_by("firing")
            .to_pylist()
        )
        assert rows == [{"firing": n, "n": n, "revision": 1, "window_date": None} for n in (1, 2)]

    def test_corrections_say_which_run_made_them_and_when_it_was_committed(
        self, rolling: RollForward
    ) -> None:
        commit_run(rolling.tables, [pane(1)])
        rolling.finish()
        [row] = rolling.tables["corrections"].read(["seq", "run_id", "at", "key_group"]).to_pylist()
        assert row == {"seq": 1, "run_id": "r1", "at": clock(), "key_group": 3}

    def test_rows_of_other_branches_are_never_rolled_forward(self, rolling: RollForward) -> None:
        commit_run(rolling.tables, [pane(1)])
        commit_run(rolling.tables, [pane(1, n=99)], branch="fix")
        commit_run(rolling.tables, [pane(2, "late", n=2)])
        assert [row.seq for row in rolling.finish()] == [1, 3]
        assert [change[0] for change in changes(rolling)] == [1, 3]

    def test_panes_of_a_run_that_was_never_committed_do_not_exist(self, rolling: RollForward) -> None:
        staged = rolling.tables["panes"].schema.empty_table()
        commit_run(rolling.tables, [pane(1)])
        rows = rolling.tables["panes"].read().to_pylist()
        staged = pa.Table.from_pylist(
            [{**rows[0], "run_id": "rejected", "firing": 2, "n": 99}], schema=staged.schema
        )
        rolling.tables["panes"].append(staged)
        rolling.finish()
        assert rolling.tables["published"].read(["n"]).to_pylist() == [{"n": 1}]

    def test_days_that_a_run_does_not_touch_are_not_rewritten(self, rolling: RollForward) -> None:
        commit_run(rolling.tables, [pane(1), pane(1, start=day(3))])
        rolling.finish()
        before = {path for path in rolling.tables["published"].files().paths if "2013-01-04" in path}
        commit_run(rolling.tables, [pane(2, "late", n=2)])
        rolling.finish()
        assert len(before) == 1 and before <= set(rolling.tables["published"].files().paths)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name",
        [
            "new_",
            "before",
            "log",
            "newest",
            "touched",
            "latest",
            "names",
            "seq_",
            "run",
            "standing",
            "published",
            "SELECT",
        ],
    )
    def test_a_result_may_have_any_name(self, tmp_path: Path, name: str) -> None:
        shape = Shape(keys=(("k", pa.string()),), results=((name, pa.int64()),), parts=(), source=())
        rolling = roll_forward(tmp_path, shape=shape)
        for firing in (1, 2):
            row = {
                **dict.fromkeys(rolling.tables["panes"].schema.names),
                "run_id": f"r{firing}",
                "key_group": 1,
                "k": "a",
                "firing": firing,
            }
            row |= {"window_start": day(0), "window_end": day(1), "ordinal": 0, "kind": "late", name: firing}
            rolling.tables["panes"].append(pa.Table.from_pylist([row], schema=rolling.tables["panes"].schema))
            LedgerWriter(rolling.tables["runs"]).commit(
                "main", firing - 1 or None, [run_row(f"r{firing}")], clock
            )
            rolling.finish()
        assert rolling.tables["published"].read([name, "revision"]).to_pylist() == [{name: 2, "revision": 2}]
        assert [row["old"] for row in rolling.tables["corrections"].read().sort_by("seq").to_pylist()] == [
            None,
            {name: 1},
        ]


@dataclass(frozen=True)
class Watched(Publication):
    """Notes how many rows are at hand at once."""

    seen: list[int] = field(default_factory=list)

    def inserts(self, panes: pa.Table, cause: str | None) -> pa.Table:
        self.seen.append(panes.num_rows)
        return super().inserts(panes, cause)

    def changes(self, log: pa.Table, moved: pa.Table, published: pa.Table, cause: str | None) -> pa.Table:
        self.seen.append(max(log.num_rows, published.num_rows))
        return super().changes(log, moved, published, cause)

    def apply(self, corrections: pa.Table, published: pa.Table, names: pa.Table) -> pa.Table:
        self.seen.append(max(corrections.num_rows, published.num_rows))
        return super().apply(corrections, published, names)


def many(firing: int, kind: str = "on_time", windows: int = 4) -> list[PaneRow]:
    """Panes of 40 keys, each in a key group of its own, in windows of one day."""
    starts = [LATE_EVENING - number * HOUR for number in range(windows)]
    return [
        PaneRow(group, (f"k{group}", 1, at, at + HOUR), firing, 0, kind, (firing, 0.5))
        for group in range(40)
        for at in starts
    ]


class TestManyRows:
    def test_what_is_held_at_once_does_not_grow_with_a_run(self, rolling: RollForward) -> None:
        watched = Watched(rolling.publication.shape, rolling.publication.identity)
        rolling = replace(rolling, publication=watched, portion_rows=50)
        for panes in (many(1), many(2, "late")):
            commit_run(rolling.tables, panes)
            rolling.finish()
        assert max(watched.seen) <= 2 * 50
        assert sum(watched.seen) >= 3 * 160  # inserts, changes and apply have all been watched
        assert [change[1:6] for change in changes(rolling)].count(("update", "late", "late", 2, 2)) == 160
        assert set(rolling.tables["published"].read(["n", "revision"]).to_pylist()[0].items()) == {
            ("n", 2),
            ("revision", 2),
        }

    def test_portions_make_no_more_files(self, rolling: RollForward) -> None:
        rolling = replace(rolling, portion_rows=50)
        for panes in (many(1), many(2, "late"), many(3, "late")):
            commit_run(rolling.tables, panes)
            rolling.finish()
        assert rolling.tables["corrections"].files().actions.num_rows == 3
        assert rolling.tables["published"].files().actions.num_rows == 1

    def test_files_of_a_day_that_hold_no_window_that_changes_are_left_alone(
        self, rolling: RollForward
    ) -> None:
        early = [
            replace(row, window=(*row.window[:2], LATE_EVENING - 20 * HOUR, LATE_EVENING - 19 * HOUR))
            for row in many(1, windows=1)
        ]
        commit_run(rolling.tables, early)
        rolling.finish()
        [before] = rolling.tables["published"].files().paths
        commit_run(rolling.tables, many(1, windows=1))
        commit_run(rolling.tables, many(2, "late", windows=1))
        rolling.finish()
        assert before in rolling.tables["published"].files().paths
        assert (
            sorted(row["n"] for row in rolling.tables["published"].read(["n"]).to_pylist())
            == [1] * 40 + [2] * 40
        )

    def test_late_elements_write_the_rows_of_one_run_again_however_many_came_before(
        self, rolling: RollForward
    ) -> None:
        """Each run fires windows of its own hour, and again those of the hour before."""
        hours = [LATE_EVENING - (8 - number) * HOUR for number in range(8)]
        written = []
        for number, start in enumerate(hours):
            late = [pane(2, "late", n=2, key=key, start=hours[number - 1]) for key in "ab"] if number else []
            commit_run(rolling.tables, [*(pane(1, key=key, start=start) for key in "ab"), *late])
            before = (
                set(rolling.tables["published"].files().actions.column("path").to_pylist())
                if number
                else set()
            )
            rolling.finish()
            files = rolling.tables["published"].files().actions.select(["path", "num_records"]).to_pylist()
            written.append(sum(file["num_records"] for file in files if file["path"] not in before))
        assert written == [2, *[4] * 7]
        assert (
            sorted(row["n"] for row in rolling.tables["published"].read(["n"]).to_pylist())
            == [1] * 2 + [2] * 14
        )

    def test_a_run_of_nothing_but_inserts_is_written_from_one_pass(
        self, rolling: RollForward, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit_run(rolling.tables, many(1))
        monkeypatch.setattr(Publication, "apply", None)
        rolling.finish()
        assert rolling.tables["published"].read().num_rows == 160

    @pytest.mark.slow
    def test_more_days_than_files_may_be_open_are_rolled_forward(
        self, rolling: RollForward, tmp_path: Path
    ) -> None:
        """A first run that inserts and a second that changes each of them, both in several portions."""
        starts = [LATE_EVENING + timedelta(days=number) for number in range(2 * FEWEST)]
        for firing, kind in ((1, "on_time"), (2, "late")):
            panes = [
                pane(firing, kind, n=firing, key=key, start=start) for start in starts for key in ("a", "b")
            ]
            commit_run(rolling.tables, panes)
            assert with_few_open_files(seqs_rolled_forward, str(tmp_path), len(starts)) == [firing]
        rows = rolling.tables["published"].read(["k", "window_start", "n", "revision"]).to_pylist()
        assert {(row["k"], row["window_start"]) for row in rows} == {
            (key, start) for start in starts for key in ("a", "b")
        }
        assert {(row["n"], row["revision"]) for row in rows} == {(2, 2)} and len(rows) == 2 * len(starts)


def seqs_rolled_forward(root: str, portion_rows: int) -> list[int]:
    return [row.seq for row in replace(roll_forward(root), portion_rows=portion_rows).finish()]


THREE_RUNS = [
    [pane(1), pane(1, key="b")],
    [pane(2, "late", n=2)],
    [pane(3, "late", n=3), pane(2, "withdrawn", key="b")],
]


def versions(rolling: RollForward) -> list[int]:
    return [rolling.tables[name].ensure().version() for name in ("corrections", "published")]


def check_three_runs(rolling: RollForward) -> None:
    published, corrections = history(THREE_RUNS, purging=False)
    assert in_any_order(found_published(rolling.tables)) == in_any_order(published.values())
    assert in_any_order(found_corrections(rolling.tables)) == in_any_order(corrections)
    assert [
        rolling.tables[name].open().transaction_version(APPLICATION) for name in ("corrections", "published")
    ] == [3, 3]
    assert versions(rolling) == [3, 3]  # one commit for each run, after the one that made the table


class Killed(Exception):
    pass


class TestDyingAndRacing:
    @pytest.fixture
    def pending(self, rolling: RollForward) -> RollForward:
        for panes in THREE_RUNS:
            commit_run(rolling.tables, panes)
        return rolling

    def test_each_run_is_one_commit_a_table_also_when_it_changes_nothing(self, rolling: RollForward) -> None:
        for panes in ([pane(1)], [], [pane(1)]):
            commit_run(rolling.tables, panes)
        rolling.finish()
        assert versions(rolling) == [3, 3]
        assert rolling.pending() == []

    def test_doing_it_again_changes_nothing(self, pending: RollForward) -> None:
        assert [row.seq for row in pending.pending()] == [1, 2, 3]
        assert [row.seq for row in pending.finish()] == [1, 2, 3]
        check_three_runs(pending)
        assert pending.finish() == []
        check_three_runs(pending)

    @pytest.mark.slow
    @pytest.mark.parametrize("dies_in", ["_correct", "_publish"])
    @pytest.mark.parametrize("dies_at", [1, 2, 3])
    def test_a_death_before_a_commit_is_repaired_by_whoever_comes_next(
        self, pending: RollForward, monkeypatch: pytest.MonkeyPatch, dies_in: str, dies_at: int
    ) -> None:
        step = getattr(RollForward, dies_in)

        def dying(self: RollForward, row: Any, *others: Any) -> Any:
            if row.seq == dies_at:
                raise Killed
            return step(self, row, *others)

        with monkeypatch.context() as patched:
            patched.setattr(RollForward, dies_in, dying)
            with pytest.raises(Killed):
                pending.finish()
        done = dies_at - 1
        assert versions(pending) == [done + (dies_in == "_publish"), done]
        assert [row.seq for row in pending.pending()] == [1, 2, 3][done:]
        pending.finish()
        check_three_runs(pending)

    @pytest.mark.parametrize("overtaken_in", ["_correct", "_publish"])
    def test_who_is_overtaken_in_the_middle_of_a_step_does_it_no_second_time(
        self, pending: RollForward, monkeypatch: pytest.MonkeyPatch, overtaken_in: str
    ) -> None:
        step = getattr(RollForward, overtaken_in)
        slow = iter([None])

        def slowly(self: RollForward, *others: Any, **options: Any) -> Any:
            for _ in slow:
                pending.finish()
            return step(self, *others, **options)

        monkeypatch.setattr(RollForward, overtaken_in, slowly)
        pending.finish()
        check_three_runs(pending)

    @pytest.mark.slow
    def test_two_processes_at_once_do_each_step_once(self, pending: RollForward, tmp_path: Path) -> None:
        assert race(tmp_path, finish_in_a_process, str(tmp_path)) == ["done", "done"]
        check_three_runs(pending)


def finish_in_a_process(root: str) -> str:
    roll_forward(root).finish()
    return "done"
