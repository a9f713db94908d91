"""The type that holds the values of two types, for columns that files or sources have in common."""

import pyarrow as pa

_UNITS = ("s", "ms", "us", "ns")


def wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both; None where none does without loss."""
    if one == other:
        return one
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        unit = max(one.unit, other.unit, key=_UNITS.index)
        return pa.timestamp(unit, tz=one.tz or other.tz)
    both = (one, other)
    if all(map(pa.types.is_signed_integer, both)) or all(map(pa.types.is_floating, both)):
        return max(both, key=lambda kind: kind.bit_width)
    if all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in both):
        return pa.string()
    return None
