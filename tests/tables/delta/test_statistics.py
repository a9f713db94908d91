"""The statistics of a file are those of its rows, whether columns come plain or as dictionaries."""

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.tables.delta.statistics import Statistics

TEXTS = ("a", "b", "c")


@st.composite
def dictionary_columns(draw: st.DrawFn) -> pa.DictionaryArray:
    """Texts as a dictionary, of which some entries may be nobody's."""
    entries = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3, unique=True))
    indices = draw(st.lists(st.none() | st.integers(0, len(entries) - 1), max_size=4))
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(entries))


@settings(max_examples=200)
@given(st.lists(dictionary_columns(), min_size=1, max_size=3))
def test_a_dictionary_has_the_statistics_of_its_values(chunks: list[pa.DictionaryArray]) -> None:
    table = pa.table({"text": pa.chunked_array(chunks)})
    values = [value for chunk in chunks for value in chunk.to_pylist()]
    values_not_null = [value for value in values if value is not None]
    bounds = ({"text": min(values_not_null)}, {"text": max(values_not_null)}) if values_not_null else ({}, {})
    log_statistics = json.loads(Statistics().add(table).to_json())
    assert log_statistics == {
        "numRecords": len(values),
        "minValues": bounds[0],
        "maxValues": bounds[1],
        "nullCount": {"text": len(values) - len(values_not_null)},
    }


LAST = "\U0010ffff"
long_texts = st.builds(lambda end: 31 * "x" + end, st.text(st.sampled_from(["x", LAST]), max_size=6))


@given(st.lists(st.text(max_size=40) | long_texts, min_size=1))
def test_long_texts_have_bounds_that_are_short_and_hold_all_of_them(texts: list[str]) -> None:
    log_statistics = json.loads(Statistics().add(pa.table({"text": pa.array(texts)})).to_json())
    least, greatest = log_statistics["minValues"]["text"], log_statistics["maxValues"]["text"]
    assert all(least <= text <= greatest for text in texts)
    assert len(least) <= 32 and (len(greatest) <= 33 or greatest[32:].count(LAST) == len(greatest) - 32)
