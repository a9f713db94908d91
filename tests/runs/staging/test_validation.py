"""Validation against verdicts by hand: each kind of expectation over values, nulls, NaN and withdrawn
panes, by the metrics of their parts.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.replaying.pane_metrics import pane_metrics
from slackwater.pipelines import Expectation, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.staging import validation
from slackwater.runs.staging.validation import (
    Check,
    check_assignments,
    check_collected,
    check_conservation,
    check_panes,
    check_types,
    verdict,
)

ROOT = Path(__file__).resolve().parents[2]
TIMESTAMP = pa.timestamp("us", tz="UTC")
NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)
ZEROS = "0" * 29
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("origin", pa.string()),
        ("n", pa.int64()),
        ("mean", pa.float64()),
        ("price", pa.decimal128(38, 30)),
        ("day", pa.date32()),
        ("last", TIMESTAMP),
        ("open", pa.bool_()),
    ]
)
PANES = [
    ("on_time", "EWR", 3, 0.5, Decimal("1.5"), date(2013, 1, 1), NEW_YEAR, True),
    (
        "late",
        "JFK",
        0,
        math.nan,
        Decimal("-1.5"),
        date(2012, 12, 31),
        datetime(2012, 12, 31, 23, tzinfo=UTC),
        False,
    ),
    ("late", None, None, None, None, None, None, None),
    (
        "early",
        "XXX",
        7,
        -math.inf,
        Decimal("0.1"),
        date(2013, 1, 2),
        datetime(2013, 1, 1, 4, tzinfo=UTC),
        True,
    ),
    (
        "withdrawn",
        "ZZZ",
        -99,
        999.0,
        Decimal("-99"),
        date(1900, 1, 1),
        datetime(1900, 1, 1, tzinfo=UTC),
        False,
    ),
]


def panes(rows: Sequence[tuple[Any, ...]] = PANES) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


# (expectation, whether it passes, how many of how many values break it, what was observed, a few that broke
# it)
JUDGED: list[tuple[Expectation, bool, int, int, str, list[Any] | None]] = [
    (expect.between("n", min=0), True, 0, 3, "0 … 7", None),
    (expect.between("n", min=1), False, 1, 3, "0 … 7", [0]),
    (expect.between("n", max=6, severity="warn"), False, 1, 3, "0 … 7", [7]),
    (expect.between("n", 1, 2), False, 3, 3, "0 … 7", [0, 3, 7]),
    (expect.between("n", 0.5, 10**20), False, 1, 3, "0 … 7", [0]),
    (expect.not_null("n"), False, 1, 4, "0 … 7", None),
    (expect.not_null("kind"), True, 0, 4, "early … on_time", None),
    (expect.in_set("origin", ["EWR", "JFK", "LGA"]), False, 1, 3, "EWR … XXX", ["XXX"]),
    (expect.in_set("origin", ["EWR", "JFK", "XXX"]), True, 0, 3, "EWR … XXX", None),
    (expect.between("origin", "EWR", "JFL"), False, 1, 3, "EWR … XXX", ["XXX"]),
    (expect.between("mean", min=0), False, 1, 3, "-inf … nan", ["-inf"]),
    (expect.between("mean", max=1), False, 1, 3, "-inf … nan", ["nan"]),  # NaN is greater than every number
    (expect.in_set("mean", [0.5]), False, 2, 3, "-inf … nan", ["-inf", "nan"]),
    (expect.between("price", Decimal("-1.5"), 10**9), True, 0, 3, f"-1.5{ZEROS} … 1.5{ZEROS}", None),
    (expect.between("price", Decimal("-1.4")), False, 1, 3, f"-1.5{ZEROS} … 1.5{ZEROS}", [f"-1.5{ZEROS}"]),
    (expect.between("day", date(2013, 1, 1)), False, 1, 3, "2012-12-31 … 2013-01-02", ["2012-12-31"]),
    (expect.between("last", NEW_YEAR), False, 1, 3, "2012-12-31 23:00:00+00 … 2013-01-01 "
                                                    "04:00:00+00", ["2012-12-31 23:00:00+00"]),
    (expect.between("last", NEW_YEAR.replace(tzinfo=None)), False, 1, 3, "2012-12-31 23:00:00+00 … "
                                                                         "2013-01-01 04:00:00+00",
     ["2012-12-31 23:00:00+00"]),
    (expect.in_set("open", [True]), False, 1, 3, "false … true", [False]),
]  # fmt: skip


def checks_of(expectations: Sequence[Expectation], *parts: pa.Table) -> list[Check]:
    """The checks of panes of which a task has handed over each part."""
    return check_panes(expectations, SCHEMA, [pane_metrics(expectations, part) for part in parts])


@pytest.mark.parametrize(
    "parts", [(panes(),), tuple(panes([row]) for row in PANES), (panes(PANES[:2]), panes(PANES[2:]))]
)
def test_every_expectation_is_judged_by_its_values(parts: tuple[pa.Table, ...]) -> None:
    assert checks_of([item for item, *_ in JUDGED], *parts) == [
        Check(
            item.title,
            item.column,
            item.severity,
            passed,
            observed,
            unexpected,
            checked,
            None if sample is None else json.dumps(sample),
        )
        for item, passed, unexpected, checked, observed, sample in JUDGED
    ]


def test_a_bound_without_a_zone_is_utc_wherever_the_machine_stands() -> None:
    probe = (
        "from datetime import datetime; from slackwater.pipelines import expect; "
        "from tests.runs.staging.test_validation import checks_of, panes; "
        "print(checks_of([expect.between('last', datetime(2013, 1, 1))], panes())[0].unexpected)"
    )
    environment = {**os.environ, "TZ": "America/New_York"}
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    assert done.stdout == "1\n"


@pytest.mark.parametrize("rows", [[], [PANES[-1]]], ids=["no panes", "withdrawn alone"])
def test_over_no_panes_every_expectation_passes(rows: list[tuple[Any, ...]]) -> None:
    expectations = [expect.between("n", min=1), expect.in_set("origin", ["EWR"]), expect.not_null("mean")]
    checks = checks_of(expectations, panes(rows))
    assert [(check.passed, check.observed, check.unexpected, check.checked) for check in checks] == [
        (True, "no values", 0, 0)
    ] * 3


def test_a_sample_is_the_first_few_in_order() -> None:
    rows = [("late", "EWR", n, 0.0, None, None, None, None) for n in (9, 3, 8, 4, 7, 5, 6)]
    [check] = checks_of([expect.between("n", max=2)], panes(rows))
    assert (check.unexpected, check.observed, check.sample_json) == (7, "3 … 9", "[3, 4, 5, 6, 7]")


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_a_zero_has_no_sign_in_whatever_order_the_panes_come(zeros: tuple[float, float]) -> None:
    rows = [("late", "EWR", 1, zero, None, None, None, None) for zero in zeros]
    for parts in (panes(rows),), (panes(rows[:1]), panes(rows[1:])):
        [check] = checks_of([expect.between("mean", min=1)], *parts)
        assert (check.observed, check.sample_json) == ("0.0", "[0.0, 0.0]")


def test_without_expectations_there_is_nothing_to_judge() -> None:
    assert check_panes([], SCHEMA, []) == []


def check(severity: str, passed: bool) -> Check:
    return Check("1 <= n", "n", severity, passed, "1 … 2", 0, 2, None)


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ([], "passed"),
        (["warn"], "warned"),
        (["reject"], "failed"),
        (["warn", "reject"], "failed"),
        (["reject", "warn", "warn"], "failed"),
    ],
)
def test_the_verdict_is_that_of_the_worst_broken_check(broken: list[str], expected: str) -> None:
    held = [check("reject", passed=True), check("warn", passed=True)]
    assert verdict([*held, *(check(severity, passed=False) for severity in broken)]) == expected
    assert expected in (validation.PASSED, validation.WARNED, validation.FAILED)


COUNTS = {
    "rows_read": 15,
    "rows_filtered": 1,
    "rows_duplicate": 0,
    "rows_accepted": 2,
    "rows_late": 3,
    "rows_unassigned": 4,
    "rows_quarantined": 5,
}


def test_rows_that_are_all_accounted_for_are_conserved() -> None:
    check = check_conservation({**COUNTS, "rows_folded": 99, "assignments_missed": 99})
    assert (check.passed, check.severity, check.unexpected, check.checked) == (True, "reject", 0, 15)
    assert (
        check.observed == "15 read, 15 accounted for: 1 filtered, 0 duplicate, 2 accepted, 3 late, "
        "4 unassigned, 5 quarantined"
    )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("more", [1, -1])
def test_a_single_row_too_many_or_too_few_is_seen(count: str, more: int) -> None:
    check = check_conservation({**COUNTS, count: COUNTS[count] + more})
    assert (check.passed, check.unexpected) == (False, 1)
    assert verdict([check]) == "failed"


ASSIGNMENTS = {
    "assignments_before": 20,
    "assignments_made": 7,
    "assignments_open": 11,
    "assignments_cleaned": 14,
}


def test_assignments_that_are_all_accounted_for_are_conserved() -> None:
    check = check_assignments({"assignments_missed": 2, "elements_never_fired": 3}, ASSIGNMENTS)
    assert (check.passed, check.severity, check.unexpected, check.checked) == (True, "reject", 0, 27)
    assert (
        check.observed
        == "20 before, 7 made, 2 missed, 11 open, 14 cleaned up, of which 3 were never in a firing"
    )


@pytest.mark.parametrize("count", ASSIGNMENTS)
@pytest.mark.parametrize("more", [1, -1])
def test_a_single_assignment_too_many_or_too_few_is_seen(count: str, more: int) -> None:
    check = check_assignments(
        {"assignments_missed": 2, "elements_never_fired": 0},
        {**ASSIGNMENTS, count: ASSIGNMENTS[count] + more},
    )
    assert (check.passed, check.unexpected) == (False, 1)


@pytest.mark.parametrize(("earliest", "passed"), [(None, True), (101, True), (100, False), (99, False)])
def test_windows_up_to_the_mark_may_not_fire(earliest: int | None, passed: bool) -> None:
    check = check_collected(100, earliest)
    assert (check.passed, check.severity) == (passed, "reject")


@pytest.mark.parametrize(
    ("expectation", "told"),
    [
        (expect.between("n", min="1"), r"expect 1 <= n: column 'n' is int64, which takes numbers, not '1'"),
        (expect.in_set("origin", [1, 2]), "column 'origin' is string, which takes text, not 1"),
        (expect.in_set("n", [True]), "which takes numbers, not True"),
        (expect.in_set("open", [1]), "column 'open' is bool, which takes True and False, not 1"),
        (expect.between("day", NEW_YEAR), "column 'day' is date32.*takes datetime.date, not datetime"),
        (
            expect.between("last", "2013-01-01"),
            "column 'last' is timestamp.*takes datetime.datetime .UTC where it has no zone., not '2013",
        ),
        (expect.between("price", max="1"), "column 'price' is decimal128.*takes numbers, not '1'"),
    ],
)
def test_a_bound_that_its_column_cannot_be_compared_with_is_refused(
    expectation: Expectation, told: str
) -> None:
    with pytest.raises(PipelineError, match=told):
        check_types([expect.not_null("n"), expectation], {field.name: field.type for field in SCHEMA})
    with pytest.raises(PipelineError, match=told):
        check_panes([expectation], SCHEMA, [])
