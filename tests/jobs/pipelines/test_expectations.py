"""Declarations of expectations: titles, and refusals."""

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.jobs.pipelines import expect
from slackwater.jobs.pipelines.errors import PipelineError


@pytest.mark.parametrize(
    ("expectation", "title"),
    [
        (expect.between("n", min=1), "1 <= n"),
        (expect.between("n", max=1.5), "n <= 1.5"),
        (expect.between("n", -60, 1500), "-60 <= n <= 1500"),
        (expect.between("n", 0, 0), "0 <= n <= 0"),
        (expect.in_set("origin", ["EWR", "JFK"]), "origin in ['EWR', 'JFK']"),
        (expect.not_null("n"), "n is not null"),
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
        (lambda: expect.not_null("n", severity="error"), "severity is 'error'; it is 'reject' or 'warn'"),  # type: ignore[arg-type]
    ],
)
def test_an_expectation_that_could_not_fail_or_not_pass_is_refused(
    make: Callable[[], object], rule: str
) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        make()
