"""Declarations of expectations: titles, and refusals."""

import pickle
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from slackwater.pipelines import expect
from slackwater.pipelines.errors import PipelineError


@pytest.mark.parametrize(
    ("expectation", "title"),
    [
        (expect.between("n", min=1), "1 <= n"),
        (expect.between("n", max=1.5), "n <= 1.5"),
        (expect.between("n", -60, 1500), "-60 <= n <= 1500"),
        (expect.between("n", 0, 0), "0 <= n <= 0"),
        (expect.in_set("origin", ["EWR", "JFK"]), "origin in ['EWR', 'JFK']"),
        (expect.not_null("n"), "n is not null"),
        (expect.rows(1000), "1000 <= rows"),
        (expect.rows(expect.history(0.5), 9), "0.5 x median of 10 runs <= rows <= 9"),
        (expect.late_share(0.05), "late share <= 0.05"),
        (
            expect.quarantine_share(expect.history(3, runs=5, of="mean")),
            "quarantine share <= 3 x mean of 5 runs",
        ),
        (
            expect.freshness(timedelta(hours=2)),
            "newest event at most 2:00:00 before the slice's end",
        ),
    ],
)
def test_a_title_says_the_rule(expectation: Any, title: str) -> None:
    assert expectation.title == title
    assert expectation.severity == "reject"
    assert pickle.loads(pickle.dumps(expectation)) == expectation


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: expect.between("n"), "expect.between('n'): give min, max or both"),
        (lambda: expect.between("n", 2, 1), "min 2 is greater than max 1"),
        (lambda: expect.between("n", 2, "1"), "min 2 and max '1' can't be compared"),
        (lambda: expect.between("n", float("nan")), "a bound is NaN"),
        (lambda: expect.in_set("n", []), "expect.in_set('n'): the set of values is empty"),
        (lambda: expect.in_set("n", "EWR"), "the values are 'EWR'; give a list"),
        (lambda: expect.in_set("n", 3), "the values are 3; give a list"),  # type: ignore[arg-type]
        (
            lambda: expect.in_set("n", ["a", None]),
            "None is among the values; nulls are ignored unless expect.not_null asks",
        ),
        (lambda: expect.not_null(""), "the column is missing"),
        (lambda: expect.rows(), "expect.rows: give min, max or both"),
        (lambda: expect.rows(3, 2), "min 3 is greater than max 2"),
        (lambda: expect.rows(-1), "-1 is no bound; give a number from 0, or expect.history"),
        (lambda: expect.rows(True), "True is no bound"),
        (lambda: expect.rows(float("inf")), "inf is no bound"),
        (lambda: expect.rows("5"), "'5' is no bound"),  # type: ignore[arg-type]
        (lambda: expect.late_share(5), "expect.late_share: max is 5; a share is at most 1"),
        (lambda: expect.quarantine_share(None), "expect.quarantine_share: give max"),  # type: ignore[arg-type]
        (lambda: expect.freshness(3600), "max is 3600; it is a datetime.timedelta"),  # type: ignore[arg-type]
        (lambda: expect.freshness(timedelta(-1)), "it is a datetime.timedelta, not below 0"),
        (lambda: expect.rows(1, severity="no"), "severity is 'no'"),  # type: ignore[arg-type]
        (lambda: expect.history(0), "expect.history: times is 0; it is a number above 0"),
        (lambda: expect.history(1, runs=0), "runs is 0; it is 1 to 1000"),
        (lambda: expect.history(1, of="mode"), "of is 'mode'; it is 'median' or 'mean'"),  # type: ignore[arg-type]
        (lambda: expect.not_null("n", severity="error"), "severity is 'error'; it is 'reject' or 'warn'"),  # type: ignore[arg-type]
    ],
)
def test_an_expectation_that_could_not_fail_or_not_pass_is_refused(
    make: Callable[[], object], rule: str
) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        make()
