"""Columns of one value, and the rows of a column that hold a text."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slackwater.tables.arrow_values import is_text, repeat_text, repeat_value

MOMENT = datetime(2024, 3, 10, 1, 2, 3, 456789, UTC)


@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, pa.int64()),
        (-7, pa.int32()),
        (3, pa.int8()),
        (MOMENT, pa.timestamp("us", "UTC")),
        (datetime(1960, 1, 1, tzinfo=UTC), pa.timestamp("s", "UTC")),
        (date(2024, 3, 10), pa.date32()),
        (None, pa.int64()),
        (None, pa.timestamp("us", "UTC")),
        (True, pa.bool_()),
        (1.5, pa.float64()),
        ("late", pa.string()),
    ],
)
def test_a_value_repeated_is_what_arrow_repeats(value: Any, kind: pa.DataType, rows: int) -> None:
    column = repeat_value(value, rows, kind)
    column.validate(full=True)
    assert column.type == kind
    assert column.to_pylist() == [value] * rows


def test_a_text_repeated_is_a_dictionary_of_one_entry() -> None:
    column = repeat_text("insert", 3)
    assert column.to_pylist() == ["insert"] * 3
    assert column.dictionary.to_pylist() == ["insert"]


TEXTS = ["late", "first", None, "late", "merge", ""]


def _encoded(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()


@pytest.mark.parametrize("text", ["late", "first", "", "missing"])
@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([pa.array(TEXTS)]),
        pa.chunked_array([_encoded(TEXTS)]),
        # Each chunk with a dictionary of its own, in which the text has another place, or none.
        pa.chunked_array([_encoded(TEXTS[:3]), _encoded(TEXTS[3:])]),
        # A dictionary that has an entry twice, and one that has a null.
        pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(
                    pa.array([0, 1, None, 2, 3, 4]), ["late", "first", "late", "merge", ""]
                )
            ]
        ),
        pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(
                    pa.array([0, 1, 2, 0, 3, 4]), ["late", "first", None, "merge", ""]
                )
            ]
        ),
        pa.chunked_array([_encoded(TEXTS).cast(pa.dictionary(pa.int8(), pa.string()))]),
    ],
    ids=["texts", "a dictionary", "two dictionaries", "an entry twice", "a null entry", "narrow"],
)
def test_the_rows_that_hold_a_text_are_found(column: pa.ChunkedArray, text: str) -> None:
    assert is_text(column, text).to_pylist() == [None if one is None else one == text for one in TEXTS]
    assert pc.any(is_text(column.slice(0, 0), text)).as_py() is None


def test_of_no_rows_none_holds_a_text() -> None:
    assert is_text(pa.chunked_array([], pa.dictionary(pa.int32(), pa.string())), "late").to_pylist() == []
