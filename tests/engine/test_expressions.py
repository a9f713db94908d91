"""Expressions against plain Python, value by value: what they give, on which rows they fail, and what is
refused with its place.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.expressions import type_of, values_of
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expression_grammar import FUNCTIONS
from slackwater.pipelines.expressions import parse_expression

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("j", pa.int64()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("naive", pa.timestamp("us")),
        ("day", pa.date32()),
        ("odd name", pa.int64()),
        ("raw", pa.binary()),
        ("raws", pa.list_(pa.struct([("raw", pa.binary())]))),
    ]
)
MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2013, 1, 1, tzinfo=UTC),
    datetime(2013, 3, 31, 0, 59, 59, 999_000, tzinfo=UTC),
    datetime(2013, 3, 31, 1, 0, tzinfo=UTC),
    datetime(2013, 7, 1, 23, 30, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 0, tzinfo=UTC),
]
rows = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-7, 7) | st.sampled_from([2**31 - 1, -(2**31)]),
        "j": st.none() | st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
        "d": st.none() | st.sampled_from([-1.5, 0.0, 0.1, 2.0, 2.5]),
        "m": st.none() | st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
        "s": st.none() | st.sampled_from(["", "7", "-3", "x", "aXb", "AA17", "é%"]),
        "b": st.none() | st.booleans(),
        "t": st.none() | st.sampled_from(MOMENTS),
        "naive": st.none() | st.sampled_from([moment.replace(tzinfo=None) for moment in MOMENTS]),
        "day": st.none() | st.sampled_from([date(2013, 1, 1), date(2024, 2, 29)]),
        "odd name": st.none() | st.integers(-3, 3),
    }
)
FAILS = object()


def strict(function, *names):
    """`function` of the values of these columns; null where one of them is."""

    def value(row):
        operands = [row[name] for name in names]
        return None if any(operand is None for operand in operands) else function(*operands)

    return value


def divided(one, other):
    """Towards zero, and in the range of bigint."""
    if other == 0:
        return FAILS
    quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return quotient if quotient < 2**63 else FAILS


def bounded(bits, value):
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else FAILS


def whole_number(text):
    try:
        return int(text)
    except ValueError:
        return FAILS


def berlin(moment):
    return moment.astimezone(ZoneInfo("Europe/Berlin"))


VALUES = {
    "hour(t) / 6": strict(lambda t: t.hour // 6, "t"),
    "hour(naive) // 6": strict(lambda t: t.hour // 6, "naive"),
    "hour(t AT TIME ZONE 'Europe/Berlin')": strict(lambda t: berlin(t).hour, "t"),
    "CAST(t AS DATE)": strict(lambda t: t.date(), "t"),
    "date_trunc('hour', t)": strict(lambda t: t.replace(minute=0, second=0, microsecond=0), "t"),
    "t + INTERVAL 90 MINUTE": strict(lambda t: t + timedelta(minutes=90), "t"),
    "t >= '2013-03-31 01:00:00'": strict(lambda t: t >= datetime(2013, 3, 31, 1, tzinfo=UTC), "t"),
    "extract(isodow FROM day)": strict(lambda day: day.isoweekday(), "day"),
    "j / i": strict(divided, "j", "i"),
    "i % 3": strict(lambda i: int(math.fmod(i, 3)), "i"),
    "i + 1": strict(lambda i: bounded(32, i + 1), "i"),
    "j * 2": strict(lambda j: bounded(64, j * 2), "j"),
    "d / i": strict(lambda d, i: FAILS if i == 0 else d / i, "d", "i"),
    "m + i": strict(lambda m, i: m + i, "m", "i"),
    "CAST(s AS INTEGER)": strict(whole_number, "s"),
    "TRY_CAST(s AS INTEGER)": strict(lambda s: None if whole_number(s) is FAILS else whole_number(s), "s"),
    "upper(substring(s, 1, 2)) || '!'": strict(lambda s: s[:2].upper() + "!", "s"),
    "s LIKE 'A%'": strict(lambda s: s.startswith("A"), "s"),
    "s NOT LIKE '%!%' ESCAPE '!'": strict(lambda s: not s.endswith("%"), "s"),
    "s ILIKE '_x_'": strict(lambda s: len(s) == 3 and s[1].lower() == "x", "s"),
    "length(s)": strict(len, "s"),
    "coalesce(s, 'none')": lambda row: "none" if row["s"] is None else row["s"],
    "CASE WHEN i <> 0 THEN j / i END": lambda row: (
        None if row["i"] in (None, 0) or row["j"] is None else divided(row["j"], row["i"])
    ),
    '"odd name" IS NULL': lambda row: row["odd name"] is None,
    "CASE WHEN b THEN 'yes' WHEN NOT b THEN 'no' ELSE 'unknown' END": lambda row: {
        True: "yes",
        False: "no",
        None: "unknown",
    }[row["b"]],
    "i IN (1, 2) OR d > 1": lambda row: either(
        strict(lambda i: i in (1, 2), "i")(row), strict(lambda d: d > 1, "d")(row)
    ),
    "greatest(i, 2)": lambda row: 2 if row["i"] is None else max(row["i"], 2),
    "7": lambda row: 7,
}


def either(one, other):
    if one or other:
        return True
    return None if None in (one, other) else False


@pytest.mark.parametrize("text", VALUES)
@settings(max_examples=20, deadline=None)
@given(values=st.lists(rows, min_size=1, max_size=8))
def test_an_expression_gives_what_python_computes(text, values):
    expression = parse_expression("p", "derive['x']", text)
    table = pa.Table.from_pylist(values, schema=SCHEMA)
    kind = type_of("p", "derive['x']", expression, SCHEMA)
    column, is_failed = values_of(expression, table)
    expected = [VALUES[text](row) for row in values]
    assert column.type == kind
    assert column.to_pylist() == [None if value is FAILS else value for value in expected]
    assert [value is FAILS for value in expected] == (
        [False] * len(values) if is_failed is None else is_failed.tolist()
    )


def decoded(content):
    try:
        return content.decode()
    except UnicodeDecodeError:
        return FAILS


def text_of_bytes(function):
    """`function` of the text in a column of bytes; null where that is null, failing where it is no UTF-8."""

    def value(content):
        text = None if content is None else decoded(content)
        return text if text is None or text is FAILS else function(text)

    return value


VALUES_OF_BYTES = {
    "CAST(payload AS VARCHAR)": text_of_bytes(str),
    "payload": text_of_bytes(str),
    "'<' || \"payload\"::TEXT || payload": text_of_bytes(lambda text: "<" + text * 2),
    "concat('é', payload)": lambda content: (
        # a null counts as the empty text
        "é" if content is None else text_of_bytes("é{}".format)(content)
    ),
    "payload = 'grün' OR payload LIKE 'a%'": text_of_bytes(lambda text: text == "grün" or text[:1] == "a"),
    "TRY_CAST(payload AS VARCHAR)": lambda content: (
        None if content is None or decoded(content) is FAILS else decoded(content)
    ),
    "payload IS NOT NULL": lambda content: content is not None,
    "CASE WHEN payload IS NULL THEN 'none' END": lambda content: "none" if content is None else None,
}
contents = st.none() | st.binary(max_size=6) | st.text(max_size=4).map(str.encode)
contents |= st.sampled_from(
    ["grün".encode(), b'say "x"\\x41', b"a\0", b"gr\xfcn", b"\xed\xa0\x80", b"\xc0\xaf"]
)


@pytest.mark.parametrize("text", VALUES_OF_BYTES)
@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(contents, min_size=1, max_size=8), kind=st.sampled_from([pa.binary(), pa.large_binary()])
)
def test_a_column_of_bytes_is_text_in_utf_8_and_fails_on_other_bytes(text, values, kind):
    expression = parse_expression("test", "derive['x']", text)
    batch = pa.table({"payload": pa.array(values, kind)})
    result = values_of(expression, batch)
    assert result.column.type == type_of("test", "derive['x']", expression, batch.schema)
    is_failed = [False] * len(values) if result.is_failed is None else result.is_failed.tolist()
    for got, fails, value in zip(result.column.to_pylist(), is_failed, values, strict=True):
        expected = VALUES_OF_BYTES[text](value)
        assert (FAILS if fails else got) == expected, value


def test_rows_of_any_number_keep_their_order_also_where_some_fail():
    numbers = list(range(10_000))
    table = pa.table({"s": [str(number) if number % 4999 else "x" for number in numbers]})
    column, is_failed = values_of(parse_expression("p", "d", "CAST(s AS BIGINT) * 2"), table)
    assert column.to_pylist() == [2 * number if number % 4999 else None for number in numbers]
    assert is_failed.nonzero()[0].tolist() == [0, 4999, 9998]


def test_threads_compute_side_by_side():
    expression = parse_expression("p", "d", "i + 1")

    def computed(number):
        table = pa.table({"i": pa.array([number] * 1000, pa.int64())})
        return values_of(expression, table).column.unique().to_pylist()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(computed, range(40))) == [[number + 1] for number in range(40)]


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        ("", None, "it is SQL as text"),
        ("hour(t) /", 10, "the text ends; a column, a literal, a function or a parenthesis is expected"),
        ("upper(s", 8, "the text ends; an operator, a comma or a closing parenthesis is expected"),
        ("i i", 3, "an operator, or the end is expected"),
        ("'é' || 'open", 8, "a closing quote is expected"),
        ("i + 1) , (j", 1, "one expression is expected, whose parentheses match"),
        ("i, j", 1, "row is none of the functions"),
        ("uper(s)", 1, r"uper is none of the functions \(did you mean upper\?\); they are abs, ceil"),
        ("'é' || now()", 8, "now differs from run to run"),
        ("random()", 1, "random differs from run to run"),
        ("i + current_date", 5, "current_date differs from run to run"),
        ("sum(i)", 1, "sum is none of the functions"),
        ("i + sum(i) OVER ()", 5, "no window function"),
        ("(SELECT 1)", 1, "no query"),
        ("i + z", 5, "the source has no column 'z'; it has b, d, day, i"),
        ("s.x", 1, "s is text, which has no fields; a member of JSON is written s ->> 'x'"),
        ("i.x", 1, r"i is int32, which has no fields; a column of the name i.x is written \"i.x\""),
        ('upper("raws.x")', 7, "no column 'raws.x'; a field of raws is written raws.x, without quotes"),
        ("raws.raw", 1, r"raws is a list; a field of its first item is written raws\[1\].raw"),
        ("hour(at)", 6, 'at is a word of SQL; a column of that name is written "at"'),
        ("hour(at AT TIME ZONE 'UTC')", 6, 'at is a word of SQL; a column of that name is written "at"'),
        ("i > 1 AND end > t", 11, 'end is a word of SQL; a column of that name is written "end"'),
        ("1 + order", 5, 'order is a word of SQL; a column of that name is written "order"'),
        ("i::xml", 4, "xml is no type to cast to; the types are BOOLEAN"),
        ("raw::BLOB", 6, r"BLOB is no type to cast to; encode\(…\) gives the bytes of a text"),
        ("i::BIGINT[3]", None, r"a list has no fixed length here; its type is written e.g. BIGINT\[\]"),
        ("hour(s)", 1, "Expected is"),
        ("t + i", 3, "TIMESTAMP WITH TIME ZONE, INTEGER"),
        ("date_trunc('dag', t)", 1, "date_trunc takes one of .*, hour, .* in quotes"),
        ("INTERVAL 1 DAY", None, "cast it to a number, text, a boolean, a date or a timestamp"),
        ("[i]", None, r"list<.*>; cast it to a number, .* or make text of it: to_json\("),
        ("?", 1, "no parameter"),
        ("read_text('/etc/passwd')", 1, "read_text is none of the functions"),
        ("upper(s) FILTER (WHERE b)", 1, "with its operands alone"),
        ("raw || raw IS NULL OR hour(raw)", 23, "Expected is"),
    ],
)
def test_what_is_refused_is_shown_with_its_place(text, place, rule):
    with pytest.raises(PipelineError, match=rule) as refusal:
        type_of("p", "derive['x']", parse_expression("p", "derive['x']", text), SCHEMA)
    if place is not None:
        assert f"; at column {place}: " in str(refusal.value)
        _, shown, caret = str(refusal.value).rsplit("\n", 2)
        assert (shown.strip(), caret.index("^") - 2) == (text, place - 1)


def test_the_place_in_a_text_of_several_lines_is_that_of_its_line():
    with pytest.raises(
        PipelineError, match=r"line 3, column 5: the source has no column 'z'.*\n    \+ z\n      \^"
    ):
        type_of("p", "d", parse_expression("p", "d", "i\n  -- a remark\n  + z"), SCHEMA)


def test_every_function_of_the_list_is_one_of_duckdb():
    import duckdb

    names_of_duckdb = {
        name for (name,) in duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    }
    parsed_otherwise = {"if", "position"}
    names = {name for names in FUNCTIONS.values() for name in names.split()}
    assert names - names_of_duckdb <= parsed_otherwise
