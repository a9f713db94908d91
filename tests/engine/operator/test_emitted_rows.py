"""Rows of user functions become columns as they are, or are refused with key and window."""

from collections import namedtuple
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.operator.emitted_rows import EmittedColumns, EmittedRowError
from slackwater.pipelines.columns import parse_columns
from slackwater.windowing import TimeWindow

WINDOW = TimeWindow(0, 10)


def columns(text: str, *keys: str) -> EmittedColumns:
    return EmittedColumns("output", parse_columns("Pipeline 'p'", "output", text), keys or ("origin",))


def emitted(declared: EmittedColumns, *rows: Any, key: Any = "EWR") -> list[list[Any]]:
    return [array.to_pylist() for array in declared.arrays(rows, [(key, WINDOW)] * len(rows))]


Row = namedtuple("Row", ["n", "name", "more"])


@pytest.mark.parametrize(
    "row", [(3, "a"), {"name": "a", "n": 3}, Row(3, "a", None)], ids=["tuple", "dict", "named tuple"]
)
def test_a_row_is_told_by_position_or_by_name(row: Any) -> None:
    assert emitted(columns("n long, name string"), row) == [[3], ["a"]]


def test_the_value_of_an_only_column_needs_no_tuple() -> None:
    assert emitted(columns("n long"), 3, (4,), {"n": 5}, None) == [[3, 4, 5, None]]
    assert emitted(columns("ns array<long>"), [1, None], ([],)) == [[[1, None], []]]


def test_nothing_is_null_in_every_column() -> None:
    assert emitted(columns("n long, name string"), None, (None, "b")) == [[None, None], [None, "b"]]
    assert emitted(columns("n long")) == [[]]


def test_a_key_column_holds_the_key_and_is_no_result() -> None:
    declared = columns("origin string, n long", "origin")
    assert declared.results == (("n", pa.int64()),)
    assert emitted(declared, ("EWR", 1), {"origin": "EWR", "n": 2}) == [[1, 2]]
    with pytest.raises(EmittedRowError, match="column 'origin' is a key and was emitted as 'JFK', not 'EWR'"):
        emitted(declared, ("JFK", 1))
    of_two = columns("n long, day date", "origin", "day")
    assert emitted(of_two, (1, date(2013, 1, 1)), key=("EWR", date(2013, 1, 1))) == [[1]]
    with pytest.raises(EmittedRowError, match="column 'day' is a key"):
        emitted(of_two, (1, date(2013, 1, 2)), key=("EWR", date(2013, 1, 1)))


NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
FITTING: list[tuple[str, Any]] = [
    ("tinyint", -128),
    ("long", 2**63 - 1),
    ("double", 0.1),
    ("double", 3),
    ("float", 0.5),
    ("string", "ключ"),
    ("boolean", True),
    ("binary", b"\x00"),
    ("date", date(2013, 1, 1)),
    ("timestamp", NOON),
    ("decimal(5,2)", Decimal("1.50")),
    ("array<array<int>>", [[1], None]),
]


@pytest.mark.parametrize(("kind", "value"), FITTING)
def test_a_value_of_the_declared_type_comes_back_equal(kind: str, value: Any) -> None:
    assert emitted(columns(f"x {kind}"), (value,)) == [[value]]


MISFITS: list[tuple[str, Any]] = [
    ("tinyint", 128),
    ("long", 2**63),
    ("long", 1.0),
    ("long", True),
    ("long", np.int64(1)),
    ("double", 2**53 + 1),
    ("double", "0.1"),
    ("float", 0.1),
    ("string", 1),
    ("string", "\ud800"),
    ("boolean", 1),
    ("date", NOON),
    ("timestamp", NOON.replace(tzinfo=None)),
    ("decimal(5,2)", 1.5),
    ("decimal(5,2)", Decimal("1000.00")),
    ("array<int>", ["a"]),
]


@pytest.mark.parametrize(("kind", "value"), MISFITS)
def test_any_other_value_is_refused_with_its_owner(kind: str, value: Any) -> None:
    with pytest.raises(
        EmittedRowError,
        match=r"output: column 'x' is .*, but the .* was emitted \(key 'EWR', window TimeWindow",
    ) as refused:
        emitted(columns(f"x {kind}"), (None,), (value,))
    assert (refused.value.key, refused.value.window, refused.value.exit_code) == ("EWR", WINDOW, 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1,), r"a row has 1 values, \(1,\), but the columns are \['n', 'name'\]"),
        ((1, "a", 2), "a row has 3 values"),
        (1, "a row has 1 values"),
        ({"n": 1}, r"a row has \['n'\], but the columns are"),
        ({"n": 1, "name": "a", "more": 2}, r"a row has \['more', 'n', 'name'\], but"),
        (namedtuple("Less", ["n"])(1), r"a row has \['n'\], but"),
    ],
)
def test_a_row_with_other_columns_is_refused(row: Any, message: str) -> None:
    with pytest.raises(EmittedRowError, match=message):
        emitted(columns("n long, name string"), row)


def test_a_value_without_a_text_is_refused_by_its_type() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise ValueError

    with pytest.raises(EmittedRowError, match=r"the Mute \(its text can't be made\) was emitted"):
        emitted(columns("n long"), {"n": Mute()})
