"""Suites of Great Expectations over staged panes, against verdicts by hand: what they are validated on, how
results become checks, and what becomes of what the library raises.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.examples.departures import departures
from slackwater.pipelines import Pipeline, expect
from slackwater.pipelines.suites import Suite
from slackwater.runs.staging import suite_checks
from slackwater.runs.staging.suite_checks import RowsToPublish, check_suites
from slackwater.runs.staging.validation import Check
from slackwater.tables.run_files.staging import write_staged
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing import PurgingTrigger
from tests.integration.conftest import great_expectations as great_expectations

pytestmark = pytest.mark.usefixtures("great_expectations")

SHAPE = Shape(
    keys=(("origin", pa.string()),),
    results=(("flights", pa.int64()), ("mean_dep_delay", pa.float64()), ("max_dep_delay", pa.int64())),
    parts=(),
    source=(),
)
LARGE = 2**53 + 1  # a double would round it
# (origin, hour, firing, kind, flights, mean, max): EWR 5 is refired, LGA 6 is withdrawn in the end.
PANES = [
    ("EWR", 5, 1, "on_time", 2, 4.5, 9),
    ("EWR", 5, 2, "late", 3, -1.5, 9),
    ("JFK", 5, 1, "on_time", 40, float("nan"), None),
    ("JFK", 6, 1, "on_time", 7, None, LARGE),
    ("LGA", 6, 1, "on_time", 99, 1000.0, 1000),
    ("LGA", 6, 2, "withdrawn", None, None, None),
]
Staged = Callable[..., RowsToPublish]


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    """Stages panes in a warehouse, and gives the rows that they would be in `published`."""

    def stage(rows: Sequence[tuple[Any, ...]] = PANES, pipeline: Pipeline = departures) -> RowsToPublish:
        tables = Warehouse(str(tmp_path / "warehouse")).tables("departures", SHAPE).ensure()
        panes = tables["panes"]
        names = ("origin", "hour", "firing", "kind", "flights", "mean_dep_delay", "max_dep_delay")
        values = [dict(zip(names, row, strict=True)) for row in rows]
        for row in values:
            hour = row.pop("hour")
            row |= {"key_group": 1, "ordinal": 0, "elements": 1, "run_id": "r1"}
            row |= {"window_start": datetime(2013, 1, 1, hour, tzinfo=UTC)}
            row |= {"window_end": datetime(2013, 1, 1, hour + 1, tzinfo=UTC)}
        table = pa.Table.from_pylist(values, schema=panes.schema).drop_columns(["run_id"])
        files = [write_staged(panes.uri, run_id, "driver", table) for run_id in ("r0", "r1")] if rows else []
        panes.commit_files(files)
        return RowsToPublish(pipeline, SHAPE, panes, "r1", [file.path for file in files[1:]])

    return stage


def suite(*expectations: dict[str, Any], severity: Any = None, custom: str | None = None) -> Suite:
    return Suite("orders", expectations, severity, custom)


def item(kind: str, description: str = "", severity: str = "critical", **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs, "severity": severity, "description": description}


ABOVE_20 = {"type": "comparison", "column": {"name": "flights"}, "operator": ">", "parameter": 20}


# What a suite may say, and what is to be said of the rows that PANES publish: EWR 5 (3, -1.5, 9), JFK 5
# (40, null, null) and JFK 6 (7, null, 2^53 + 1): (expectation, passed, unexpected, checked, samples).
JUDGED: list[tuple[dict[str, Any], bool, int, int, list[Any] | None]] = [
    (item("column_values_to_be_between", column="flights", min_value=3, max_value=40), True, 0, 3, None),
    (item("column_values_to_be_between", column="flights", max_value=6), False, 2, 3, [40, 7]),
    (item("column_values_to_be_between", column="mean_dep_delay", min_value=0), False, 1, 1, [-1.5]),
    (item("column_values_to_not_be_null", column="mean_dep_delay"), False, 2, 3, [None, None]),
    (item("column_values_to_be_in_set", column="origin", value_set=["JFK"]), False, 1, 3, ["EWR"]),
    (item("column_values_to_be_in_set", column="max_dep_delay", value_set=[9, 2**53]), False, 1, 2, [LARGE]),
    (item("compound_columns_to_be_unique", column_list=["origin", "window_start"]), True, 0, 3, None),
    (item("column_values_to_be_unique", column="origin"), False, 2, 3, ["JFK", "JFK"]),
    (
        item("column_values_to_be_between", column="flights", max_value=6, row_condition=ABOVE_20),
        False,
        1,
        1,
        [40],
    ),
    (item("column_max_to_be_between", column="flights", max_value=40), True, 0, 1, None),
    (item("column_sum_to_be_between", column="flights", max_value=49), False, 1, 1, None),
    (item("table_row_count_to_equal", value=3), True, 0, 1, None),
    (item("column_values_to_be_in_set", column="kind", value_set=["on_time", "late"]), True, 0, 3, None),
]  # fmt: skip


def judgements(checks: Sequence[Check]) -> list[tuple[bool, int, int, list[Any] | None]]:
    samples = [None if check.sample_json is None else json.loads(check.sample_json) for check in checks]
    return [
        (check.passed, check.unexpected, check.checked, sample)
        for check, sample in zip(checks, samples, strict=True)
    ]


def test_a_suite_judges_the_rows_that_the_run_would_publish(staged: Staged) -> None:
    checks = check_suites([suite(*(item for item, *_ in JUDGED))], staged())
    assert judgements(checks) == [tuple(judged) for _, *judged in JUDGED]
    assert checks[1].expectation == "orders: expect_column_values_to_be_between(column=flights, max_value=6)"
    assert checks[1].observed == (
        "2 of 3 values unexpected, the first at origin JFK, window_start 2013-01-01T05:00:00+00:00"
    )
    assert checks[9].observed == "40"
    assert all(json.loads(check.result_json or "")["success"] == check.passed for check in checks)


@pytest.mark.slow
@pytest.mark.spark
def test_as_a_frame_of_spark_they_are_judged_as_in_pandas(
    staged: Staged, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_checks, "PANDAS_ROWS", len(PANES) - 1)
    rows = staged()
    assert not rows.are_few
    checks = check_suites([suite(*(item for item, *_ in JUDGED))], rows)
    assert judgements(checks) == [tuple(judged) for _, *judged in JUDGED]


@pytest.mark.slow
@pytest.mark.spark
def test_a_query_is_validated_on_spark_however_few_the_rows_are(staged: Staged, spark: Any) -> None:
    query = {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT origin, flights FROM {batch} WHERE flights > 20"},
    }
    rows = staged()
    checks = check_suites([suite(query, item("table_row_count_to_equal", value=3))], rows)
    assert [check.passed for check in checks] == [False, True]
    assert json.loads(checks[0].sample_json or "") == [{"origin": "JFK", "flights": 40}]
    assert checks[0].observed == "1 unexpected rows"


def test_a_purging_triggers_firings_are_all_validated(staged: Staged) -> None:
    purging = replace(departures, trigger=PurgingTrigger.of(departures.effective_trigger))
    checks = check_suites([suite(item("table_row_count_to_equal", value=5))], staged(pipeline=purging))
    assert [check.passed for check in checks] == [True]


@pytest.mark.parametrize("rows", [[], PANES[-1:]], ids=["no panes", "withdrawn alone"])
def test_over_no_rows_every_expectation_of_a_suite_passes(
    staged: Staged, rows: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_checks, "ephemeral_context", None)  # the library is not asked
    checks = check_suites([suite(item("table_row_count_to_be_between", min_value=1))], staged(rows))
    assert [(check.passed, check.observed, check.checked) for check in checks] == [(True, "no values", 0)]


def test_what_the_library_raises_is_a_failed_check_and_the_others_are_judged(staged: Staged) -> None:
    parameter_item = item("column_values_to_be_between", column="flights", min_value={"$PARAMETER": "least"})
    raising = [
        item("column_values_to_not_be_null", "a column that is not there", column="freight"),
        item("column_values_to_be_heavy", "a type that nobody has defined", column="flights"),
        item("column_values_to_be_between", "no bounds", column="flights"),
        {**parameter_item, "description": "a parameter without a value", "severity": "warning"},
    ]
    checks = check_suites([suite(*raising, item("table_row_count_to_equal", value=3))], staged())
    assert [(check.expectation, check.severity, check.passed) for check in checks[:-1]] == [
        (f"orders: {item['description']}", "warn" if item["severity"] == "warning" else "reject", False)
        for item in raising
    ]
    for check, reason in zip(checks, ["freight", "not found", "cannot both be None", "least"], strict=False):
        assert check.observed.startswith("Great Expectations raised ") and reason in check.observed
    assert checks[-1].passed


CUSTOM = """
from great_expectations.expectations import ExpectColumnValuesToBeBetween

class ExpectFlightsToBeFew(ExpectColumnValuesToBeBetween):
    column: str = "flights"
    max_value: int = 20
"""


def test_an_expectation_of_the_users_own_is_loaded_from_its_file(staged: Staged) -> None:
    own = {"type": "expect_flights_to_be_few", "kwargs": {}}
    checks = check_suites([suite(own, custom=CUSTOM)], staged())
    assert judgements(checks) == [(False, 1, 3, [40])]
    broken = check_suites([suite(own, custom="raise LookupError('nothing there')")], staged())
    assert [check.observed for check in broken] == ["Great Expectations raised LookupError: nothing there"]


@pytest.mark.parametrize(
    ("severity_of_suite", "severities"),
    [(None, ["reject", "warn", "warn"]), ("warn", ["warn"] * 3), ("reject", ["reject"] * 3)],
)
def test_an_expectation_has_the_severity_of_its_suite_or_its_own(
    staged: Staged, severity_of_suite: Any, severities: list[str]
) -> None:
    items = [
        item("table_row_count_to_equal", severity=name, value=9) for name in ("critical", "warning", "info")
    ]
    checks = check_suites([suite(*items, severity=severity_of_suite)], staged())
    assert [check.severity for check in checks] == severities
    assert not any(check.passed for check in checks)


def test_a_suite_and_our_own_expectations_are_parts_of_one_declaration() -> None:
    own = expect.between("flights", min=1)
    pipeline = replace(departures, expect=[own, suite(item("table_row_count_to_equal", value=3))])
    assert (pipeline.pane_expectations, len(pipeline.suites)) == ((own,), 1)
