"""Great Expectations judges as we do, every kind of expectation, by the recorded counts and by the rows
themselves.
"""

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.replaying.pane_metrics import pane_metrics
from slackwater.inspection.runs.data_docs import ValidatedRun, library_result
from slackwater.pipelines import Expectation, expect
from slackwater.pipelines.suites import Suite
from slackwater.runs.staging.suite_checks import check_suites, frame_of_pandas
from slackwater.runs.staging.validation import Check, check_panes
from tests.integration.conftest import great_expectations as great_expectations
from tests.properties import test_pane_metrics
from tests.properties.search import searched
from tests.runs.staging import test_validation

RUN = ValidatedRun("20130101T000000-0123456789abcdef", datetime(2013, 1, 2, tzinfo=UTC))
EXPECTATIONS = [
    *(item for item, *_ in test_validation.JUDGED),
    expect.between("open", True, True),
    expect.between("n", max=2**53 + 1),
    expect.in_set("mean", [float("nan"), 0.5], severity="warn"),
]


def library_results(declarations: list[Expectation], checks: list[Check]) -> list[Any]:
    pairs = [(item, asdict(check)) for item, check in zip(declarations, checks, strict=True)]
    result = library_result("departures", RUN, pairs)
    assert result.success == all(item.success for item in result.results)
    return result.results


@pytest.mark.parametrize("rows", [test_validation.PANES, test_validation.PANES[:1], []])
def test_the_library_judges_as_we_do(great_expectations: None, rows: list[tuple[Any, ...]]) -> None:
    metrics = pane_metrics(EXPECTATIONS, test_validation.panes(rows))
    checks = check_panes(EXPECTATIONS, test_validation.SCHEMA, [metrics])
    for check, item in zip(checks, library_results(EXPECTATIONS, checks), strict=True):
        assert item.success == check.passed
        severities = {"reject": "critical", "warn": "warning"}
        assert item.expectation_config.severity.value == severities[check.severity]
        assert item.result.get("unexpected_count", item.result.get("observed_value")) == check.unexpected
        assert item.result.get("element_count", check.checked) == check.checked


@given(st.lists(test_pane_metrics.expectations(), min_size=1, max_size=4), test_pane_metrics.ROWS)
@searched(10, long=150)
def test_the_library_judges_the_rows_themselves_as_we_do(
    great_expectations: None, declarations: list[Expectation], rows: list[dict[str, Any]]
) -> None:
    """As a suite they are judged by their rows, and our own expectations by metrics. NaN is left out: in a
    suite it counts as null, with us and in SQL as the greatest number.
    """
    rows = [{**row, "x": None if row["x"] != row["x"] else row["x"]} for row in rows]
    schema = test_pane_metrics.SCHEMA
    metrics = pane_metrics(declarations, pa.Table.from_pylist(rows, schema=schema))
    checks = check_panes(declarations, schema, [metrics])
    by_rows = judge_as_suite([row for row in rows if row["kind"] != "withdrawn"])
    for check, item in zip(checks, library_results(declarations, checks), strict=True):
        assert item.success == check.passed
        if item.expectation_config.type != "unexpected_rows_expectation":  # frames take no SQL
            assert by_rows(item.expectation_config) == (check.passed, check.unexpected, check.checked), check


def judge_as_suite(rows: list[dict[str, Any]]) -> Callable[[Any], tuple[bool, int, int]]:
    """Judges an expectation of the library by rows, as a suite of a pipeline: whether it is met, and how many
    of how many values break it.
    """
    table = pa.Table.from_pylist(rows, schema=test_pane_metrics.SCHEMA)
    table = table.append_column("window_start", pa.nulls(table.num_rows, test_validation.TIMESTAMP))
    staged = SimpleNamespace(
        are_none=not rows,
        are_few=True,
        shape=SimpleNamespace(key_names=("name",)),
        pandas=lambda: frame_of_pandas(table),
    )

    def judge(configuration: Any) -> tuple[bool, int, int]:
        # The library leaves out nulls by itself.
        kwargs = {name: value for name, value in configuration.kwargs.items() if name != "row_condition"}
        item = {"type": configuration.type, "kwargs": kwargs, "description": "as ours"}
        [check] = check_suites([Suite("ours", (item,))], staged)  # type: ignore[arg-type]
        assert not check.observed.startswith("Great Expectations raised"), check
        return check.passed, check.unexpected, check.checked

    return judge
