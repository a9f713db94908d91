"""Attempts that did not come to their end, and slices that the schedule asks for: green, yellow and red."""

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from slackwater import Health
from slackwater.inspection.health.findings import Colour
from slackwater.inspection.health.runs import judge_attempts, judge_schedule
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter, owner_of
from tests.inspection.health.subjects import HOUR, MINUTE, Lineage, declared, figures, subject
from tests.tables.ledger.ledger_rows import day

NOW = day(2) + 2 * HOUR


@pytest.fixture
def two_days(lineage: Lineage) -> Lineage:
    lineage.commit(0)
    lineage.commit(1)
    return lineage


def attempt(
    lineage: Lineage, run_id: str, number: int, at: datetime = NOW - 20 * MINUTE, **values: Any
) -> None:
    """An attempt at the slice of the n-th day."""
    row = Attempt(run_id=run_id, parent_seq=2, slice_start=day(number), slice_end=day(number + 1), at=at)
    AttemptsWriter(lineage.tables["attempts"]).record(row, at, **values)


def judged(lineage: Lineage) -> tuple[Colour | None, str, float | None]:
    finding = judge_attempts(lineage.subject(NOW))
    return finding.colour, finding.text, finding.value


def test_runs_that_are_all_committed_are_green(two_days: Lineage) -> None:
    attempt(two_days, "main 1", 1, day(2) + 90 * MINUTE, outcome="committed")
    assert judged(two_days) == (Colour.GREEN, "no run was rejected or left unfinished", 0)


def test_a_run_that_could_use_none_of_its_rows_is_red(lineage: Lineage) -> None:
    lineage.commit(0)
    lineage.commit(1, rows_read=7, rows_filtered=2, rows_quarantined=5, rows_accepted=0)
    colour, text, count = judged(lineage)
    assert (colour, count) == (Colour.RED, 1)
    assert "could use none of its 5 rows: all were quarantined" in text
    lineage.commit(2, rows_read=7, rows_filtered=2, rows_quarantined=4, rows_accepted=1)
    assert judged(lineage)[0] is Colour.GREEN


def test_a_rejected_run_is_red_and_names_the_checks(two_days: Lineage) -> None:
    attempt(two_days, "third", 2, outcome="rejected", exit_code=4)
    checks = [
        {"run_id": run_id, "expectation": name, "severity": severity, "passed": passed}
        for run_id, name, severity, passed in [
            ("third", "n between 1 and 9", "reject", False),
            ("third", "n not null", "reject", True),
            ("third", "few late rows", "warn", False),
            ("main 1", "origin in set", "reject", False),
        ]
    ]
    folder = two_days.tables["validations"]
    folder.append(
        pa.Table.from_pylist([{**dict.fromkeys(folder.schema.names), **row} for row in checks], folder.schema)
    )
    assert judged(two_days) == (Colour.RED, "the run of 2013-01-03 was rejected: n between 1 and 9", 1)


@pytest.mark.parametrize(
    ("exit_codes", "colour", "text"),
    [
        ([1], Colour.RED, "the run of 2013-01-03 failed: no space left"),
        ([3], Colour.YELLOW, "the run of 2013-01-03 failed: no space left"),
        ([3, 3], Colour.YELLOW, "the run of 2013-01-03 failed 2 times: no space left"),
        ([3, 3, 3], Colour.RED, "the run of 2013-01-03 failed 3 times: no space left"),
    ],
)
def test_a_failure_is_red_where_another_try_does_not_heal_it(
    two_days: Lineage, exit_codes: list[int], colour: Colour, text: str
) -> None:
    for number, exit_code in enumerate(exit_codes):
        at = NOW - (20 - number) * MINUTE
        error = f"no space left:\n  {'disk ' * 40}\nFree 4 GB, e.g. with `rm x`."
        attempt(two_days, f"try {number}", 2, at, outcome="failed", exit_code=exit_code, error=error)
    whole_text = f"{text}: {'disk ' * 40}Free 4 GB, e.g. with `rm x`."
    assert judged(two_days) == (colour, whole_text, 1)


def test_of_a_traceback_the_last_line_is_the_reason(two_days: Lineage) -> None:
    error = "Traceback (most recent call last):\n  File \"x.py\", line 3\nKeyError: 'fare'\n"
    attempt(two_days, "try", 2, outcome="failed", exit_code=1, error=error)
    assert judged(two_days) == (Colour.RED, "the run of 2013-01-03 failed: KeyError: 'fare'", 1)


def test_a_failure_that_a_later_try_has_healed_is_green(two_days: Lineage) -> None:
    attempt(two_days, "first", 2, NOW - 20 * MINUTE, outcome="failed", exit_code=1)
    attempt(two_days, "second", 2, NOW - 10 * MINUTE, outcome="committed")
    assert judged(two_days)[0] is Colour.GREEN


def test_a_claim_is_green_while_its_process_may_live_and_yellow_afterwards(two_days: Lineage) -> None:
    claim = {"outcome": "claimed", "owner": "elsewhere/x/1/1"}
    attempt(two_days, "third", 2, NOW - MINUTE, expires_at=NOW + 2 * MINUTE, **claim)
    assert judged(two_days)[:2] == (Colour.GREEN, "the run of 2013-01-03 is at work")
    finding = judge_attempts(two_days.subject(NOW + 4 * MINUTE))
    assert finding.colour is Colour.YELLOW
    assert finding.text == "the run of 2013-01-03 stopped 5 minutes ago without a result: it was killed"


def test_the_claim_of_a_process_that_runs_no_more_is_yellow_at_once(two_days: Lineage) -> None:
    dead = owner_of(2**22 - 1, "1")
    attempt(two_days, "third", 2, NOW - MINUTE, expires_at=NOW + 2 * MINUTE, outcome="claimed", owner=dead)
    assert judged(two_days)[0] is Colour.YELLOW


def test_a_staged_run_is_yellow_once_it_has_waited(two_days: Lineage) -> None:
    attempt(two_days, "third", 2, NOW - 9 * MINUTE, outcome="staged")
    assert judged(two_days)[0] is Colour.GREEN
    finding = judge_attempts(two_days.subject(NOW + 24 * HOUR))
    assert (finding.colour, finding.command) == (Colour.YELLOW, "slackwater publish flights third")


def test_a_restatement_is_yellow_at_worst_and_only_since_the_head(two_days: Lineage) -> None:
    attempt(two_days, "early", 0, day(1) + 30 * MINUTE, outcome="rejected")
    assert judged(two_days)[0] is Colour.GREEN
    attempt(two_days, "late", 0, NOW - MINUTE, outcome="rejected")
    assert judged(two_days)[:2] == (
        Colour.YELLOW,
        "the restatement of 2013-01-01 was rejected: by validation",
    )


def test_the_worst_of_several_is_named_and_the_others_are_counted(two_days: Lineage) -> None:
    attempt(two_days, "restating", 0, outcome="failed", exit_code=1)
    attempt(two_days, "third", 2, outcome="failed", exit_code=1, step="replay")
    assert judged(two_days) == (Colour.RED, "the run of 2013-01-03 failed: at replay; and 1 more", 2)


def test_attempts_of_a_lineage_without_runs_count(lineage: Lineage) -> None:
    attempt(lineage, "first", 0, outcome="failed", exit_code=1, error="no source")
    assert judged(lineage)[0] is Colour.RED


# Daily slices, settled ten minutes after midnight. The head is at 4 January 00:00: the run of that day is due
# at 5 January 00:10, yellow an hour and red six hours later.
NIGHTLY = [figures(number) for number in range(3)]


@pytest.mark.parametrize(
    ("now", "colour", "overdue"),
    [
        (day(4) + 10 * MINUTE, Colour.GREEN, 0),
        (day(4) + 69 * MINUTE, Colour.GREEN, 59 * 60),
        (day(4) + 70 * MINUTE, Colour.YELLOW, 3600),
        (day(4) + 369 * MINUTE, Colour.YELLOW, 359 * 60),
        (day(4) + 370 * MINUTE, Colour.RED, 6 * 3600),
    ],
)
def test_a_run_is_overdue_from_the_end_of_its_slice_and_settle_on(
    now: datetime, colour: Colour, overdue: float
) -> None:
    finding = judge_schedule(subject(NIGHTLY, now=now))
    assert (finding.colour, finding.value) == (colour, overdue)


def test_a_schedule_of_last_days_of_months_is_overdue_as_any_other() -> None:
    pipeline, last_day = declared(schedule="0 0 L * *"), day(30)
    assert judge_schedule(subject(NIGHTLY, pipeline, now=last_day + 69 * MINUTE)).colour is Colour.GREEN
    finding = judge_schedule(subject(NIGHTLY, pipeline, now=last_day + 70 * MINUTE))
    assert (finding.colour, finding.value) == (Colour.YELLOW, 3600)
    assert finding.text.startswith("the head is at 2013-01-04 00:00: a run is missing")


def test_missing_runs_are_counted() -> None:
    finding = judge_schedule(subject(NIGHTLY, now=day(6) + 10 * MINUTE))
    assert finding.text == "the head is at 2013-01-04 00:00: 3 runs are missing, overdue by 2 days"
    assert finding.command == "slackwater plan flights"


def test_thresholds_are_the_pipelines_own() -> None:
    pipeline = declared(Health(overdue=(None, timedelta(days=2))))
    assert judge_schedule(subject(NIGHTLY, pipeline, now=day(5))).colour is Colour.GREEN
    assert judge_schedule(subject(NIGHTLY, pipeline, now=day(7))).colour is Colour.RED


def test_a_lineage_that_replays_history_is_never_overdue() -> None:
    replayed = [figures(number, committed_at=day(5000)) for number in range(10)]
    finding = judge_schedule(subject(replayed, now=day(5001)))
    assert (finding.colour, finding.value) == (Colour.GREEN, None)
    assert finding.text.startswith("it replays history: it has come to 2013-01-11 00:00")


def test_a_lineage_that_has_caught_up_once_follows_the_clock() -> None:
    # The first run with a wait of less than two intervals: committed before 13 January 00:10.
    caught_up = [figures(number, committed_at=day(12)) for number in range(11)]
    assert judge_schedule(subject(caught_up, now=day(12) + 2 * HOUR)).colour is Colour.YELLOW
    not_yet = [figures(number, committed_at=day(13) + 10 * MINUTE) for number in range(11)]
    assert judge_schedule(subject(not_yet, now=day(14))).colour is Colour.GREEN


@pytest.mark.parametrize("settings", [{"schedule": None}, {"schedule": "0 0 2 1 * 0 2013"}])
def test_without_a_next_time_nothing_is_overdue(settings: dict[str, Any]) -> None:
    assert judge_schedule(subject(NIGHTLY, declared(**settings), now=day(99))).colour is Colour.GREEN


def test_what_is_not_known_is_not_judged() -> None:
    assert judge_schedule(subject(NIGHTLY, None)).colour is None
