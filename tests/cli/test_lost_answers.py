"""When storage makes every commit and loses its answers, each verb does the same as otherwise, once, and says
so.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.lost_answers import WAYS, lost_answers

pytestmark = pytest.mark.usefixtures("without_spark")

TABLES = (
    "runs",
    "attempts",
    "validations",
    "panes",
    "window_state",
    "timers",
    "source_progress",
    "corrections",
    "published",
)

# Verb -> what is done before it, what it is, the kinds of the rows that it adds to the ledger, and what it
# says.
RUN = ("run", "--to", "2013-01-04")
FORK = ("state fork", "fix", "--run", "1")
CASES: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...], list[str], str]] = {
    "run": ([], ("run", "--to", "2013-01-03"), ["run", "run"], "rows 529"),
    "publish": (
        [("run", "--to", "2013-01-03", "--no-publish")],
        ("publish",),
        ["run", "run"],
        "published run 2",
    ),
    "backfill": (
        [RUN],
        ("backfill", "--from", "2013-01-02", "--to", "2013-01-03", "--slice", "12h"),
        ["fork", "run", "run", "publish", "drop"],
        "published",
    ),
    "close": ([RUN], ("state close",), ["close"], "closed"),
    "restore": ([RUN], ("state restore", "2"), ["restore"], "main is what it was after 2, by row 4"),
    "fork": ([RUN], FORK, ["fork"], "the branch fix begins behind run 1"),
    "drop": ([RUN, FORK], ("branches drop", "fix"), ["drop"], "fix"),
    "publish of a branch": (
        [RUN, FORK, ("run", "--to", "2013-01-04", "--branch", "fix")],
        ("publish", "fix"),
        ["publish", "drop"],
        "published",
    ),
}


def verb(hourly: Hourly, words: tuple[str, ...]) -> int:
    name, *others = words
    return here(*name.split(), "hourly", *others, *hourly.where)


@pytest.mark.first_fast
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_a_verb_whose_commits_all_lose_their_answers_does_its_work_once(
    hourly: Hourly, new_output: Callable[[], str], case: str, way: str
) -> None:
    before, words, kinds, told = CASES[case]
    for earlier in before:
        if earlier == RUN:
            hourly.begin(RUN[-1])
        else:
            assert verb(hourly, earlier) == 0
    rows = len(hourly.stored.ledger()) if before and before[0][-1] != "--no-publish" else 0
    new_output()
    with lost_answers(way, *TABLES) as lost:
        assert verb(hourly, words) == 0, new_output()
    text = new_output()
    assert "runs" in lost
    assert told in text and "another run" not in text and "Nothing was changed" not in text
    ledger = hourly.stored.ledger()
    assert [row["kind"] for row in ledger[rows:]] == kinds
    assert [row["seq"] for row in ledger] == list(range(1, len(ledger) + 1))
    assert hourly.stored.rolled_forward() == max(row["seq"] for row in ledger if row["branch"] == "main")
    assert_corrections_make_published(hourly.stored)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_what_is_appended_behind_whatever_came_before_is_not_appended_twice(hourly: Hourly, way: str) -> None:
    with lost_answers(way, *TABLES):
        assert hourly.run_here("--to", "2013-01-03") == 0
    assert_as_model(hourly.stored, "2013-01-03")
    for table, identity in (
        ("attempts", ("run_id", "outcome")),
        ("validations", ("run_id", "expectation", "column_name")),
    ):
        rows = Counter(tuple(row[name] for name in identity) for row in hourly.stored.rows(table))
        assert rows and set(rows.values()) == {1}, table
