"""The roll-forward against the rules: `published` is the newest firing of each identity, corrections are its exact changes.

Each step of it happens once, whoever dies or races.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.protocol.roll_forward import APPLICATION, RollForward
from jobs.tables.ledger import LedgerWriter
from jobs.tables.schemas import Shape
from jobs.tables.warehouse import Tables, Warehouse
from tests.jobs.protocol.published_model import Correction, Identity, PaneRow, Published, history
from tests.jobs.racing import race
from tests.jobs.tables.ledger_rows import clock, day, run_row

SHAPE = Shape(keys=(("k", pa.string()), ("part", pa.int32())), results=(("n", pa.int64()), ("mean", pa.float64())), parts=(), source=())
HOUR = timedelta(hours=1)
LATE_EVENING = datetime(2013, 1, 1, 23, tzinfo=UTC)
LONG_AGO = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def roll_forward(root: str | Path, purging: bool, shape: Shape = SHAPE) -> RollForward:
    return RollForward(Warehouse(str(root)).tables("p", shape), shape, purging)


def commit_run(tables: Tables, panes: Sequence[PaneRow], branch: str = "main") -> None:
    """Stage the panes of one run and bind it to the next seq, as publishing does."""
    ledger = LedgerWriter(tables["runs"])
    head = ledger.head(branch)
    run_id = f"r{len(ledger.rows()) + 1}"
    names = [*(name for name, _ in SHAPE.keys), "window_start", "window_end"]
    rows = [
        {
            **dict.fromkeys(tables["panes"].schema.names),
            "run_id": run_id,
            "key_group": pane.key_group,
            **dict(zip(names, pane.window, strict=True)),
            "firing": pane.firing,
            "ordinal": pane.ordinal,
            "kind": pane.kind,
            **dict(zip(SHAPE.result_names, pane.results, strict=True)),
        }
        for pane in panes
    ]
    if rows:
        tables["panes"].append(pa.Table.from_pylist(rows, schema=tables["panes"].schema))
    ledger.commit(branch, None if head is None else head.seq, [run_row(run_id, branch=branch)], clock)


def window_of(row: dict[str, Any]) -> tuple[Any, ...]:
    start, end = (row[name] and row[name].astimezone(UTC) for name in ("window_start", "window_end"))
    return (row["k"], row["part"], start, end)


def results_of(row: dict[str, Any] | None) -> tuple[Any, ...] | None:
    """Results, with one NaN that equals itself."""
    if row is None:
        return None
    return tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in (row["n"], row["mean"]))


def found_published(tables: Tables, purging: bool) -> dict[Identity, Published]:
    found = {}
    for row in tables["published"].read().to_pylist():
        pane = PaneRow(row["key_group"], window_of(row), row["firing"], row["ordinal"], row["kind"], results_of(row) or ())
        side_by_side = purging or pane.start is None
        identity = (pane.window, pane.ordinal, pane.firing if side_by_side else None)
        assert identity not in found
        found[identity] = Published(pane, row["revision"], row["run_seq"])
        assert row["window_date"] == (None if pane.start is None else pane.start.date())
    return found


def found_corrections(tables: Tables) -> list[Correction]:
    return [
        Correction(
            row["seq"],
            window_of(row),
            row["ordinal"],
            row["firing"],
            row["kind"],
            row["op"],
            row["cause"],
            row["revision"],
            results_of(row["old"]),
            results_of(row["new"]),
        )
        for row in tables["corrections"].read().to_pylist()
    ]


def in_any_order(items: Sequence[Any]) -> list[str]:
    return sorted(map(repr, items))


def fold(corrections: Sequence[Correction], key_groups: dict[Any, int], purging: bool) -> dict[Identity, Published]:
    """`published` from the corrections alone."""
    rows: dict[Identity, Published] = {}
    for item in sorted(corrections, key=lambda item: (item.seq, item.op != "withdraw")):
        identity = (item.window, item.ordinal, item.firing if purging or item.window[-2] is None else None)
        if item.new is None:
            del rows[identity]
        else:
            pane = PaneRow(key_groups[item.window[0]], item.window, item.firing, item.ordinal, item.kind, item.new)
            rows[identity] = Published(pane, item.revision, item.seq)
    return rows


GROUPS = {"a": 3, "b": 77}
WINDOWS = [(start, start + HOUR) for start in (LATE_EVENING, LATE_EVENING + HOUR, LONG_AGO)] + [(None, None)]


@st.composite
def logs(draw: st.DrawFn, purging: bool) -> list[list[PaneRow]]:
    """The panes of a few runs as an engine may stage them: firings count upwards, with gaps; withdrawal is the end of a window."""
    firings: dict[Any, int] = {}
    withdrawn: set[Any] = set()
    runs: list[list[PaneRow]] = []
    for _ in range(draw(st.integers(1, 3))):
        panes: list[PaneRow] = []
        for _ in range(draw(st.integers(0, 8))):
            key, bounds = draw(st.sampled_from(list(GROUPS))), draw(st.sampled_from(WINDOWS))
            window = (key, None if key == "b" else 1, *bounds)
            if window in withdrawn:
                continue
            firings[window] = firings.get(window, 0) + draw(st.sampled_from([1, 1, 3]))
            kind = draw(st.sampled_from(["early", "on_time", "late", "count"]))
            if firings[window] > 1 and not purging and bounds[0] is not None and draw(st.integers(0, 5)) == 0:
                withdrawn.add(window)
                panes.append(PaneRow(GROUPS[key], window, firings[window], 0, "withdrawn", (None, None)))
                continue
            for ordinal in range(draw(st.sampled_from([1, 1, 2]))):
                results = (draw(st.sampled_from([None, 0, 1])), draw(st.sampled_from([None, 0.5, math.nan])))
                panes.append(PaneRow(GROUPS[key], window, firings[window], ordinal, kind, results))
        runs.append(draw(st.permutations(panes)))
    return runs


@pytest.mark.parametrize("purging", [False, True], ids=["accumulating", "purging"])
@settings(max_examples=12)
@given(st.data())
def test_published_and_corrections_are_what_the_rules_say(purging: bool, data: st.DataObject) -> None:
    runs = data.draw(logs(purging))
    finishes = data.draw(st.lists(st.booleans(), min_size=len(runs), max_size=len(runs)))
    with TemporaryDirectory() as root:
        rolling = roll_forward(root, purging)
        for panes, finish in zip(runs, finishes, strict=True):
            commit_run(rolling.tables, panes)
            if finish:
                rolling.finish()
        rolling.finish()
        published, corrections = history(runs, purging)
        found = found_published(rolling.tables, purging)
        assert in_any_order(list(found.values())) == in_any_order(list(published.values()))
        assert in_any_order(found_corrections(rolling.tables)) == in_any_order(corrections)
        assert in_any_order(list(fold(found_corrections(rolling.tables), GROUPS, purging).values())) == in_any_order(list(found.values()))


def pane(
    firing: int, kind: str = "on_time", n: int = 1, *, key: str = "a", ordinal: int = 0, start: datetime | None = LATE_EVENING
) -> PaneRow:
    results = (None, None) if kind == "withdrawn" else (n, 0.5)
    return PaneRow(GROUPS[key], (key, 1, start, None if start is None else start + HOUR), firing, ordinal, kind, results)


@pytest.fixture
def rolling(tmp_path: Path) -> RollForward:
    return roll_forward(tmp_path, purging=False)


def changes(rolling: RollForward) -> list[tuple[Any, ...]]:
    """(seq, op, cause, kind, firing, revision, old n, new n) of every correction, in seq order."""
    rows = rolling.tables["corrections"].read().sort_by([("seq", "ascending"), ("ordinal", "ascending")]).to_pylist()
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
        for panes in ([pane(1, n=5)], [pane(2, "late", n=6), pane(3, "late", n=7)], [], [pane(4, "withdrawn")]):
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

    def test_a_window_that_fires_and_is_withdrawn_in_one_run_leaves_no_trace(self, rolling: RollForward) -> None:
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
        assert rolling.tables["published"].read(["run_seq", "revision"]).to_pylist() == [{"run_seq": 1, "revision": 1}]

    def test_a_correction_that_is_none_but_for_kind_or_firing_is_one(self, rolling: RollForward) -> None:
        for panes in ([pane(1, "early")], [pane(2, "early")], [pane(2, "on_time")]):
            commit_run(rolling.tables, panes)
        rolling.finish()
        assert [(change[1], change[5]) for change in changes(rolling)] == [("insert", 1), ("update", 2), ("update", 3)]

    def test_firings_of_the_global_window_stand_side_by_side_though_the_trigger_accumulates(self, rolling: RollForward) -> None:
        for firing in (1, 2):
            commit_run(rolling.tables, [pane(firing, "count", n=firing, start=None)])
        rolling.finish()
        assert [change[1:3] for change in changes(rolling)] == [("insert", "first")] * 2
        rows = rolling.tables["published"].read(["firing", "n", "revision", "window_date"]).sort_by("firing").to_pylist()
        assert rows == [{"firing": n, "n": n, "revision": 1, "window_date": None} for n in (1, 2)]

    def test_corrections_say_which_run_made_them_and_when_it_was_committed(self, rolling: RollForward) -> None:
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
        staged = pa.Table.from_pylist([{**rows[0], "run_id": "rejected", "firing": 2, "n": 99}], schema=staged.schema)
        rolling.tables["panes"].append(staged)
        rolling.finish()
        assert rolling.tables["published"].read(["n"]).to_pylist() == [{"n": 1}]

    def test_days_that_a_run_does_not_touch_are_not_rewritten(self, rolling: RollForward) -> None:
        commit_run(rolling.tables, [pane(1), pane(1, start=day(3))])
        rolling.finish()
        before = {path for path in rolling.tables["published"].open().file_uris() if "2013-01-04" in path}
        commit_run(rolling.tables, [pane(2, "late", n=2)])
        rolling.finish()
        assert len(before) == 1 and before <= set(rolling.tables["published"].open().file_uris())

    @pytest.mark.parametrize(
        "name", ["new_", "before", "panes", "newest", "touched", "named", "last_firing", "cause_kind", "published", "SELECT"]
    )
    def test_a_result_may_have_any_name(self, tmp_path: Path, name: str) -> None:
        shape = Shape(keys=(("k", pa.string()),), results=((name, pa.int64()),), parts=(), source=())
        rolling = roll_forward(tmp_path, purging=False, shape=shape)
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
            LedgerWriter(rolling.tables["runs"]).commit("main", firing - 1 or None, [run_row(f"r{firing}")], clock)
            rolling.finish()
        assert rolling.tables["published"].read([name, "revision"]).to_pylist() == [{name: 2, "revision": 2}]
        assert [row["old"] for row in rolling.tables["corrections"].read().sort_by("seq").to_pylist()] == [None, {name: 1}]


THREE_RUNS = [[pane(1), pane(1, key="b")], [pane(2, "late", n=2)], [pane(3, "late", n=3), pane(2, "withdrawn", key="b")]]


def versions(rolling: RollForward) -> list[int]:
    return [rolling.tables[name].ensure().version() for name in ("corrections", "published")]


def check_three_runs(rolling: RollForward) -> None:
    published, corrections = history(THREE_RUNS, purging=False)
    assert in_any_order(list(found_published(rolling.tables, purging=False).values())) == in_any_order(list(published.values()))
    assert in_any_order(found_corrections(rolling.tables)) == in_any_order(corrections)
    assert [rolling.tables[name].open().transaction_version(APPLICATION) for name in ("corrections", "published")] == [3, 3]
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

    @pytest.mark.parametrize("dies_in", ["_correct", "_publish"])
    @pytest.mark.parametrize("dies_at", [1, 2, 3])
    def test_a_death_before_a_commit_is_repaired_by_whoever_comes_next(
        self, pending: RollForward, monkeypatch: pytest.MonkeyPatch, dies_in: str, dies_at: int
    ) -> None:
        step = getattr(RollForward, dies_in)

        def dying(self: RollForward, folder: Any, table: Any, row: Any, transaction: Any) -> None:
            if row.seq == dies_at:
                raise Killed
            step(self, folder, table, row, transaction)

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

        def slowly(self: RollForward, folder: Any, table: Any, row: Any, transaction: Any) -> None:
            for _ in slow:
                pending.finish()
            step(self, folder, table, row, transaction)

        monkeypatch.setattr(RollForward, overtaken_in, slowly)
        pending.finish()
        check_three_runs(pending)

    def test_two_processes_at_once_do_each_step_once(self, pending: RollForward, tmp_path: Path) -> None:
        assert race(tmp_path, finish_in_a_process, str(tmp_path)) == ["done", "done"]
        check_three_runs(pending)


def finish_in_a_process(root: str) -> str:
    roll_forward(root, purging=False).finish()
    return "done"
