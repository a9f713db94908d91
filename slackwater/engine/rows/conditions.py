"""Which rows meet a condition: SQL's three-valued logic on whole columns, the same for every engine.

Integers and decimals compare exactly, floats as doubles (a literal is the nearest one); NaN equals itself and
is greater than every number; text compares by its UTF-8 bytes. That is so of comparisons, which Arrow
evaluates; what else a condition may hold is an expression (`slackwater.engine.rows.expressions`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.expressions import Values, type_of, values_of
from slackwater.pipelines.conditions import (
    And,
    ColumnReference,
    Comparison,
    Holds,
    IsNull,
    LiteralValue,
    Not,
    Or,
    Term,
    columns_of,
    parse_condition,
)
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression

_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FAMILIES = {
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string),
    "boolean": (pa.types.is_boolean,),
    "time": (pa.types.is_timestamp,),
    "date": (pa.types.is_date32,),
}


@dataclass(frozen=True)
class Condition:
    """A condition bound to the types of the columns that it reads. A plain value: it travels to tasks."""

    term: Term

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return columns_of(self.term)

    def holds(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """For each row whether the condition is true; unknown counts as false, and so does a row on which it
        fails.
        """
        return np.asarray(self.evaluate(rows).column.fill_null(False), np.bool_)

    def evaluate(self, rows: pa.Table) -> Values:
        """For each row whether the condition is true, null where that is unknown; and where it fails."""
        if isinstance(self.term, Expression):
            return values_of(self.term, rows)
        return Values(_evaluate(self.term, rows), None)


def bind_condition(subject: str, text: str, types: Mapping[str, pa.DataType]) -> Condition:
    """The condition `text` on a source whose columns have `types`.

    Raises:
        PipelineError: it can't be read, a column is missing, or two sides can't be compared.
    """
    term = parse_condition(subject, text)
    if isinstance(term, Expression):
        kind = type_of(subject, "where", term, pa.schema(list(types.items())))
        if not pa.types.is_boolean(kind):
            raise PipelineError(
                subject, f"where is {text!r}, whose values are {kind}; it must be true or false"
            )
        return Condition(term)
    for name in columns_of(term):
        if name not in types:
            raise PipelineError(
                subject,
                f"where reads {name!r}, and the source has no such column; it has {', '.join(sorted(types))}",
            )
    _check(subject, term, types)
    return Condition(term)


def _check(subject: str, term: Term, types: Mapping[str, pa.DataType]) -> None:
    match term:
        case And(terms) | Or(terms):
            for part in terms:
                _check(subject, part, types)
        case Not(part):
            _check(subject, part, types)
        case Holds(ColumnReference(name)) if not pa.types.is_boolean(types[name]):
            raise PipelineError(
                subject,
                f"where has {name!r} by itself, and the column is {types[name]}; compare it with something",
            )
        case Comparison(ColumnReference(name), _, ColumnReference(other)):
            if _comparable(types[name]) is None or _comparable(types[name]) != _comparable(types[other]):
                raise PipelineError(
                    subject, f"where compares {name!r} ({types[name]}) with {other!r} ({types[other]})"
                )
        case Comparison(ColumnReference(name), _, value):
            assert not isinstance(value, ColumnReference)
            kind = types[name]
            try:
                fits = isinstance(_literal(value, kind), _LITERALS.get(_family(kind) or "", ()))
            except ValueError:
                fits = False
            if not fits or (_family(kind) == "number" and isinstance(value, bool)):
                raise PipelineError(subject, f"where compares {name!r}, which is {kind}, with {value!r}")


# The types of the literals that a column of each family may be compared with.
_LITERALS: Mapping[str, tuple[type, ...]] = {
    "number": (int, Decimal),
    "text": (str,),
    "boolean": (bool,),
    "time": (datetime,),
    "date": (date,),
}


def _family(kind: pa.DataType) -> str | None:
    return next((name for name, tests in _FAMILIES.items() if any(test(kind) for test in tests)), None)


def _comparable(kind: pa.DataType) -> Any:
    """Two columns can be compared if this is equal for both: numbers only with numbers of the same
    representation, so that neither side is rounded.
    """
    if _family(kind) == "number":
        return (
            ("float",)
            if pa.types.is_floating(kind)
            else ("decimal", kind.scale)
            if pa.types.is_decimal(kind)
            else ("integer",)
        )
    return _family(kind)


def _literal(value: LiteralValue, kind: pa.DataType) -> Any:
    """`value` as it is compared with a column of that type. Raises ValueError for text that is no time."""
    if isinstance(value, str) and _family(kind) == "time":
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return date.fromisoformat(value) if isinstance(value, str) and _family(kind) == "date" else value


def _evaluate(term: Term, rows: pa.Table) -> pa.ChunkedArray:
    match term:
        case And(terms):
            return reduce(pc.and_kleene, (_evaluate(part, rows) for part in terms))
        case Or(terms):
            return reduce(pc.or_kleene, (_evaluate(part, rows) for part in terms))
        case Not(part):
            return pc.invert(_evaluate(part, rows))
        case IsNull(ColumnReference(name)):
            return pc.is_null(rows.column(name))
        case Holds(ColumnReference(name)):
            return rows.column(name)
        case Comparison(ColumnReference(name), operator, ColumnReference(other)):
            return _compare_columns(rows.column(name), operator, rows.column(other))
        case Comparison(ColumnReference(name), operator, value):
            assert not isinstance(value, ColumnReference)
            column = rows.column(name)
            literal = _literal(value, column.type)
            if _family(column.type) == "number":
                return _compare_number(column, operator, literal)
            return _COMPARE[operator](column, pa.scalar(literal, column.type))


def _compare_columns(column: pa.ChunkedArray, operator: str, other: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return _COMPARE[operator](column, other)
    column_nan, other_nan = pc.is_nan(column).cast(pa.int8()), pc.is_nan(other).cast(pa.int8())
    is_number = pc.equal(pc.add(column_nan, other_nan), 0)
    return pc.if_else(is_number, _COMPARE[operator](column, other), _COMPARE[operator](column_nan, other_nan))


def _compare_number(column: pa.ChunkedArray, operator: str, value: int | Decimal) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type):
        outcome = _COMPARE[operator](column.cast(pa.float64()), float(value))
        return pc.or_(outcome, pc.is_nan(column)) if operator in (">", ">=") else outcome
    # The literal lies between two neighbouring values that the column can have; the comparison is with one of
    # these, so that the literal is never rounded.
    exact_value = Fraction(value) * 10 ** (column.type.scale if pa.types.is_decimal(column.type) else 0)
    floor, ceiling = math.floor(exact_value), math.ceil(exact_value)
    least, greatest = _range(column.type)
    if operator in ("=", "!="):
        if floor != ceiling or not least <= floor <= greatest:
            return _constant(column, operator == "!=")
        return _COMPARE[operator](column, _scalar(floor, column.type))
    bound = ceiling if operator in ("<", ">=") else floor
    if not least <= bound <= greatest:
        return _constant(column, (bound > greatest) == (operator in ("<", "<=")))
    return _COMPARE[operator](column, _scalar(bound, column.type))


def _range(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of a column, in units of its last digit."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if pa.types.is_signed_integer(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return 0, 2**kind.bit_width - 1


def _scalar(number: int, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -kind.scale)), kind)
    return pa.scalar(number, kind)


def _constant(column: pa.ChunkedArray, value: bool) -> pa.ChunkedArray:
    """`value` in each row that is not null."""
    return pc.if_else(pc.is_valid(column), value, pa.scalar(None, pa.bool_()))
