"""The texts of elements are those that the snapshot's codec writes for named tuples, value for value."""

from collections import namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.calls.element_texts import ElementTexts, join_lists
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
    assert repr(TEXTS.decode(texts).to_pylist()) == repr(columns_of(elements).to_pylist())


@given(st.lists(st.none() | ELEMENTS.filter(bool), max_size=4))
@searched(30, long=300)
def test_texts_of_lists_are_those_of_the_codec_and_come_apart(lists):
    lists_of_texts = pa.array(
        [TEXTS.encode(columns_of(elements)).to_pylist() for elements in lists if elements is not None],
        pa.list_(pa.string()),
    )
    joined = iter(join_lists(lists_of_texts).to_pylist())
    contents = [None if elements is None else f"[{next(joined)}]" for elements in lists]
    assert contents == [None if elements is None else JSON.dumps(elements) for elements in lists]
    lengths, texts = TEXTS.read_lists(pa.array(contents, pa.string()))
    assert lengths.tolist() == [0 if elements is None else len(elements) for elements in lists]
    assert texts.to_pylist() == lists_of_texts.flatten().to_pylist()


Younger = namedtuple("Element", "n text", defaults=(None, None))
Older = namedtuple("Element", "n")


def test_elements_that_were_parked_before_a_column_came_have_nulls_in_it():
    texts = ElementTexts(Younger, pa.schema([("n", pa.int64()), ("text", pa.string())]))
    older, younger = JsonValues((Older,)), JsonValues((Younger,))
    contents = [older.dumps([Older(1), Older(2)]), None, younger.dumps([Younger(3, "x")])]
    lengths, parked_texts = texts.read_lists(pa.array(contents))
    assert lengths.tolist() == [2, 0, 1]
    assert texts.decode(parked_texts).to_pylist() == [
        {"n": 1, "text": None},
        {"n": 2, "text": None},
        {"n": 3, "text": "x"},
    ]
