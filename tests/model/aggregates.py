"""What each aggregate results in, by its definition, over the events of a window. Imports no slackwater."""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from operator import xor
from typing import Any

from tests.model.records import Aggregate, Event


def aggregate(members: Sequence[Event], aggregates: Iterable[Aggregate]) -> dict[str, object]:
    """The results over the members, with SQL's rules for nulls: skipped, and null when nothing is left (a
    count is 0 then).
    """
    results: dict[str, object] = {}
    for one in aggregates:
        chosen_events = [member for member in members if one.keeps(member)]
        if one.column is not None:
            chosen_events = sorted(
                (member for member in chosen_events if member.values[one.column] is not None), key=one.rank
            )
        if one.function == "count":
            results[one.name] = len(chosen_events)
        elif one.function == "count_distinct":
            results[one.name] = len({repr(_plain(member.values[one.column])) for member in chosen_events})
        elif one.function == "min_by":
            pairs = [
                (_plain(member.values[one.other or ""]), _plain(member.values[one.column]))
                for member in chosen_events
            ]
            pairs = [pair for pair in pairs if pair[0] is not None]
            results[one.name] = min(pairs, key=lambda pair: tuple(map(_nan_last, pair)))[1] if pairs else None
        elif one.function == "collect_list":
            values = [_plain(member.values[one.column]) for member in chosen_events]
            results[one.name] = values[: one.limit] or None
        else:
            results[one.name] = (
                _fold(one.function, [member.values[one.column] for member in chosen_events])
                if chosen_events
                else None
            )
    return results


def _fold(function: str, values: list) -> object:
    if function in ("first", "last"):  # of values in their order
        return _plain(values[0] if function == "first" else values[-1])
    if function in ("variance", "stddev", "var_pop"):
        return _spread(function, values)
    if function == "bit_xor":
        return reduce(xor, values)
    if function in ("collect_set", "sum_distinct"):
        different = {repr(_plain(value)): _plain(value) for value in values}.values()
        ascending = sorted(different, key=_nan_last)
        return ascending if function == "collect_set" else _fold("sum", ascending)
    if function == "median":
        ascending = sorted(map(Fraction, values))
        return _rounded((ascending[(len(values) - 1) // 2] + ascending[len(values) // 2]) / 2)
    if function == "mode":
        ascending = sorted(map(_plain, values), key=_nan_last)
        texts = list(map(repr, ascending))
        return max(ascending, key=lambda value: texts.count(repr(value)))  # the first of several
    if function in ("min", "max"):  # NaN is the greatest value
        numbers = [value for value in values if value == value]
        if function == "min":
            return _plain(min(numbers)) if numbers else math.nan
        return _plain(max(numbers)) if len(numbers) == len(values) else math.nan
    floats = [value for value in values if isinstance(value, float)]
    if function == "sum" and not floats:
        return sum(values)
    if not all(math.isfinite(value) for value in floats):
        special = [value for value in floats if not math.isfinite(value)]
        return special[0] if all(value == special[0] for value in special) else math.nan
    exact = sum((Fraction(value) for value in values), Fraction(0))
    if function == "sum":
        return _rounded(exact)
    if function == "mean":
        return _rounded(exact / len(values))
    raise ValueError(f"no such aggregate: {function}")


def _nan_last(value: Any) -> tuple[bool, Any]:
    return (value != value, value if value == value else 0)


def _spread(function: str, values: list) -> float | None:
    spare = 0 if function == "var_pop" else 1
    if len(values) <= spare:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    middle = sum(map(Fraction, values)) / len(values)
    exact = sum((Fraction(value) - middle) ** 2 for value in values) / (len(values) - spare)
    if function != "stddev":
        return _rounded(exact)
    with localcontext(prec=400):
        return float((Decimal(exact.numerator) / Decimal(exact.denominator)).sqrt())


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _plain(value: object) -> object:
    return 0.0 if isinstance(value, float) and value == 0.0 else value
