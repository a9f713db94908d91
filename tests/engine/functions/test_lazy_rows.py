"""An element on columns is the named tuple that it says it is, and makes only the fields that are read."""

import copy
import pickle
from collections import namedtuple

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.functions.lazy_rows import RowMaker

Element = namedtuple("Element", "count index x")
COLUMNS = {
    "count": pa.array([7, None, 9]),
    "index": pa.array(["a", "b", "c"]),
    "x": pa.array([0.5, -0.0, 1.5]),
}
ROWS = [Element(7, "a", 0.5), Element(None, "b", 0.0), Element(9, "c", 1.5)]


class Columns:
    """The columns, and the names of those that were asked for."""

    def __init__(self):
        self.names = []

    def __call__(self, name):
        self.names.append(name)
        return COLUMNS[name]


def made(columns, numbers=(0, 1, 2)):
    return RowMaker(Element, columns).rows(np.array(numbers))


def test_only_columns_that_are_read_are_made():
    columns = Columns()
    rows = made(columns)
    assert [row.x for row in rows] == [0.5, 0.0, 1.5]
    assert columns.names == ["x"]


def test_later_rows_have_what_earlier_ones_were_asked_for():
    columns = Columns()
    maker = RowMaker(Element, columns)
    assert maker.rows(np.array([2]))[0].index == "c"
    second = maker.rows(np.array([1, 0]))
    assert columns.names == ["index", "index"]
    assert [row.index for row in second] == ["b", "a"]
    assert [tuple(row) for row in second] == [ROWS[1], ROWS[0]]


def test_rows_of_which_all_is_read_are_named_tuples():
    maker = RowMaker(Element, COLUMNS.__getitem__)
    assert list(map(tuple, maker.rows(np.array([0, 1])))) == ROWS[:2]
    assert [type(row) for row in maker.rows(np.array([2]))] == [Element]


def test_a_row_is_the_named_tuple_to_whoever_looks():
    first, _, third = made(COLUMNS.__getitem__)
    assert isinstance(first, tuple)
    assert isinstance(first, Element)
    assert (first, hash(first), repr(first)) == (ROWS[0], hash(ROWS[0]), repr(ROWS[0]))
    assert (ROWS[0] == first, first == made(COLUMNS.__getitem__)[0], first == third) == (True, True, False)
    assert first < third <= third > first >= first
    assert {first: 1}[ROWS[0]] == 1
    assert (first + (1,), (1,) + first, first * 2) == (  # noqa: RUF005
        ROWS[0] + (1,),
        (1,) + ROWS[0],
        ROWS[0] * 2,
    )
    assert (first[0], first[-1], first[1:], len(first)) == (7, 0.5, ("a", 0.5), 3)
    assert first.count == 7
    assert "a" in first
    assert first._asdict() == {"count": 7, "index": "a", "x": 0.5}
    assert first._replace(x=2.0) == Element(7, "a", 2.0)
    assert first._fields == Element._fields
    assert copy.copy(first) == copy.deepcopy(first) == ROWS[0]


def test_a_row_is_pickled_as_the_named_tuple():
    restored = pickle.loads(pickle.dumps(made(COLUMNS.__getitem__)[1]))
    assert (type(restored), restored) == (Element, ROWS[1])


def test_a_row_can_be_taken_apart_and_matched():
    count, index, x = made(COLUMNS.__getitem__)[2]
    assert (count, index, x) == (9, "c", 1.5)
    match made(COLUMNS.__getitem__)[2]:
        case (9, _, last):
            assert last == 1.5
        case other:
            pytest.fail(f"{other!r} was not matched")


def test_a_row_can_neither_be_changed_nor_asked_for_what_it_has_not():
    row = made(COLUMNS.__getitem__)[0]
    with pytest.raises(AttributeError, match="can't set attribute"):
        row.x = 1.0
    with pytest.raises(AttributeError, match="'Element' object has no attribute 'y'"):
        _ = row.y
    with pytest.raises(IndexError):
        _ = row[3]
