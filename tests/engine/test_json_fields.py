"""Fields of JSON that are taken out of a text at once are those that each arrow takes for itself."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.expressions import values_of, values_of_all
from slackwater.engine.json_fields import share_json_fields
from slackwater.pipelines.expressions import parse_expression
from tests.properties.search import searched

SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.sampled_from(["", "grün", "1", "x y"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
ODD_TEXTS = [
    *("", " ", "NaN", '{"a": NaN}', "{'a': 1}", '{"a": 1,}', '{"a": 1} x', ' {"a": 1} ', '{"a": 1, "a": 2}'),
    *('{"a": 1e999}', '{"a": 01}', '{"a": "\\ud800"}', "// {}", '{"a" 1}', "[1, 2", '"x', "\ufeff{}"),
]
DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c", "d e"]), VALUES, max_size=3) | SCALARS
PATHS = st.sampled_from(["$.a", "$.b", "$.c.a", "$.a.b", "$.c[0]", '$."d e"', "$", "$.nothing"])
FORMS = st.sampled_from(
    [
        "value ->> '{}'",
        "CAST(value ->> '{}' AS BIGINT)",
        "TRY_CAST(value ->> '{}' AS BIGINT)",
        "(value ->> '{}') IS NULL",
        "length(value ->> '{}') + n",
        "CASE WHEN n > 1 THEN value ->> '{}' END",
        "coalesce(value ->> '{}', other)",
        "TRY(CAST(value ->> '{}' AS BIGINT))",
        "(value ->> '{}') || other",
        "other ->> '{}'",
        "value -> '{}'",
    ]
)


def parsed(*texts):
    return [parse_expression("test", "derive", text) for text in texts]


@st.composite
def tables(draw):
    """Rows of JSON as text or bytes, some of them cut off, no text at all, or null."""
    texts = []
    for document in draw(st.lists(DOCUMENTS, max_size=6)):
        text = json.dumps(document)
        texts.append(draw(st.sampled_from([text, text, text, text[: len(text) // 2], None, *ODD_TEXTS])))
    values = pa.array(texts, pa.string())
    if draw(st.booleans()):
        values = values.cast(pa.binary())
    count = len(texts)
    others = draw(st.lists(st.sampled_from(['{"a": 1}', "x", None]), min_size=count, max_size=count))
    return pa.table(
        {"value": values, "other": pa.array(others, pa.string()), "n": pa.array(range(count), pa.int64())}
    )


@given(tables(), st.lists(st.builds(str.format, FORMS, PATHS), min_size=1, max_size=4))
@searched(60, long=1500)
def test_expressions_have_the_values_together_that_each_has_alone(rows, texts):
    expressions = parsed(*texts)
    for together, expression in zip(values_of_all(expressions, rows), expressions, strict=True):
        alone = values_of(expression, rows)
        assert together.column.to_pylist() == alone.column.to_pylist()
        assert _places(together.is_failed) == _places(alone.is_failed)


def _places(is_failed):
    return [] if is_failed is None else is_failed.nonzero()[0].tolist()


def test_each_text_is_read_once_for_all_its_fields():
    schema = pa.schema([("value", pa.binary()), ("n", pa.int64())])
    expressions = parsed("value ->> '$.a'", "CAST(value ->> '$.b' AS BIGINT) + n", "n", "value ->> '$.a'")
    sharing, [fields] = share_json_fields(tuple(expressions), schema)
    assert fields.text == """json_extract_string(decode("value"), ['$.a', '$.b'])"""
    assert [one.text for one in sharing] == [
        "__fields_0[1]",
        "CAST(__fields_0[2] AS BIGINT) + n",
        "n",
        "__fields_0[1]",
    ]
    assert [one.columns for one in sharing] == [("__fields_0",), ("__fields_0", "n"), ("n",), ("__fields_0",)]


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN n > 0 THEN value ->> '$.a' END",
        "coalesce(value ->> '$.a', 'x')",
        "TRY(value ->> '$.a')",
        "value ->> '$.*'",
        "value ->> 'a'",
    ],
)
def test_what_may_skip_its_operand_or_has_no_path_is_left_alone(text):
    schema = pa.schema([("value", pa.string()), ("n", pa.int64())])
    expressions = tuple(parsed(text, text.replace("$.a", "$.b")))
    assert share_json_fields(expressions, schema) == (expressions, ())


def test_broken_texts_fail_in_each_column_that_comes_of_them():
    rows = pa.table({"value": ['{"a": 1, "b": "2"}', '{"a": 1, "b"', None, '{"a": "x"}']})
    first, second = values_of_all(
        parsed("CAST(value ->> '$.a' AS BIGINT)", "(value ->> '$.b') IS NULL"), rows
    )
    assert (first.column.to_pylist(), _places(first.is_failed)) == ([1, None, None, None], [1, 3])
    assert (second.column.to_pylist(), _places(second.is_failed)) == ([False, None, True, True], [1])
