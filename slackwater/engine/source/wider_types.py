"""The type that holds the values of two types, for columns that files or sources have in common."""

import pyarrow as pa

_UNITS = ("s", "ms", "us", "ns")
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}  # of integers, by their bits
_MOST_DIGITS = 38


def wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both; None where none does without loss."""
    if one == other:
        return one
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        unit = max(one.unit, other.unit, key=_UNITS.index)
        return pa.timestamp(unit, tz=one.tz or other.tz)
    both = (one, other)
    for kind, wider in (both, both[::-1]):
        if pa.types.is_null(kind):
            return wider
        if pa.types.is_date32(kind) and pa.types.is_timestamp(wider):
            return wider
        if pa.types.is_integer(kind) and pa.types.is_floating(wider):
            return pa.float64()  # of a whole number that it can't hold the cast says so
    if all(map(pa.types.is_signed_integer, both)) or all(map(pa.types.is_floating, both)):
        return max(both, key=lambda kind: kind.bit_width)
    if all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in both):
        return pa.string()
    if all(pa.types.is_decimal128(kind) or pa.types.is_signed_integer(kind) for kind in both):
        return _wider_decimal(*map(_as_decimal, both))
    return _wider_nested(one, other)


def _as_decimal(kind: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_decimal128(kind) else pa.decimal128(_DIGITS[kind.bit_width], 0)


def _wider_decimal(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None


def _wider_nested(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    both = (one, other)
    if all(map(pa.types.is_struct, both)):
        fields = {field.name: field for field in one}
        for field in other:
            common = wider_type(fields.get(field.name, field).type, field.type)
            if common is None:
                return None
            fields[field.name] = pa.field(field.name, common)
        return pa.struct(list(fields.values()))
    if all(map(pa.types.is_list, both)):
        item = wider_type(one.value_type, other.value_type)
        return None if item is None else pa.list_(pa.field("element", item))
    if all(map(pa.types.is_map, both)):
        key, item = wider_type(one.key_type, other.key_type), wider_type(one.item_type, other.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    return None
