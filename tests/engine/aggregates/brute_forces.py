"""What each aggregate is, from its definition, over exact numbers or one value at a time: BRUTE_FORCES has
one for each kind. None of it is code of the engine.
"""

import itertools
import math
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from hashlib import blake2b
from operator import and_, or_, xor
from typing import Any

from slackwater.pipelines import Aggregate
from tests.engine.aggregates.elements import EPOCH, Element, alike

Holds = Callable[[Any], bool]  # whether a result is right; OVERFLOW is that of a firing that fails


class Overflow:
    """The result of a sum that its type does not hold."""


OVERFLOW = Overflow()


def expected(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """The test of a result over these elements, whose values are of the type `column`."""
    chosen = [item for item in elements if aggregate.where is None or item.is_chosen]
    if aggregate.column is not None:
        chosen = [item for item in chosen if item.value is not None]
    return BRUTE_FORCES[aggregate.kind](aggregate, chosen, column)


def _exactly(result: Any) -> Holds:
    return lambda given: alike(given, result)


def _values(elements: Sequence[Element]) -> list[Any]:
    return [element.value for element in elements]


def _count(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    return _exactly(len(elements))


def exact_sum(values: Sequence[Any]) -> Fraction | float:
    """The sum as a fraction, or the special value that it is."""
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    if not special:
        return reduce(Fraction.__add__, map(Fraction, values), Fraction(0))
    return math.nan if len(set(map(str, special))) > 1 or math.isnan(special[0]) else special[0]


def nearest(value: Fraction | float) -> float:
    if isinstance(value, float):
        return value
    try:
        return value.numerator / value.denominator + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _sum(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    values = _values(elements)
    if not values:
        return _exactly(None)
    total = exact_sum(values)
    if column in ("float", "double"):
        return _exactly(nearest(total))
    assert isinstance(total, Fraction)
    if column == "decimal":
        with localcontext(prec=60):
            return _exactly(reduce(Decimal.__add__, values) if abs(total) < 10**28 else OVERFLOW)
    return _exactly(int(total) if -(2**63) <= total < 2**63 else OVERFLOW)


def _mean(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    values = _values(elements)
    return _exactly(nearest(exact_sum(values) / len(values)) if values else None)


def _extreme(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    pick = min if aggregate.kind == "min" else max
    values = [value + 0.0 if isinstance(value, float) else value for value in _values(elements)]
    # NaN is the greatest.
    return _exactly(pick(values, key=_nan_last) if values else None)


def _nan_last(value: Any) -> tuple[bool, Any]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


def _variance(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """By its definition: squared distances from the mean."""
    values = _values(elements)
    spare = 0 if aggregate.kind.endswith("_pop") else 1
    if len(values) <= spare:
        return _exactly(None)
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return _exactly(math.nan)
    average = sum(map(Fraction, values)) / Fraction(len(values))
    variance = sum((Fraction(value) - average) ** 2 for value in values) / Fraction(len(values) - spare)
    assert isinstance(variance, Fraction)
    return _exactly(nearest_root(variance) if aggregate.kind.startswith("stddev") else nearest(variance))


def nearest_root(exact: Fraction) -> float:
    with localcontext(prec=800):
        return float((Decimal(exact.numerator) / Decimal(exact.denominator)).sqrt())


def _first_or_last(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """Rows of one rank are told apart by their hashes, of which a brute force knows nothing."""
    if not elements:
        return _exactly(None)

    def rank(element: Element) -> tuple[Any, ...]:
        return _rank(aggregate, element)

    best = (min if aggregate.kind == "first" else max)(map(rank, elements))
    of_best_rank = [_plain(element.value) for element in elements if rank(element) == best]
    return lambda given: any(alike(given, value) for value in of_best_rank)


def _rank(aggregate: Aggregate, element: Element) -> tuple[Any, ...]:
    order = element.order
    place = (0, 0.0) if order is None else (2, 0.0) if math.isnan(order) else (1, order)
    times = (element.event_time, element.arrival)
    return (*(times if aggregate.by == "event_time" else times[1:]), place)


def _collect_list(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """The values of equal rank may be in any order; a limit may cut the last of them."""
    by_rank: dict[tuple[Any, ...], list[Any]] = {}
    for element in elements:
        by_rank.setdefault(_rank(aggregate, element), []).append(_token(element.value))
    in_order = [values for _, values in sorted(by_rank.items())]
    length = min(len(elements), aggregate.limit or len(elements))

    def holds(given: Any) -> bool:
        if given is None or not elements:
            return given is None and not elements
        tokens = iter(map(_token, given))
        parts = [Counter(itertools.islice(tokens, len(values))) for values in in_order]
        return len(given) == length and all(
            part <= Counter(values) for part, values in zip(parts, in_order, strict=True)
        )

    return holds


def _token(value: Any) -> Any:
    """Equal for values that are one, NaN and NaN among them."""
    return repr(value + 0.0) if isinstance(value, float) else value


def _string_agg(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """As `_collect_list` where all ranks differ; else a text of the same pieces."""
    in_order = sorted(elements, key=lambda element: _rank(aggregate, element))
    ranks = [_rank(aggregate, element) for element in in_order]
    text = (aggregate.separator or "").join(_values(in_order)) if elements else None
    if len(set(ranks)) == len(ranks):
        return _exactly(text)
    return lambda given: sorted(given) == sorted(text or "")


def _by_other(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    pick = min if aggregate.kind == "min_by" else max
    pairs = [(item.order + 0.0, _plain(item.value)) for item in elements if item.order is not None]
    return _exactly(pick(pairs, key=lambda pair: tuple(map(_nan_last, pair)))[1] if pairs else None)


def _pair_formula(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """By its definition, from distances from the means; the other column is the order of elements."""
    pairs = [(float(item.value), item.order) for item in elements if item.order is not None]
    if not pairs or (aggregate.kind == "covar_samp" and len(pairs) < 2):
        return _exactly(None)
    if not all(math.isfinite(number) for pair in pairs for number in pair):
        return _exactly(math.nan)
    y, x = (list(map(Fraction, numbers)) for numbers in zip(*pairs, strict=True))  # as regressions call them
    mean_y, mean_x = (sum(numbers, Fraction()) / len(pairs) for numbers in (y, x))
    together = sum(((a - mean_y) * (b - mean_x) for a, b in zip(y, x, strict=True)), Fraction())
    spread_y = sum(((a - mean_y) ** 2 for a in y), Fraction())
    spread_x = sum(((b - mean_x) ** 2 for b in x), Fraction())
    match aggregate.kind:
        case "covar_pop":
            return _exactly(nearest(together / len(pairs)))
        case "covar_samp":
            return _exactly(nearest(together / (len(pairs) - 1)))
        case "corr":
            if not spread_x or not spread_y:
                return _exactly(None)
            size = nearest_root(together**2 / (spread_x * spread_y))
            return _exactly(-size if together < 0 else size)
        case "regr_r2" if spread_x and not spread_y:
            return _exactly(1.0)
    if not spread_x:
        return _exactly(None)
    slope = together / spread_x
    if aggregate.kind == "regr_r2":
        return _exactly(nearest(slope * together / spread_y))
    return _exactly(nearest(slope if aggregate.kind == "regr_slope" else mean_y - slope * mean_x))


def _histogram(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    assert aggregate.bounds is not None
    edges = [-math.inf, *aggregate.bounds, math.inf]
    values = [math.inf if math.isnan(value) else value for value in map(float, _values(elements))]
    counts = [
        sum(low < value <= high or (value == low == -math.inf) for value in values)
        for low, high in itertools.pairwise(edges)
    ]
    return _exactly(counts if values else None)


def _top(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    counts = [
        {
            "value": _plain(one.value),
            "count": sum(repr(_plain(one.value)) == repr(_plain(item.value)) for item in elements),
        }
        for one in _different(elements)
    ]
    counts.sort(key=lambda item: -item["count"])
    if aggregate.kind == "mode":
        return _exactly(counts[0]["value"] if counts else None)
    return _exactly(counts[: aggregate.limit] or None)


def _quantile(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    values = sorted((_plain(item.value) for item in elements), key=_nan_last)
    if not values:
        return _exactly(None)
    quantile = Fraction(1, 2) if aggregate.kind == "median" else Fraction(str(aggregate.quantile))
    position = quantile * (len(values) - 1)
    low, high = values[math.floor(position)], values[math.ceil(position)]
    if position.denominator == 1 or repr(low) == repr(high):
        return _exactly(nearest(exact_sum([low])))
    if any(isinstance(value, float) and not math.isfinite(value) for value in (low, high)):
        return _exactly(low * 1.0 + high * 1.0)
    share = position - math.floor(position)
    return _exactly(nearest(Fraction(low) * (1 - share) + Fraction(high) * share))


def _plain(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def _bits(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    fold = {"bit_and": and_, "bit_or": or_, "bit_xor": xor}[aggregate.kind]
    return _exactly(reduce(fold, _values(elements)) if elements else None)


def _booleans(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    return _exactly((all if aggregate.kind == "bool_and" else any)(_values(elements)) if elements else None)


def _different(elements: Sequence[Element]) -> list[Element]:
    """The first element of each different value, by value."""
    by_value = {repr(_plain(element.value)): element for element in reversed(elements)}
    return sorted(by_value.values(), key=lambda element: _nan_last(element.value))


def _sum_distinct(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    return _sum(aggregate, _different(elements), column)


def _collect_set(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    return _exactly([_plain(value) for value in _values(_different(elements))] or None)


def _count_distinct(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    return _exactly(len({repr(_plain(value)) for value in _values(elements)}))


_MASK = 2**64 - 1


def splitmix64(number: int) -> int:
    """Steele et al. 2014."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def hash_of(value: Any) -> int:
    """64 bits of a value: texts and the plain digits of decimals by BLAKE2b, others mixed as stored."""
    if isinstance(value, float):
        [stored] = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value + 0.0))
        return splitmix64(stored)
    if isinstance(value, datetime):
        since = value - EPOCH
        return splitmix64(((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) & _MASK)
    if isinstance(value, date):
        return splitmix64((value - EPOCH.date()).days & _MASK)
    if isinstance(value, int):
        return splitmix64(value & _MASK)
    text = value
    if isinstance(value, Decimal):
        digits = format(abs(value) if value.is_zero() else value, "f")
        text = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _approx_distinct(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    """HyperLogLog with the estimator of Ertl, arXiv:1702.01284, algorithm 6."""
    assert aggregate.precision is not None
    bits = 64 - aggregate.precision
    ranks = [0] * (1 << aggregate.precision)
    for value in _values(elements):
        number, rest = divmod(hash_of(value), 1 << bits)
        ranks[number] = max(ranks[number], bits - rest.bit_length() + 1)
    return _exactly(estimate(ranks, bits))


def estimate(ranks: Sequence[int], bits: int) -> int:
    registers = len(ranks)
    if not any(ranks):
        return 0
    total = registers * _tau(1 - ranks.count(bits + 1) / registers)
    for rank in range(bits, 0, -1):
        total = (total + ranks.count(rank)) / 2
    total += registers * _sigma(ranks.count(0) / registers)
    return round(registers * registers / (2 * math.log(2) * total))


def _sigma(x: float) -> float:
    total, weight, before = x, 1.0, -1.0
    while total != before:
        x, before = x * x, total
        total, weight = total + x * weight, weight + weight
    return total


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    total, weight, before = 1 - x, 1.0, -1.0
    while total != before:
        x, before, weight = math.sqrt(x), total, weight / 2
        total -= (1 - x) ** 2 * weight
    return total / 3


def _approx_quantile(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Holds:
    assert aggregate.quantile is not None and aggregate.relative_error is not None
    values = sorted(map(float, _values(elements)), key=_nan_last)
    if not values:
        return _exactly(None)
    at_its_place = values[math.floor(Fraction(str(aggregate.quantile)) * (len(values) - 1))]
    if not math.isfinite(at_its_place):
        return _exactly(at_its_place)
    error = Fraction(str(aggregate.relative_error)) * (1 + Fraction(1, 10**12))
    if abs(at_its_place) < 2.3e-308:
        return lambda given: abs(given) <= 2.3e-308 * (1 + float(error))
    return lambda given: abs(Fraction(given) - Fraction(at_its_place)) <= error * abs(Fraction(at_its_place))


BRUTE_FORCES: dict[str, Callable[[Aggregate, Sequence[Element], str], Holds]] = {
    "count": _count,
    "function": lambda aggregate, elements, column: _exactly(len(elements) or None),
    "sum": _sum,
    "mean": _mean,
    "min": _extreme,
    "max": _extreme,
    "variance": _variance,
    "stddev": _variance,
    "var_pop": _variance,
    "stddev_pop": _variance,
    **dict.fromkeys(("covar_pop", "covar_samp", "corr"), _pair_formula),
    **dict.fromkeys(("regr_slope", "regr_intercept", "regr_r2"), _pair_formula),
    "histogram": _histogram,
    "bool_and": _booleans,
    "bool_or": _booleans,
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "first": _first_or_last,
    "last": _first_or_last,
    "min_by": _by_other,
    "max_by": _by_other,
    "collect_list": _collect_list,
    "string_agg": _string_agg,
    "count_distinct": _count_distinct,
    "sum_distinct": _sum_distinct,
    "collect_set": _collect_set,
    "mode": _top,
    "top": _top,
    "median": _quantile,
    "quantile": _quantile,
    "approx_distinct": _approx_distinct,
    "approx_quantile": _approx_quantile,
}
