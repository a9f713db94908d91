"""`state fork`, `state restore`, `state close`, `state diff` and `branches` move a lineage without losing a
run, and say where it stands afterwards.
"""

import json
import re
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.runs.publishing.roll_forward import RollForward
from tests.cli.conftest import Hourly
from tests.integration.command import driver, here
from tests.integration.driver import Plan
from tests.integration.facts import (
    RESULTS,
    assert_as_model,
    assert_corrections_make_published,
    facts_of_tables,
    outcome,
    published,
)
from tests.model.flights import HOUR_MS, ms

pytestmark = pytest.mark.usefixtures("without_spark")


def verb(hourly: Hourly, *words: object) -> int:
    """A verb on `hourly`, whose name comes before the last words: `verb(hourly, "state restore", 2)`."""
    names, *others = words
    return here(*str(names).split(), "hourly", *others, *hourly.where)


def rows(hourly: Hourly, new_output: Callable[[], str], *words: object) -> list[dict[str, Any]]:
    new_output()
    assert verb(hourly, *words, "--output", "json") == 0
    return json.loads(new_output())


def ledger(hourly: Hourly) -> list[tuple[int, str, str, int | None, list[tuple[int, int]]]]:
    """(seq, kind, branch, parent, live) of each row."""
    return [
        (
            row["seq"],
            row["kind"],
            row["branch"],
            row["parent_seq"],
            [(span["first_seq"], span["last_seq"]) for span in row["live"]],
        )
        for row in hourly.stored.ledger()
    ]


class TestRestore:
    @pytest.mark.slow
    def test_what_came_after_is_undone_and_runs_go_on_from_there(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-04")
        assert verb(hourly, "state restore", 2) == 0
        assert "main is what it was after 2, by row 4; it ends at 2013-01-03 00:00" in new_output()
        assert_as_model(hourly.stored, "2013-01-03")
        assert hourly.run_here("--to", "2013-01-04") == 0
        assert ledger(hourly)[3:] == [
            (4, "restore", "main", 3, [(1, 2)]),
            (5, "run", "main", 4, [(1, 2), (5, 5)]),
        ]
        assert_as_model(hourly.stored, "2013-01-04")
        assert_corrections_make_published(hourly.stored)
        causes = Counter((row["seq"], row["cause"]) for row in hourly.stored.rows("corrections"))
        assert {cause for seq, cause in causes if seq == 4} == {"restore"}

    def test_what_was_undone_can_be_restored_in_turn(self, hourly: Hourly) -> None:
        hourly.begin("2013-01-04")
        before = facts_of_tables(hourly.stored)
        assert verb(hourly, "state restore", 1) == 0
        assert verb(hourly, "state restore", 3) == 0
        assert facts_of_tables(hourly.stored) == before

    def test_what_is_live_is_not_restored_again(self, hourly: Hourly, new_output: Callable[[], str]) -> None:
        hourly.begin("2013-01-03")
        assert verb(hourly, "state restore", 2) == 0
        assert "nothing to do" in new_output()
        assert [row[0] for row in ledger(hourly)] == [1, 2]

    def test_a_run_that_a_branch_made_is_no_row_of_main(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-03")
        assert verb(hourly, "state fork", "fix", "--run", 1) == 0
        assert hourly.run_here("--to", "2013-01-03", "--branch", "fix") == 0
        assert verb(hourly, "state restore", 4) == 2
        assert (
            "row 4 is of the branch fix and was never live in main; `slackwater publish hourly fix`"
            in new_output()
        )

    def test_a_row_that_is_not_there_and_an_empty_lineage_are_refused(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        assert verb(hourly, "state restore", 1) == 2
        assert "has never run" in new_output()
        assert hourly.run_here("--to", "2013-01-02") == 0
        assert verb(hourly, "state restore", 7) == 2
        assert "the ledger has no row 7" in new_output()

    def test_a_roll_forward_that_is_open_is_finished_first(
        self, hourly: Hourly, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hourly.begin("2013-01-03")
        with monkeypatch.context() as patched:
            for way in ("finish", "finish_known"):
                patched.setattr(RollForward, way, lambda self: [])
            assert hourly.run_here("--to", "2013-01-04") == 0
        assert hourly.stored.rolled_forward() == 2
        assert verb(hourly, "state restore", 2) == 0
        assert hourly.stored.rolled_forward() == 4
        assert_as_model(hourly.stored, "2013-01-03")
        assert {row["seq"] for row in hourly.stored.rows("corrections")} == {1, 2, 3, 4}


class TestBranches:
    @pytest.mark.slow
    def test_a_branch_runs_beside_main_which_stays_as_it_is(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-04")
        before = facts_of_tables(hourly.stored), published(hourly.stored)
        assert verb(hourly, "state fork", "fix", "--run", 1) == 0
        assert "the branch fix begins behind run 1, at 2013-01-02 00:00" in new_output()
        assert hourly.run_here("--to", "2013-01-04", "--branch", "fix") == 0
        assert (facts_of_tables(hourly.stored), published(hourly.stored)) == before
        assert ledger(hourly)[3:] == [
            (4, "fork", "fix", 1, [(1, 1)]),
            (5, "run", "fix", 4, [(1, 1), (5, 5)]),
            (6, "run", "fix", 5, [(1, 1), (5, 6)]),
        ]
        [listed] = rows(hourly, new_output, "branches list")
        assert (
            listed["branch"],
            listed["forked_from"],
            listed["runs"],
            listed["head"],
            listed["live_in_main"],
        ) == ("fix", 1, 2, 6, False)
        assert (listed["slice_start"], listed["slice_end"]) == (
            "2013-01-02T00:00:00Z",
            "2013-01-04T00:00:00Z",
        )
        assert rows(hourly, new_output, "state diff", "main", "fix") == []
        assert verb(hourly, "branches drop", "fix") == 0
        assert rows(hourly, new_output, "branches list") == []

    def test_the_log_says_where_each_run_counts(self, hourly: Hourly, new_output: Callable[[], str]) -> None:
        hourly.begin("2013-01-04")
        assert verb(hourly, "state fork", "fix", "--run", 1) == 0
        assert hourly.run_here("--to", "2013-01-03", "--branch", "fix") == 0
        assert verb(hourly, "state restore", 2) == 0
        new_output()
        assert verb(hourly, "runs") == 0
        lines = [re.split(" {2,}", line.strip()) for line in new_output().splitlines()]
        live = lines[0].index("live")
        printed_rows = [[*cells[:3], cells[live]] for cells in lines if cells[0].isdecimal()]
        assert printed_rows == [
            ["1", "run", "main", "main"],
            ["2", "run", "main", "main"],
            ["3", "run", "main", "–"],
            ["4", "fork", "fix", "1"],
            ["5", "run", "fix", "fix"],
            ["6", "restore", "main", "1-2"],
        ]

    def test_what_can_not_be_is_refused(self, hourly: Hourly, new_output: Callable[[], str]) -> None:
        hourly.begin("2013-01-02")
        assert verb(hourly, "branches drop", "other") == 2
        assert "there is no branch other; it has none beside main" in new_output()
        assert verb(hourly, "state fork", "fix") == 0
        for words, refusal in [
            (("state fork", "fix"), "there is a branch fix already"),
            (("state fork", "main"), "'main' can't name a branch"),
            (("state fork", "other", "--run", "9"), "the ledger has no row 9"),
            (("branches drop", "other"), "there is no branch other; the branches are fix"),
            (("branches drop", "main"), "there is no branch main"),
            (
                ("run", "--to", "2013-01-03", "--branch", "other"),
                "there is no branch other; the branches are fix",
            ),
            (("run", "--to", "2013-01-03", "--branch", "fix", "--no-publish"), "--no-publish is for main"),
            (("state diff", "main", "other"), "there is no branch other; name a seq, or one of main, fix"),
        ]:
            new_output()
            assert verb(hourly, *words) == 2, words
            assert refusal in new_output()
        assert len(ledger(hourly)) == 2


def assert_changes_are_told(hourly: Hourly, told_changes: list[dict[str, Any]], output: str) -> None:
    """That the publication by row 7 has written what the branch was said to change, and says so itself."""
    by_window = {
        (change["key"]["origin"], ms(change["window_start"])): (change["op"], change["old"], change["new"])
        for change in told_changes
    }
    corrections = [row for row in hourly.stored.rows("corrections") if row["seq"] == 7]
    assert by_window == {
        (row["origin"], row["window_start"]): (row["op"], row["old"], row["new"]) for row in corrections
    }
    assert f"published by row 7, verdict passed; {len(corrections)} rows updated" in output
    first = min(corrections, key=lambda row: (row["window_start"], row["origin"]))
    assert f"flights {first['old']['flights']} → {first['new']['flights']}" in output


class TestPublishingABranch:
    @pytest.mark.slow
    def test_a_branch_that_has_converged_takes_main_s_later_runs_with_it(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        """Main has moved since the fork, and nothing of it is lost."""
        hourly.begin("2013-01-03")
        assert verb(hourly, "state fork", "fix", "--run", 1) == 0
        assert hourly.run_here("--to", "2013-01-03", "--branch", "fix") == 0
        assert hourly.run_here("--to", "2013-01-04") == 0
        corrections = len(hourly.stored.rows("corrections"))
        assert verb(hourly, "diff", "--branch", "fix") == 0
        assert "`slackwater publish hourly fix --as-of 5` changes these rows and no others" in new_output()
        assert hourly.publish("fix", "--as-of", "4") == 2
        assert "nothing was published. Since row 4 of the ledger main has moved to row 5" in new_output()
        assert hourly.publish("fix", "--as-of", "5") == 0
        assert "branch fix: published by row 6, verdict passed" in new_output()
        assert ledger(hourly)[5:] == [(6, "publish", "main", 5, [(1, 1), (4, 5)]), (7, "drop", "fix", 4, [])]
        assert_as_model(hourly.stored, "2013-01-04")
        assert len(hourly.stored.rows("corrections")) == corrections, "equal rows are no changes"
        assert rows(hourly, new_output, "branches list") == []

    @pytest.mark.slow
    def test_a_branch_that_has_not_is_refused_until_it_has_caught_up(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        """Another lateness makes another state, and other firings."""
        hourly.begin("2013-01-04")
        assert verb(hourly, "state fork", "longer", "--run", 1) == 0
        hourly.declare(settings='"allowed_lateness": departures.allowed_lateness * 2')
        assert hourly.run_here("--to", "2013-01-03", "--branch", "longer") == 0
        before = ledger(hourly), published(hourly.stored)
        assert hourly.publish("longer") == 2
        assert (
            "can't stay: the open windows differ. Go on first with `slackwater run hourly --branch longer "
            "--to 2013-01-04" in new_output()
        )
        assert verb(hourly, "diff", "--branch", "longer") == 0
        assert "it can't be published yet" in new_output()
        assert (ledger(hourly), published(hourly.stored)) == before
        assert hourly.run_here("--to", "2013-01-04", "--branch", "longer") == 0
        told_changes = rows(hourly, new_output, "diff", "--branch", "longer")
        assert verb(hourly, "diff", "--branch", "longer", "--limit", 2) == 0
        assert len(told_changes) == 3 and "1 more row; --limit 0 shows all" in new_output()
        panes = {row["run_id"]: row["seq"] for row in hourly.stored.ledger()}
        assert hourly.publish("longer") == 0
        assert_changes_are_told(hourly, told_changes, new_output())
        assert rows(hourly, new_output, "history", "--run", 7) == told_changes
        window = told_changes[0]["window_start"]
        history = rows(hourly, new_output, "history", "--key", "EWR", "--window", window)
        assert [change["seq"] for change in history][:1] == [7] and history[0]["cause"] == "restatement"
        assert verb(hourly, "history", "--key", "EWR", "--window", window) == 0
        shown = new_output()
        assert "other settings" in shown and "published at" in shown
        assert verb(hourly, "history") == 2 and "name the key with --key" in new_output()
        assert ledger(hourly)[-2] == (7, "publish", "main", 3, [(1, 1), (5, 6)])
        assert {panes[row["run_id"]] for row in hourly.stored.live("panes")} == {1, 5, 6}
        changed = [row for row in hourly.stored.rows("corrections") if row["seq"] == 7]
        assert changed and {row["cause"] for row in changed} == {"restatement"}
        newest = {}
        for row in sorted(hourly.stored.live("panes"), key=lambda row: row["firing"]):
            newest[(row["origin"], row["window_start"])] = (row["firing"], *(row[name] for name in RESULTS))
        there = {}
        for row in hourly.stored.rows("published"):
            there[(row["origin"], row["window_start"])] = (row["firing"], *(row[name] for name in RESULTS))
        assert there == newest
        assert_corrections_make_published(hourly.stored)

    def test_a_branch_of_another_past_and_one_that_has_run_nothing_are_refused(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-03")
        assert verb(hourly, "state fork", "fix") == 0
        assert hourly.publish("fix") == 2
        assert "the branch fix has run nothing" in new_output()
        assert hourly.run_here("--to", "2013-01-04", "--branch", "fix") == 0
        assert verb(hourly, "state restore", 1) == 0
        assert hourly.publish("fix") == 2
        assert "main was restated or restored before the point where the branch fix forks" in new_output()

    @pytest.mark.slow
    @pytest.mark.parametrize("moment", ["after the ledger commit", "between the roll-forward commits"])
    def test_one_that_was_killed_behind_its_commit_is_finished_by_the_same_command(
        self, hourly: Hourly, new_output: Callable[[], str], moment: str
    ) -> None:
        hourly.begin("2013-01-03")
        assert verb(hourly, "state fork", "longer", "--run", 1) == 0
        hourly.declare(settings='"allowed_lateness": departures.allowed_lateness * 2')
        assert hourly.run_here("--to", "2013-01-03", "--branch", "longer") == 0
        before = published(hourly.stored)
        killed = driver(Plan(at=moment), "publish", "hourly", "longer", *hourly.where)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (published(hourly.stored), hourly.stored.rolled_forward()) == (before, 2)
        assert hourly.publish("longer") == 0
        assert "main has all its runs" in new_output()
        assert hourly.stored.rolled_forward() == 5 and published(hourly.stored) != before
        assert [row[1:3] for row in ledger(hourly)[4:]] == [("publish", "main"), ("drop", "longer")]
        assert_corrections_make_published(hourly.stored)


class TestDiff:
    def test_states_of_two_days_differ_in_their_windows_timers_and_watermark(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-03")
        found = rows(hourly, new_output, "state diff", 1, 2)
        opened = [outcome(day).open_windows for day in ("2013-01-02", "2013-01-03")]
        names = [{(window.key, window.window.start) for window in windows} for windows in opened]
        windows = [row for row in found if row["what"] == "window"]
        assert names[0] and not names[0] & names[1], "no window is open at both ends"
        assert Counter(row["there"] for row in windows) == {"left": len(names[0]), "right": len(names[1])}
        [whole] = [row for row in found if row["what"] == "progress" and row["name"] is None]
        assert whole["there"] == "both" and whole["left"].keys() == {"watermark", "clock"}

    def test_what_a_branch_has_otherwise_is_told_by_column(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        """The branch has another lateness, so its windows live longer."""
        hourly.begin("2013-01-03")
        assert verb(hourly, "state fork", "longer", "--run", 1) == 0
        hourly.declare(settings='"allowed_lateness": departures.allowed_lateness * 2')
        assert hourly.run_here("--to", "2013-01-03", "--branch", "longer") == 0
        changed = [
            row
            for row in rows(hourly, new_output, "state diff", 2, "longer")
            if row["what"] == "window" and row["there"] == "both"
        ]
        assert {(window.key, window.window.start) for window in outcome("2013-01-03").open_windows} == {
            (row["origin"], ms(row["window_start"][:19])) for row in changed
        }
        for row in changed:
            assert (
                ms(row["right"]["cleanup_time"][:23].rstrip("Z"))
                - ms(row["left"]["cleanup_time"][:23].rstrip("Z"))
                == 4 * HOUR_MS
            )
        new_output()
        assert verb(hourly, "state diff", 2, "longer") == 0
        differences = new_output()
        assert "cleanup_time 2013-01-02 " in differences and "only in longer" in differences


class TestClose:
    def test_every_open_window_fires_and_nothing_runs_behind_it(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-03")
        model = outcome("2013-01-03")
        before = published(hourly.stored)
        assert verb(hourly, "state close") == 0
        assert (
            "closed at 2013-01-03 00:00 by row 3; 0 windows stay open, 0 timers stay pending" in new_output()
        )
        fired = Counter(
            (window.key, *window.window, "on_time", 1, *(window.results[name] for name in RESULTS))
            for window in model.open_windows
            if not window.firings
        )
        assert sum(fired.values()) > 0 and published(hourly.stored) == before + fired
        closed = hourly.stored.ledger()[-1]
        assert (closed["kind"], closed["live"], closed["slice_start"], closed["slice_end"]) == (
            "close",
            [{"first_seq": 1, "last_seq": 3}],
            closed["slice_end"],
            hourly.stored.ledger()[1]["slice_end"],
        )
        assert (closed["rows_read"], closed["windows_cleaned"], closed["windows_open"]) == (
            0,
            len(model.open_windows),
            0,
        )
        assert closed["engine"] == hourly.stored.ledger()[1]["engine"] == "columnar", "as the runs before it"
        assert hourly.stored.parked("window_state") == hourly.stored.parked("timers") == []
        assert hourly.run_here("--to", "2013-01-04") == 2
        assert "was closed by row 3. Reopen it with `slackwater state restore hourly 2`" in new_output()
        assert verb(hourly, "state close") == 0
        assert "nothing to do" in new_output() and len(ledger(hourly)) == 3
        assert_corrections_make_published(hourly.stored)

    @pytest.mark.slow
    def test_a_restore_reopens_as_if_it_had_never_been_closed(self, hourly: Hourly) -> None:
        hourly.begin("2013-01-03")
        assert verb(hourly, "state close") == 0
        assert verb(hourly, "state restore", 2) == 0
        assert_as_model(hourly.stored, "2013-01-03")
        assert hourly.run_here("--to", "2013-01-04") == 0
        assert_as_model(hourly.stored, "2013-01-04")
        assert_corrections_make_published(hourly.stored)

    def test_a_close_that_validation_rejects_moves_nothing(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        hourly.begin("2013-01-02")
        hourly.declare(expect='expect.between("flights", max=0)')
        assert verb(hourly, "state close") == 4
        assert "was rejected by validation" in new_output()
        assert len(ledger(hourly)) == 1

    def test_an_empty_lineage_has_nothing_to_close(
        self, hourly: Hourly, new_output: Callable[[], str]
    ) -> None:
        assert verb(hourly, "state close") == 2
        assert "has no runs yet, so nothing is open" in new_output()


EACH = """
from slackwater.examples.departures import departures
from slackwater.pipelines import Pipeline
from slackwater.windowing import KeyedProcessFunction


class Each(KeyedProcessFunction):
    def process_element(self, value, context):
        if value.flight % 10 == 0:
            yield (value.flight, value.carrier)
            yield (value.flight, "again")


hourly = Pipeline(
    name="hourly",
    source=departures.source,
    watermarks=departures.watermarks,
    key_by="origin",
    process=Each(),
    output="flight long, carrier string",
    start=departures.start,
)
"""


class TestAProcessFunction:
    @pytest.mark.slow
    def test_its_rows_are_those_of_the_live_runs_through_restatements_and_restores(
        self, hourly: Hourly
    ) -> None:
        hourly.file.write_text(EACH)
        assert hourly.run_here("--to", "2013-01-03") == 0
        both = self.rows(hourly, "published")
        assert len(both) > 20 and both == self.rows(hourly, "panes")
        assert verb(hourly, "state fork", "same", "--run", 1) == 0
        assert hourly.run_here("--to", "2013-01-03", "--branch", "same") == 0
        assert hourly.publish("same") == 0
        assert {row["seq"] for row in hourly.stored.rows("corrections")} == {1, 2}, (
            "equal rows stay as they are"
        )
        assert verb(hourly, "state restore", 1) == 0
        first = self.rows(hourly, "published")
        assert first == self.rows(hourly, "panes") and 0 < sum(first.values()) < sum(both.values())
        assert verb(hourly, "state restore", 5) == 0
        assert self.rows(hourly, "published") == self.rows(hourly, "panes") == both
        hourly.file.write_text(EACH.replace("% 10 == 0", "% 20 == 0"))
        assert verb(hourly, "state fork", "fewer", "--run", 1) == 0
        assert hourly.run_here("--to", "2013-01-03", "--branch", "fewer") == 0
        assert hourly.publish("fewer") == 0
        fewer = self.rows(hourly, "published")
        assert fewer == self.rows(hourly, "panes") and first < fewer < both
        last = max(row["seq"] for row in hourly.stored.rows("corrections"))
        assert {row["op"] for row in hourly.stored.rows("corrections") if row["seq"] == last} == {"withdraw"}

    def rows(self, hourly: Hourly, table: str) -> Counter[tuple[Any, ...]]:
        found = hourly.stored.live("panes") if table == "panes" else hourly.stored.rows(table)
        return Counter((row["origin"], row["timestamp"], row["flight"], row["carrier"]) for row in found)
