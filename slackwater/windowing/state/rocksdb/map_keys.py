"""Map keys that a Python dictionary takes for one are one: 1, 1.0 and True share one plain value's bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any


def identity(value: Any) -> Any:
    """A plain value shared by all equal dictionary keys, such as 1, 1.0, True and Decimal(1). Raises
    TypeError for what cannot be a dictionary key.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bytes or value is None:
        return value
    hash(value)
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if isinstance(value, (bool, float, Decimal)):
        return _canonical_number(value)
    if kind is datetime and value.tzinfo is not None and value.utcoffset() is not None:
        return value.astimezone(UTC)
    return value


def _canonical_number(value: bool | float | Decimal) -> Any:
    if value != value or value in (float("inf"), float("-inf")):
        return float(value)
    if value == int(value):
        return int(value)
    return float(value) if value == float(value) else value
