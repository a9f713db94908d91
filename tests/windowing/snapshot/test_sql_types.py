"""A declared SQL type is a column of that type, and a value that would change in it is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from slackwater.windowing.snapshot import SnapshotValueError
from slackwater.windowing.snapshot.sql_types import arrow_type, to_column, to_values


@pytest.mark.parametrize(
    ("sql_type", "kind"),
    [
        ("tinyint", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        (" bigint ", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("boolean", pa.bool_()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
    ],
)
def test_each_sql_type_has_its_column(sql_type: str, kind: pa.DataType) -> None:
    assert arrow_type(sql_type) == kind


@pytest.mark.parametrize("sql_type", ["number", "array<moon>", "decimal", "struct<a:int>", ""])
def test_other_types_are_refused_with_a_list_of_those_that_there_are(sql_type: str) -> None:
    with pytest.raises(SnapshotValueError, match=r"there are tinyint, byte, .* decimal"):
        arrow_type(sql_type)


@pytest.mark.parametrize(
    ("sql_type", "values"),
    [
        ("tinyint", [-128, 127, None]),
        ("bigint", [-(2**63), 2**63 - 1]),
        ("double", [0.1, math.inf, None, 7]),
        ("float", [0.5, -math.inf, 2**24]),
        ("string", ["", "ключ", None]),
        ("boolean", [True, False]),
        ("binary", [b"", b"\0"]),
        ("date", [date(1, 1, 1), date(9999, 12, 31)]),
        (
            "timestamp",
            [datetime(2013, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(2013, 1, 1, tzinfo=ZoneInfo("UTC"))],
        ),
        ("decimal(5,2)", [Decimal("1.5"), Decimal("-999.99")]),
        ("array<int>", [[], [1, None], None]),
    ],
)
def test_values_come_back_equal(sql_type: str, values: list[Any]) -> None:
    column = to_column(values, arrow_type(sql_type), "s")
    assert column.type == arrow_type(sql_type)
    assert to_values(pa.chunked_array([column])) == values


def test_not_a_number_is_no_null() -> None:
    [value] = to_values(pa.chunked_array([to_column([math.nan], pa.float64(), "s")]))
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("tinyint", 128),
        ("bigint", 2**63),
        ("int", 1.0),
        ("int", True),
        ("int", "1"),
        ("double", 2**53 + 1),
        ("double", Decimal(1)),
        ("float", 0.1),
        ("float", 2**24 + 1),
        ("string", 1),
        ("string", "\ud800"),
        ("boolean", 1),
        ("date", datetime(2013, 1, 1, tzinfo=UTC)),
        ("timestamp", datetime(2013, 1, 1)),  # noqa: DTZ001 - a local time is no moment
        ("timestamp", datetime(2013, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        ("timestamp", 0),
        ("decimal(5,2)", Decimal("1.005")),
        ("decimal(5,2)", Decimal("1000")),
        ("array<int>", (1,)),
        ("array<int>", [1.0]),
    ],
)
def test_a_value_that_would_change_is_refused(sql_type: str, value: Any) -> None:
    with pytest.raises(SnapshotValueError, match="State 'total' is declared as") as refusal:
        to_column([None, value], arrow_type(sql_type), "total")
    assert refusal.value.state_name == "total"
