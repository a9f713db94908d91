"""The type that two types have in common holds the values of both, whichever comes first."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from slackwater.engine.source.wider_types import wider_type

TEXT = pa.string()
INNER, OUTER = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
PAIRS = [
    (pa.null(), pa.float64(), pa.float64(), None),
    (pa.int16(), pa.float32(), pa.float64(), 7),
    (pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), date(2024, 1, 2)),
    (pa.decimal128(10, 2), pa.decimal128(9, 4), pa.decimal128(12, 4), Decimal("12345678.25")),
    (pa.int32(), pa.decimal128(6, 3), pa.decimal128(13, 3), -(2**31)),
    (pa.decimal128(38, 0), pa.decimal128(38, 1), None, None),
    (INNER, OUTER, OUTER, {"a": 1}),
    (pa.list_(pa.field("item", INNER)), pa.list_(pa.field("element", OUTER)), pa.list_(OUTER), [{"a": 1}]),
    (
        pa.map_(pa.string(), INNER),
        pa.map_(pa.string(), OUTER),
        pa.map_(pa.string(), OUTER),
        [("k", {"a": 1})],
    ),
    (pa.int64(), pa.string(), None, None),
    (pa.bool_(), pa.int64(), None, None),
    (INNER, pa.struct([("a", pa.string())]), None, None),
]


@pytest.mark.parametrize(("one", "other", "common", "value"), PAIRS, ids=str)
def test_the_common_type_holds_values_of_both(
    one: pa.DataType, other: pa.DataType, common: pa.DataType | None, value: object
) -> None:
    for kinds in ((one, other), (other, one)):
        kind = wider_type(*kinds)
        assert kind is common if common is None else kind is not None and kind.equals(common), (kinds, kind)
        if kind is not None:
            assert pa.chunked_array([pa.array([value], one)]).cast(kind).null_count == (value is None)
