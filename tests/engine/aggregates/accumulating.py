"""What the tests of aggregates share: columns of every type with values for them, and accumulators on their
way through their columns.
"""

import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.engine.aggregates import Accumulator, bind
from slackwater.engine.rows.python_values import to_arrow, to_python
from slackwater.pipelines import Aggregate

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DECIMAL_38 = pa.decimal128(38, 10)

longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats()
decimals = st.integers(-(10**38) + 1, 10**38 - 1).map(
    lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -10))
)
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=4)
dates = st.dates()
times = st.datetimes(timezones=st.just(UTC))

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "long": (pa.int64(), longs),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), doubles),
    "decimal": (DECIMAL_38, decimals),
    "text": (pa.string(), texts),
    "date": (pa.date32(), dates),
    "time": (pa.timestamp("us", tz="UTC"), times),
}
NUMBERS = ("byte", "long", "float", "double", "decimal")


def bound(aggregate: Aggregate, kind: pa.DataType) -> Accumulator:
    return bind("result", aggregate, {"x": kind})


def accumulated(accumulator: Accumulator, values: list[Any]) -> Any:
    return reduce(accumulator.add, (value for value in values if value is not None), accumulator.create())


def parked(accumulator: Accumulator, state: Any) -> Any:
    """`state` as it comes back from its columns."""
    columns = [
        to_arrow([value], kind)
        for value, (_, kind) in zip(accumulator.encode(state), accumulator.parts, strict=True)
    ]
    return accumulator.decode([to_python(pa.chunked_array([column]))[0] for column in columns])


def emitted(accumulator: Accumulator, state: Any) -> Any:
    """The result as a reader of the panes gets it."""
    return to_arrow([accumulator.result(state)], accumulator.result_type).to_pylist()[0]


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack(">d", a) == struct.pack(">d", b)
    return bool(a == b) and type(a) is type(b)
