"""Metrics of panes merge: however panes are divided among tasks, and in whatever order the parts are merged,
the checks are those of all panes at once, which are the model's.
"""

import itertools
import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.pane_metrics import merge_metrics, pane_metrics
from slackwater.pipelines import Expectation, Pipeline, expect
from slackwater.runs.staging.validation import Check, check_panes
from tests.model.expectations import judge
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import cuts_between, replays

NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "kind": (pa.string(), ["on_time", "late", "withdrawn"]),
    "name": (pa.string(), ["", "EWR", "ключ", "𝒳", '"']),
    "tiny": (pa.int8(), [-128, -1, 0, 1, 127]),
    "n": (pa.int64(), [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "x": (pa.float64(), [-math.inf, -2.5, -0.0, 0.0, 5e-324, 0.1, 1e300, math.inf, math.nan]),
    "amount": (pa.decimal128(12, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("9999999999.99")]),
    "day": (pa.date32(), [date(1968, 2, 29), date(2013, 1, 1)]),
    "seen": (pa.timestamp("us", tz="UTC"), [NEW_YEAR - timedelta(microseconds=1), NEW_YEAR]),
    "flag": (pa.bool_(), [False, True]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
COLUMNS = st.sampled_from([name for name in VALUES if name != "kind"])


@st.composite
def expectations(draw: st.DrawFn) -> Expectation:
    """One expectation of any kind, with bounds and values that its column has."""
    column = draw(COLUMNS)
    severity = draw(st.sampled_from(["reject", "warn"]))
    values = [value for value in VALUES[column][1] if value == value]
    kind = draw(st.sampled_from(["between", "in_set", "not_null"]))
    if kind == "not_null":
        return expect.not_null(column, severity=severity)
    if kind == "in_set":
        allowed = draw(st.lists(st.sampled_from(VALUES[column][1]), min_size=1, max_size=3))
        return expect.in_set(column, allowed, severity=severity)
    low, high = sorted(draw(st.tuples(st.sampled_from(values), st.sampled_from(values))))
    low, high = draw(st.sampled_from([(low, None), (None, high), (low, high)]))
    return expect.between(column, low, high, severity=severity)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(VALUES["kind"][1]),
            **{name: st.none() | st.sampled_from(VALUES[name][1]) for name in VALUES if name != "kind"},
        }
    ),
    max_size=30,
)


def table_of(rows: list[dict[str, Any]], *, has_dictionaries: bool = False) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    if has_dictionaries:
        columns = [column.dictionary_encode() for column in table.columns]
        return pa.table(columns, names=table.column_names)
    return table


@given(st.lists(expectations(), min_size=1, max_size=5), ROWS, st.data())
@searched(25, long=500)
def test_checks_are_those_of_the_model_however_the_panes_are_divided(
    declarations: list[Expectation], rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4), label="cuts"))
    bounds = [0, *cuts, len(rows)]
    parts = [
        pane_metrics(declarations, table_of(rows[start:end], has_dictionaries=data.draw(st.booleans())))
        for start, end in itertools.pairwise(bounds)
    ]
    while data.draw(st.booleans(), label="merge two of them first") and len(parts) > 1:
        first, second = data.draw(st.permutations(parts))[:2]
        others = [part for part in parts if part is not first and part is not second]
        parts = [*others, merge_metrics(declarations, [first, second])]
    checks = check_panes(declarations, SCHEMA, data.draw(st.permutations(parts)))
    assert checks == check_panes(declarations, SCHEMA, [pane_metrics(declarations, table_of(rows))])
    check_against_model(declarations, rows, checks)


def check_against_model(
    declarations: list[Expectation], rows: list[dict[str, Any]], checks: list[Check]
) -> None:
    standing_rows = [row for row in rows if row["kind"] != "withdrawn"]
    for expectation, check in zip(declarations, checks, strict=True):
        judgement = judge(expectation, [row[expectation.column] for row in standing_rows])
        assert (check.expectation, check.column_name) == (expectation.title, expectation.column)
        assert (check.severity, check.passed) == (expectation.severity, judgement.is_met)
        assert (check.unexpected, check.checked) == (judgement.unexpected, judgement.checked)
        sample = json.loads(check.sample_json) if check.sample_json else []
        assert [read_back(text, expectation.column) for text in sample] == [
            comparable(value) for value in judgement.sample
        ]
        low, _, high = check.observed.partition(" … ")
        if judgement.bounds is None:
            assert check.observed == "no values"
        else:
            observed = [read_back(text, expectation.column) for text in (low, high or low)]
            assert observed == [comparable(value) for value in judgement.bounds]


def read_back(value: Any, column: str) -> Any:
    """The value of a column that stands in a check as text, or as JSON has it."""
    kind = SCHEMA.field(column).type
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else value == "true"
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_floating(kind):
        return comparable(float(value))
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if pa.types.is_timestamp(kind) else value


def comparable(value: Any) -> Any:
    """The value, and "nan" for NaN, which equals nothing."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def pipeline_with_expectations(rules: Any, purging: bool) -> Pipeline:
    """The pipeline of the rules, which expects something of its key and of results of each kind."""
    return replace(
        pipeline_of(rules, purging),
        expect=[
            expect.in_set("key", ["a", "b"], severity="warn"),
            expect.between("n", 2, 3),
            *(expect.between(name, -1, 2) for name in ("total", "average", "least")),
            *(expect.not_null(name) for name in ("least", "opening", "closing")),
        ],
    )


@pytest.mark.slow
@given(replays(), st.data())
@searched(2, long=12)
def test_engines_take_the_same_metrics_in_any_number_of_tasks(replay: Any, data: st.DataObject) -> None:
    rules, events = replay
    pipeline = pipeline_with_expectations(rules, data.draw(st.booleans(), label="purging"))
    cuts = data.draw(cuts_between(rules), label="cuts")
    in_one_task = replay_pipeline(pipeline, events, rules, cuts, [1], engines=[OperatorEngine()])
    for engine, file_rows in ((OperatorEngine(), 1), (ColumnarEngine(), 1), (ColumnarEngine(), 1000)):
        in_several = replay_pipeline(pipeline, events, rules, cuts, [3, 5], file_rows, engines=[engine])
        assert in_several.checks == in_one_task.checks
    for panes, checks in zip(in_one_task.panes_of_slices, in_one_task.checks, strict=True):
        for expectation, check in zip(pipeline.pane_expectations, checks, strict=True):
            standing_rows = [pane[expectation.column] for pane in panes if pane["kind"] != "withdrawn"]
            judgement = judge(expectation, standing_rows)
            assert (check.passed, check.unexpected, check.checked) == judgement[:3]
