"""Windows of a user's own class: what a class declares, which windows it refuses, their hash and bytes."""

from __future__ import annotations

from collections import namedtuple
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from slackwater.windowing.errors import ConfigurationError, OwnWindowError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.own_windows import java_hash, own_window_class, serialize
from slackwater.windowing.snapshot import WindowColumns
from slackwater.windowing.snapshot.columns import NAMESPACE


class Visit(NamedTuple):
    start: int
    end: int
    tier: str
    day: date
    first: bool = False
    columns = "tier string, day date, first boolean"

    def max_timestamp(self) -> int:
        return self.end - 1


class Turn(NamedTuple):
    number: int
    lane: int
    columns = "number bigint, lane tinyint"

    def max_timestamp(self) -> int:
        return LONG_MAX if self.number < 0 else self.number * 10 + 9


VISIT = Visit(-5, 7, "gold", date(2013, 1, 2), True)


def test_a_class_is_what_it_declares() -> None:
    own = own_window_class(Visit)
    assert own.description == ["start", "end", "tier string", "day date", "first bool"]
    assert [field.name for field in own.columns] == ["tier", "day", "first"]
    assert (own.has_start, own.has_end) == (True, True)
    other = own_window_class(Turn)
    assert (other.has_start, other.has_end) == (False, False)
    own.check(VISIT)
    other.check(Turn(3, -4))


def test_hash_and_bytes_are_those_of_a_java_record_of_the_fields() -> None:
    # Objects.hash(3L, (byte) -4) = 31 * (31 * 1 + 3) - 4
    assert java_hash(Turn(3, -4)) == 31 * (31 + 3) - 4
    assert serialize(Turn(3, -4)) == (3).to_bytes(8, "big") + b"\xfc"
    assert serialize(VISIT) == (
        (-5).to_bytes(8, "big", signed=True)
        + (7).to_bytes(8, "big")
        + b"\x05gold"
        + (2013).to_bytes(4, "big")
        + b"\x01\x02\x01"
    )


@pytest.mark.parametrize(
    ("window", "told"),
    [
        (("gold",), "but its window_type is Visit"),
        (VISIT._replace(tier=None), "the field tier is declared as string and can't be None"),
        (VISIT._replace(tier="\ud800"), "the field tier is declared as string"),
        (VISIT._replace(first=1), "the field first is declared as bool and can't be 1"),
        (VISIT._replace(start=2.0), "the field start is declared as long"),
        (VISIT._replace(start=2**62), "milliseconds within 292,000 years of 1970"),
    ],
)
def test_a_window_that_would_not_come_back_is_refused(window: Any, told: str) -> None:
    with pytest.raises(OwnWindowError, match=told):
        own_window_class(Visit).check(window)


def test_the_end_of_a_window_is_its_last_instant() -> None:
    class Longer(NamedTuple):
        end: int
        columns = ""

        def max_timestamp(self) -> int:
            return self.end + 5

    with pytest.raises(OwnWindowError, match=r"max_timestamp\(\) is 12; .* it is end - 1"):
        own_window_class(Longer).check(Longer(7))


def declared(fields: str, columns: Any, has_last_instant: bool = True) -> Any:
    body = {"columns": columns, "max_timestamp": lambda self: 0}
    return type("Odd", (namedtuple("Odd", fields),), body if has_last_instant else {"columns": columns})


@pytest.mark.parametrize(
    ("window_type", "told"),
    [
        (declared("start tier", ""), "has the fields start, tier and declares the columns none"),
        (declared("start", "tier string"), "declares the columns tier"),
        (declared("", ""), "has the fields none"),
        (declared("tier", "tier double"), "'tier double'; a column of a window is a name and one of tinyint"),
        (declared("tier", None), "columns is None; it declares a column for each field"),
        (declared("tier", "tier string", False), "has no max_timestamp"),
        (int, "int is no named tuple"),
    ],
)
def test_a_class_that_cannot_stand_in_columns_is_refused(window_type: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        own_window_class(window_type)


def test_windows_stand_in_their_columns_and_come_back() -> None:
    columns = WindowColumns(own_window_class(Visit))
    windows = [VISIT, None, VISIT._replace(tier="", start=0)]
    rows = pa.table(columns.arrays(windows, NAMESPACE))
    assert rows.column_names == [
        "namespace_start",
        "namespace_end",
        "namespace_tier",
        "namespace_day",
        "namespace_first",
    ]
    assert columns.values(rows, NAMESPACE, None) == windows
    assert columns.names() == ["window_start", "window_end", "tier", "day", "first"]


def test_without_bounds_the_end_follows_from_the_last_instant() -> None:
    columns = WindowColumns(own_window_class(Turn))
    windows = [Turn(3, 1), Turn(-1, 2)]
    rows = pa.table(columns.arrays(windows))
    assert rows.column("window_start").null_count == 2
    assert rows.column("window_end").cast(pa.int64()).to_pylist() == [40_000, None]
    assert columns.values(rows) == windows
