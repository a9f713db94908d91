"""Conditions against two other sources: a brute force over exact numbers, and DuckDB's reading of the same
text in a query of its own.
"""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.expressions import bind_condition, rows_that_meet
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import parse_condition, parse_expression

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("j", pa.int64()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
    ]
)
TYPES = {field.name: field.type for field in SCHEMA}
rows = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]),
        "j": st.none() | st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
        "d": st.none() | st.sampled_from([-1.5, -0.0, 0.0, 0.1, 2.0, math.inf, -math.inf, math.nan]),
        "e": st.none() | st.sampled_from([-1.5, -0.0, 0.0, 0.1, 2.0, math.inf, -math.inf, math.nan]),
        "m": st.none()
        | st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("0.10"), Decimal("99999999.99")]),
        "s": st.none() | st.sampled_from(["", "a", "A", "é", "it's"]),
        "b": st.none() | st.booleans(),
        "t": st.none() | st.sampled_from([datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in (0, 5)]),
        "day": st.none() | st.sampled_from([date(2013, 1, 1), date(2013, 1, 2)]),
    }
)
numbers = st.sampled_from(
    ["-2147483648", "-1.5", "-1", "0", "0.1", "0.105", "1", "2", "2.0", "1e2", "99999999.99", "100000000"]
)
operators = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
texts = st.sampled_from(["''", "'a'", "'é'", "'it''s'"])
comparisons = st.one_of(
    st.tuples(st.sampled_from(["i", "j", "d", "m"]), operators, numbers).map(" ".join),
    st.tuples(st.just("i"), operators, st.just("j")).map(" ".join),
    st.tuples(st.just("d"), operators, st.just("e")).map(" ".join),
    st.tuples(st.just("s"), operators, texts).map(" ".join),
    st.tuples(st.just("b"), st.sampled_from(["=", "<>"]), st.sampled_from(["TRUE", "false"])).map(" ".join),
    st.tuples(
        st.just("t"), operators, st.sampled_from(["'2013-01-01 00:00:00+00'", "'2013-01-01 05:00:00+00'"])
    ).map(" ".join),
    st.tuples(st.just("day"), operators, st.just("'2013-01-02'")).map(" ".join),
    st.sampled_from(
        [
            "b",
            "s in ('a', '')",
            "i NOT IN (1, 2)",
            "j between -1 and 2",
            "i not between 0 and 1",
            '"d" is null',
            "s IS NOT NULL",
        ]
    ),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.tuples(inner, st.sampled_from(["and", "OR"]), inner).map("({0[0]}) {0[1]} ({0[2]})".format),
        st.tuples(inner, st.sampled_from(["and", "OR"]), inner, st.sampled_from(["and", "OR"]), inner).map(
            " ".join
        ),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def connection() -> Any:
    with duckdb.connect() as opened:
        yield opened


def holds(condition: str, table: pa.Table) -> list[bool]:
    return rows_that_meet(bind_condition("p", condition, TYPES), table).tolist()


@settings(max_examples=150, deadline=None)
@given(condition=conditions, values=st.lists(rows, min_size=1, max_size=6))
def test_a_condition_holds_where_duckdb_says_so(
    connection: duckdb.DuckDBPyConnection, condition: str, values: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist(values, schema=SCHEMA)
    connection.register("seen", table)
    # DuckDB reads a literal beside a double as a decimal: it compares as a double either way.
    expected = [
        bool(is_true) for (is_true,) in connection.execute(f"select {condition} from seen").fetchall()
    ]
    assert holds(condition, table) == expected


@settings(max_examples=200)
@given(
    value=st.integers(-(10**6), 10**6) | st.sampled_from([2**63 - 1, -(2**63)]),
    operator=st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    literal=st.decimals(-(10**20), 10**20, allow_nan=False, places=3) | st.integers(-(10**30), 10**30),
)
def test_an_integer_is_compared_exactly_with_any_literal(
    value: int, operator: str, literal: Decimal | int
) -> None:
    compare = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[
        operator
    ]
    expected = getattr(Fraction(value), compare)(Fraction(literal))
    text = f"j {operator} {literal:f}" if isinstance(literal, Decimal) else f"j {operator} {literal}"
    table = pa.table({"j": pa.array([value, None], pa.int64())})
    assert holds(text, table) == [expected, False]
    assert holds(f"not {text}", table) == [not expected, False]


def test_and_binds_tighter_than_or_and_not_tightest() -> None:
    table = pa.Table.from_pylist([{"b": True, "i": 1}], schema=SCHEMA)
    assert holds("b or b and i = 2", table) == [True]
    assert holds("(b or b) and i = 2", table) == [False]
    assert holds("not b or b", table) == [True]


def test_a_condition_names_the_columns_that_it_reads_once_each() -> None:
    condition = parse_expression("p", "where", 'j > 1 and (s is null or "odd ""name" = i) and j < 9')
    assert condition.columns == ("j", "s", 'odd "name', "i")
    assert parse_expression("p", "where", '"is" = 1').columns == ("is",)


@given(comparisons)
def test_a_comparison_that_is_read_without_duckdb_reads_the_column_that_duckdb_says(condition: str) -> None:
    ours, theirs = parse_condition("p", condition), parse_expression("p", "where", condition)
    assert [use[:3] for use in ours.uses] == [use[:3] for use in theirs.uses]
    assert ours.text == theirs.text


def test_a_clock_is_no_column_of_a_comparison() -> None:
    with pytest.raises(PipelineError, match="current_date differs from run to run"):
        parse_condition("p", "current_date > '2013-01-01'")


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("i < d", True),
        ("m = i", True),
        ("i = '1'", True),
        ("day < '2013-01-02T05:00'", True),
        ("b = 1", True),
    ],
)
def test_sides_of_two_types_meet_where_sql_converts_one_of_them(condition: str, is_met: bool) -> None:
    row = {"i": 1, "d": 1.5, "m": Decimal("1.00"), "b": True, "day": date(2013, 1, 1)}
    assert holds(condition, pa.Table.from_pylist([row], schema=SCHEMA)) == [is_met]


@pytest.mark.parametrize(
    ("condition", "rule"),
    [
        ("", "it is SQL as text"),
        (3, "it is SQL as text"),
        ("i >", "at column 4: the text ends; a column, a literal, a function or a parenthesis is expected"),
        ("i > 1 i", 'at column 7: syntax error at or near "i"; an operator, or the end is expected'),
        ("i > 1 and", "at column 10: the text ends; a column"),
        ("(i > 1", "at column 7: the text ends; an operator, a comma or a closing parenthesis"),
        ("i > 1; drop table t", "at column 6: syntax error"),
        ("s = 'open", "at column 5: unterminated string literal: a closing quote is expected"),
        ("i not 3", "at column 7: syntax error"),
        ("upper(z) = 'A'", "at column 7: the source has no column 'z'; it has b, d, day"),
        ("i + 1", "whose values are int32; it must be true or false"),
        ("i < 1 or upper(i) = 'A'", r"at column 10: .* Expected is upper\(string VARCHAR\)"),
        ("now() > t", "at column 1: now differs from run to run"),
        ("i in (select 1)", "at column 6: columns, literals, .* no query"),
        ("z > 1", "at column 1: the source has no column 'z'; it has b, d, day"),
        ("i", "whose values are int32; it must be true or false"),
        ("i = 'a'", "at column 5: Could not convert string 'a' to INT32"),
        ("i in ('1', 'x')", "at column .*: Could not convert string 'x' to INT32"),
        ("s > 1", "Cannot compare values of type VARCHAR and type INTEGER_LITERAL"),
        ("t > 'soon'", "at column 5: .*soon"),
        ("day > '2013-13-01'", "at column 7: .*2013-13-01"),
        ("s < t", "Cannot compare values of type VARCHAR and type TIMESTAMP WITH TIME ZONE"),
        ("order > 1", 'order is a word of SQL; a column of that name is written "order"'),
    ],
)
def test_what_is_no_condition_on_the_source_is_refused(condition: Any, rule: str) -> None:
    with pytest.raises(PipelineError, match=rule):
        bind_condition("p", condition, TYPES)
