"""How each declared aggregate accumulates, and which typed columns hold its accumulator in `window_state`.

All of them are commutative and associative, so neither the order of elements nor the partitioning can show in a result.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from jobs.engines import exact_sums
from jobs.pipelines import Aggregate
from jobs.pipelines.errors import PipelineError
from jobs.tables.schemas import TIME
from windowing import AggregateFunction

Part = tuple[str, pa.DataType]
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
WIDE = pa.decimal128(38, 0)
_TOO_WIDE = 10**38


class Accumulator(Protocol):
    """One aggregate bound to the type of its column. Accumulators are plain values; None in a result is SQL's null.

    Attributes:
        parts: (suffix, type) of the columns `<result>__<suffix>` that hold the accumulator.
        result_type: type of the result column.
    """

    parts: tuple[Part, ...]
    result_type: pa.DataType

    def create(self) -> Any:
        """The accumulator of no elements."""

    def add(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with one more value of the column, never null."""

    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both sets of elements."""

    def result(self, accumulator: Any) -> Any:
        """What a firing emits."""

    def encode(self, accumulator: Any) -> tuple[Any, ...]:
        """The values of `parts`, canonical: equal multisets of values give equal parts."""

    def decode(self, parts: Sequence[Any]) -> Any:
        """The inverse of `encode`."""


class ResultOverflow(ArithmeticError):
    """An integer sum left the range of its result type."""


class Count:
    """Elements, or non-null values of a column."""

    parts: tuple[Part, ...] = (("count", pa.int64()),)
    result_type = pa.int64()

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: Any) -> int:
        return accumulator + 1

    def merge(self, a: int, b: int) -> int:
        return a + b

    def result(self, accumulator: int) -> int:
        return accumulator

    def encode(self, accumulator: int) -> tuple[int]:
        return (accumulator,)

    def decode(self, parts: Sequence[Any]) -> int:
        return int(parts[0])


class _Summing:
    """Sum and count of values; subclasses say how a sum is held and read. Accumulator: (count, sum)."""

    zero: Any

    def create(self) -> tuple[int, Any]:
        return (0, self.zero)

    def add(self, accumulator: tuple[int, Any], value: Any) -> tuple[int, Any]:
        return (accumulator[0] + 1, accumulator[1] + value)

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], a[1] + b[1])


class _IntegerSumming(_Summing):
    """Integers in 128 bits: a decimal(38, 0) column beside the count."""

    zero = 0
    parts: tuple[Part, ...] = (("sum", WIDE), ("count", pa.int64()))

    def encode(self, accumulator: tuple[int, int]) -> tuple[Decimal, int]:
        return (Decimal(accumulator[1]), accumulator[0])

    def decode(self, parts: Sequence[Any]) -> tuple[int, int]:
        return (int(parts[1]), int(parts[0]))


class IntegerSum(_IntegerSumming):
    """Sum of an integer column as bigint, checked at a firing."""

    result_type = pa.int64()

    def result(self, accumulator: tuple[int, int]) -> int | None:
        count, total = accumulator
        if not LONG_MIN <= total <= LONG_MAX:
            raise ResultOverflow(f"the sum {total} does not fit bigint; sum a decimal column instead")
        return total if count else None


class IntegerMean(_IntegerSumming):
    """Mean of an integer column: the exact quotient, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, int]) -> float | None:
        count, total = accumulator
        return total / count if count else None


class _DoubleSumming(_Summing):
    """Doubles as an exact sum: a binary column beside a readable double and the count."""

    zero = exact_sums.ZERO
    parts: tuple[Part, ...] = (("sum", pa.float64()), ("sum_exact", pa.binary()), ("count", pa.int64()))

    def add(self, accumulator: tuple[int, Any], value: float) -> tuple[int, Any]:
        return (accumulator[0] + 1, exact_sums.add(accumulator[1], value))

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], exact_sums.merge(a[1], b[1]))

    def encode(self, accumulator: tuple[int, Any]) -> tuple[float, bytes, int]:
        count, total = accumulator
        return (exact_sums.rounded(total), exact_sums.encode(total), count)

    def decode(self, parts: Sequence[Any]) -> tuple[int, Any]:
        return (int(parts[2]), exact_sums.decode(parts[1]))


class DoubleSum(_DoubleSumming):
    """Sum of a float column, rounded once at a firing."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, Any]) -> float | None:
        return exact_sums.rounded(accumulator[1]) if accumulator[0] else None


class DoubleMean(_DoubleSumming):
    """Mean of a float column: the exact quotient, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, Any]) -> float | None:
        return exact_sums.rounded(accumulator[1], accumulator[0]) if accumulator[0] else None


class _DecimalSumming(_Summing):
    """Decimals of one scale, summed as integers of their last digit: a binary column beside a readable decimal and the count.

    The readable one is null while the sum has more than 38 digits, which later terms may undo.
    """

    zero = 0

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.parts: tuple[Part, ...] = (("sum", pa.decimal128(38, scale)), ("sum_exact", pa.binary()), ("count", pa.int64()))

    def add(self, accumulator: tuple[int, int], value: Decimal) -> tuple[int, int]:
        return (accumulator[0] + 1, accumulator[1] + _unscaled(value, self.scale))

    def encode(self, accumulator: tuple[int, int]) -> tuple[Decimal | None, bytes, int]:
        count, total = accumulator
        exact = total.to_bytes(total.bit_length() // 8 + 1, "big", signed=True)
        return (_scaled(total, self.scale) if abs(total) < _TOO_WIDE else None, exact, count)

    def decode(self, parts: Sequence[Any]) -> tuple[int, int]:
        return (int(parts[2]), int.from_bytes(parts[1], "big", signed=True))


class DecimalSum(_DecimalSumming):
    """Sum of a decimal column as decimal(38, scale), checked at a firing."""

    def __init__(self, scale: int) -> None:
        super().__init__(scale)
        self.result_type = pa.decimal128(38, scale)

    def result(self, accumulator: tuple[int, int]) -> Decimal | None:
        count, total = accumulator
        if abs(total) >= _TOO_WIDE:
            raise ResultOverflow(f"the sum has more than 38 digits and does not fit decimal(38, {self.scale})")
        return _scaled(total, self.scale) if count else None


class DecimalMean(_DecimalSumming):
    """Mean of a decimal column as a double, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, int]) -> float | None:
        count, total = accumulator
        return total / (count * 10**self.scale) if count else None


def _unscaled(value: Decimal, scale: int) -> int:
    """`value` in units of its last digit; free of decimal contexts, which round at 28 digits."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


def _scaled(number: int, scale: int) -> Decimal:
    """The inverse of `_unscaled`."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _greatest(value: Any) -> tuple[bool, Any]:
    """Sort key in which one NaN is greater than every number."""
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


class Extremum:
    """Smallest or greatest value of a column. Accumulator: the value, None for none."""

    def __init__(self, kind: str, column_type: pa.DataType) -> None:
        self.parts: tuple[Part, ...] = ((kind, column_type),)
        self.result_type = column_type
        self._pick: Callable[..., Any] = min if kind == "min" else max

    def create(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any) -> Any:
        return value if accumulator is None else self._pick(accumulator, value, key=_greatest)

    def merge(self, a: Any, b: Any) -> Any:
        return a if b is None else self.add(a, b)

    def result(self, accumulator: Any) -> Any:
        return accumulator

    def encode(self, accumulator: Any) -> tuple[Any]:
        return (accumulator,)

    def decode(self, parts: Sequence[Any]) -> Any:
        return parts[0]


_ORDERED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def bind(name: str, aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> Accumulator:
    """The accumulator of `aggregate` on a source whose columns have `types`.

    Raises:
        PipelineError: the column is missing, or its type does not suit the aggregate.
    """
    subject = f"select[{name!r}] = {aggregate.kind}({aggregate.column!r})"
    if aggregate.kind == "count":
        if aggregate.column is not None:
            _column_type(subject, aggregate.column, types)
        return Count()
    assert aggregate.column is not None
    kind = _column_type(subject, aggregate.column, types)
    if aggregate.kind in ("min", "max"):
        if not any(fits(kind) for fits in _ORDERED):
            raise PipelineError(subject, f"the column is {kind}; min and max take numbers, decimals, strings, dates and timestamps")
        return Extremum(aggregate.kind, TIME if pa.types.is_timestamp(kind) else kind)
    summing: dict[str, tuple[Callable[[], Accumulator], Callable[[], Accumulator]]] = {
        "integer": (IntegerSum, IntegerMean),
        "floating": (DoubleSum, DoubleMean),
        "decimal": (lambda: DecimalSum(kind.scale), lambda: DecimalMean(kind.scale)),
    }
    for family, (total, average) in summing.items():
        if getattr(pa.types, f"is_{family}")(kind):
            return total() if aggregate.kind == "sum" else average()
    raise PipelineError(subject, f"the column is {kind}; {aggregate.kind} takes integers, floats and decimals")


def _column_type(subject: str, column: str, types: Mapping[str, pa.DataType]) -> pa.DataType:
    if column not in types:
        raise PipelineError(subject, f"the source has no column {column!r}; it has {', '.join(sorted(types))}")
    return types[column]


class SelectFunction(AggregateFunction):
    """A pipeline's `select` as one Flink AggregateFunction: the element is a row number, the accumulator a list of accumulators.

    `columns[i]` holds the values that aggregate i reads, or None when it counts rows. Row numbers are of one slice and never enter state.
    """

    def __init__(self, accumulators: Sequence[Accumulator], columns: Sequence[Sequence[Any] | None]) -> None:
        self._accumulators = tuple(accumulators)
        self._columns = tuple(columns)
        self._adders = tuple((i, a.add, c) for i, (a, c) in enumerate(zip(self._accumulators, self._columns, strict=True)))

    def create_accumulator(self) -> list[Any]:
        return [accumulator.create() for accumulator in self._accumulators]

    def add(self, value: int, accumulator: list[Any]) -> list[Any]:
        for i, add, column in self._adders:
            if column is None:
                accumulator[i] = add(accumulator[i], None)
            elif (item := column[value]) is not None:
                accumulator[i] = add(accumulator[i], item)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[Any, ...]:
        return tuple(a.result(item) for a, item in zip(self._accumulators, accumulator, strict=True))

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [bound.merge(x, y) for bound, x, y in zip(self._accumulators, a, b, strict=True)]
