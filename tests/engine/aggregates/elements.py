"""Elements for the tests of aggregates: rows with a value of every type that an aggregate may take, its
extremes among them, and what ranks rows.
"""

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.engine.rows.columns_read import ARRIVAL, EVENT

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DECIMAL_38 = pa.decimal128(38, 10)
WIDEST = Decimal("9" * 28 + "." + "9" * 10)


class ValuesOfType(NamedTuple):
    """A type of columns, any of its values, and those at its borders."""

    type: pa.DataType
    some: st.SearchStrategy[Any]
    extremes: Sequence[Any]


def _decimal(number: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -10))


_DOUBLES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 2.0**-53]
_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 2.0**-149, 3.4028234663852886e38, 0.5]

# By the families of `slackwater.engine.aggregates.table`.
TYPES: dict[str, dict[str, ValuesOfType]] = {
    "integer": {
        "byte": ValuesOfType(pa.int8(), st.integers(-128, 127), [-128, 127, 0]),
        "long": ValuesOfType(
            pa.int64(), st.integers(-(2**63), 2**63 - 1), [-(2**63), 2**63 - 1, 0, -1, 2**53 + 1]
        ),
    },
    "floating": {
        "float": ValuesOfType(pa.float32(), st.floats(width=32), _FLOATS),
        "double": ValuesOfType(pa.float64(), st.floats(), _DOUBLES),
    },
    "decimal": {
        "decimal": ValuesOfType(
            DECIMAL_38,
            st.integers(-(10**38) + 1, 10**38 - 1).map(_decimal),
            [WIDEST, WIDEST.copy_negate(), Decimal(0), _decimal(1)],
        )
    },
    "string": {
        "text": ValuesOfType(
            pa.string(), st.text(alphabet=st.characters(codec="utf-8"), max_size=4), ["", "\0", "\U0010ffff"]
        )
    },
    "date": {"date": ValuesOfType(pa.date32(), st.dates(), [date.min, date.max])},
    "timestamp": {
        "time": ValuesOfType(
            pa.timestamp("us", tz="UTC"),
            st.datetimes(timezones=st.just(UTC)),
            [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), EPOCH],
        )
    },
    "boolean": {"boolean": ValuesOfType(pa.bool_(), st.booleans(), [False, True])},
}
NUMBERS = ("byte", "long", "float", "double", "decimal")
VALUES = {name: values for types in TYPES.values() for name, values in types.items()}


class Element(NamedTuple):
    value: Any
    event_time: int
    arrival: int
    order: float | None
    is_chosen: bool


def elements_of(values: Sequence[Any]) -> list[Element]:
    """Elements one after the other, of the values alone."""
    return [Element(value, number, number, None, is_chosen=True) for number, value in enumerate(values)]


def rows_of(elements: Sequence[Element], column_type: pa.DataType) -> pa.Table:
    times = [element.event_time for element in elements]
    arrivals = [element.arrival for element in elements]
    return pa.table(
        {
            "x": pa.array([element.value for element in elements], column_type),
            "o": pa.array([element.order for element in elements], pa.float64()),
            "c": pa.array([element.is_chosen for element in elements], pa.bool_()),
            ARRIVAL: pa.array(arrivals, pa.int64()),
            EVENT: pa.array(times, pa.int64()),
        }
    )


@st.composite
def drawn_elements(draw: st.DrawFn, values: ValuesOfType, max_size: int = 9) -> list[Element]:
    """Some elements, many of them with equal values, times and ranks."""
    value = st.none() | st.sampled_from(values.extremes) | values.some
    time = st.integers(-2, 2)
    order = st.none() | st.sampled_from([-1.5, 0.0, math.nan])
    element = st.builds(
        Element, value=value, event_time=time, arrival=time, order=order, is_chosen=st.booleans()
    )
    return draw(st.lists(element, max_size=max_size))


def alike(a: Any, b: Any) -> bool:
    """Equal to the bit, but that there is one NaN, also inside lists and structs."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(alike, a.values(), b.values()))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack(">d", a) == struct.pack(">d", b)
    return bool(a == b) and type(a) is type(b)
