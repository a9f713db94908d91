"""The texts of elements are those that the snapshot's codec writes for named tuples, value for value."""

from collections import namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.functions.element_texts import ElementTexts, join_lists
from slackwater.windowing.snapshot import JsonValues
from tests.properties.search import searched

Element = namedtuple("Element", "n flag text day at single double price raw")
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(20, 3)),
        ("raw", pa.binary()),
    ]
)
TEXTS = ElementTexts(Element, SCHEMA)
JSON = JsonValues((Element,))
MOMENTS = st.integers(-62_000_000_000_000_000, 253_000_000_000_000_000).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)
ELEMENTS = st.lists(
    st.builds(
        Element,
        n=st.none() | st.integers(-(2**63), 2**63 - 1),
        flag=st.none() | st.booleans(),
        text=st.none()
        | st.text(st.characters(exclude_categories=["Cs"]))
        | st.sampled_from(['"', "\\", '",{"$record":["Element",', '}]},{"$record":', "\n\x00\x7f\u2028", ""]),
        day=st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        at=st.none() | MOMENTS | MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
        single=st.none() | st.floats(width=32).map(lambda value: value + 0.0),
        double=st.none() | st.floats().map(lambda value: value + 0.0),
        price=st.none() | st.integers(-(10**19), 10**19).map(lambda number: Decimal(number).scaleb(-3)),
        raw=st.none() | st.binary(),
    ),
    max_size=6,
)


def columns_of(elements):
    values = zip(*elements, strict=True) if elements else [()] * len(SCHEMA)
    arrays = [pa.array(list(column), field.type) for column, field in zip(values, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


@given(ELEMENTS)
@searched(60, long=600)
def test_texts_are_those_of_the_codec_and_come_back(elements):
    texts = TEXTS.encode(columns_of(elements))
    assert texts.to_pylist() == [JSON.dumps(element) for element in elements]
    assert TEXTS.are_of_this_form(texts)
    assert repr(TEXTS.decode(texts).to_pylist()) == repr(columns_of(elements).to_pylist())


@given(st.lists(ELEMENTS.filter(bool), max_size=4))
@searched(30, long=300)
def test_texts_of_lists_are_those_of_the_codec_and_come_apart(lists):
    lists_of_texts = pa.array(
        [TEXTS.encode(columns_of(elements)).to_pylist() for elements in lists],
        pa.list_(pa.string()),
    )
    texts = join_lists(lists_of_texts)
    assert [f"[{text}]" for text in texts.to_pylist()] == [JSON.dumps(elements) for elements in lists]
    assert TEXTS.split(texts).to_pylist() == lists_of_texts.to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"$record":["Element",{"n":1}]}',
        JSON.dumps(Element(1, *[None] * 8)).replace("Element", "Other"),
        JSON.dumps(Element(1, *[None] * 8)).replace('"n":1', '"n":[1]'),
        JSON.dumps(Element(1, *[None] * 8)).replace('"raw"', '"more":1,"raw"'),
        JSON.dumps(Element(1, *[None] * 8)) + "x",
    ],
)
def test_a_text_of_another_form_is_told_apart(text):
    assert not TEXTS.are_of_this_form(pa.array([JSON.dumps(Element(*[None] * 9)), text]))
