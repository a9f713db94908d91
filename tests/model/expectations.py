"""How expectations of panes are judged, value by value: the model that metrics which merge are compared with.

It shares no code with them. NaN equals itself and is greater than every other number, as in SQL.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from slackwater.pipelines import Expectation


class Judgement(NamedTuple):
    """What is to be said of the values of one column: whether the expectation is met, how many values of how
    many break it, the least of these, and the least and greatest value of all; None for none.
    """

    is_met: bool
    unexpected: int
    checked: int
    sample: list[Any]
    bounds: tuple[Any, Any] | None


def judge(expectation: Expectation, values: Sequence[Any], most_samples: int = 5) -> Judgement:
    """Judge all values of the column in the panes that are not withdrawn."""
    present_values = sorted((value for value in values if value is not None), key=_place)
    if expectation.kind == "not_null":
        unexpected, checked, broken = len(values) - len(present_values), len(values), []
    else:
        broken = [value for value in present_values if not _is_expected(expectation, value)]
        unexpected, checked = len(broken), len(present_values)
    return Judgement(
        unexpected == 0,
        unexpected,
        checked,
        broken[:most_samples],
        (present_values[0], present_values[-1]) if present_values else None,
    )


def _is_expected(expectation: Expectation, value: Any) -> bool:
    if expectation.kind == "in_set":
        return any(_place(value) == _place(allowed) for allowed in expectation.values)
    low, high = expectation.minimum, expectation.maximum
    return (low is None or _place(low) <= _place(value)) and (high is None or _place(value) <= _place(high))


def _place(value: Any) -> tuple[bool, Any]:
    """Where a value stands in the order: NaN behind all others."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, None if is_nan else value
