"""The canonical bytes of a row, by its values alone; `encode_rows` is `encode_value`, column by column."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.times import EPOCH

_NAN = struct.pack(">d", math.nan)
_LONG = struct.Struct(">q")

Bytes = npt.NDArray[np.uint8]


def encode_value(value: Any) -> bytes:
    """One value: a tag of one byte, then

    - null `n`, true `t`, false `f`: nothing;
    - integers `i`: 8 bytes, big-endian two's complement; wider ones `I`: length (4 bytes, big-endian), fewest
    bytes;
    - floats `d`: 8 bytes, big-endian; -0.0 is 0.0, and there is one NaN;
    - text `s` (UTF-8), bytes `b`, decimals `m` (plain digits without trailing zeros): length (4 bytes), the
    bytes;
    - times and dates: the integers that Arrow stores, microseconds and days;
    - lists `[`…`]`, structs `{`…`}`: their values one after the other.

    Raises TypeError for a value of another type.
    """
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return (
            b"i" + _LONG.pack(value)
            if -(2**63) <= value < 2**63
            else _with_length(b"I", _shortest_bytes(value))
        )
    if isinstance(value, float):
        return b"d" + (_NAN if math.isnan(value) else struct.pack(">d", value + 0.0))
    if isinstance(value, str):
        return _with_length(b"s", value.encode())
    if isinstance(value, bytes):
        return _with_length(b"b", value)
    if isinstance(value, Decimal):
        return _with_length(b"m", _digits(value).encode())
    if isinstance(value, datetime):
        return encode_value(
            ((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // EPOCH.resolution
        )
    if isinstance(value, date):
        return encode_value((value - EPOCH.date()).days)
    if isinstance(value, time):
        return encode_value(
            ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        )
    if isinstance(value, dict):
        return b"{" + b"".join(map(encode_value, value.values())) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b"".join(map(encode_value, value)) + b"]"
    raise TypeError(f"no canonical encoding for {type(value).__name__}")


def encode_rows(columns: Sequence[pa.Array], prefix: bytes) -> pa.Array:
    """The rows over equally long `columns` as one binary array: `prefix`, then the encoded values."""
    pieces: list[pa.Array] = []
    adjacent: list[Bytes] = []
    for column in columns:
        for piece in _encode_column(column):
            if isinstance(piece, np.ndarray):
                adjacent.append(piece)
                continue
            pieces += _binary_of(adjacent)
            adjacent.clear()
            pieces.append(piece)
    pieces += _binary_of(adjacent)
    return pc.binary_join_element_wise(pa.scalar(prefix, pa.binary()), *pieces, pa.scalar(b"", pa.binary()))


def _encode_column(column: pa.Array) -> list[Bytes | pa.Array]:
    """A column as byte strings to concatenate: rows × width for equally long ones, else binary arrays."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _encode_column(column.dictionary_decode())
    if column.null_count == len(column):
        return [np.full((len(column), 1), ord("n"), np.uint8)]
    if pa.types.is_boolean(kind):
        letters = pc.if_else(column, ord("t"), ord("f")).fill_null(ord("n"))
        return [np.asarray(letters).astype(np.uint8).reshape(-1, 1)]
    if (integers := as_integers(column)) is not None:
        return [_tagged_words("i", np.asarray(integers.fill_null(0)).astype(">i8"), integers)]
    if pa.types.is_floating(kind):
        numbers = np.asarray(pc.cast(column, pa.float64()).fill_null(0.0)) + 0.0
        return [_tagged_words("d", np.where(np.isnan(numbers), np.nan, numbers).astype(">f8"), column)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _encode_sized("s", pc.cast(pc.cast(column, pa.string()), pa.binary()))
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        return _encode_sized("b", pc.cast(column, pa.binary()))
    if pa.types.is_decimal(kind) and (digits := _decimal_digits(column)) is not None:
        return _encode_sized("m", digits)
    return [pa.array([encode_value(value) for value in _python_values(column)], pa.binary())]


def as_integers(column: pa.Array) -> pa.Array | None:
    """Integers, times and dates as int64; None for other columns, and for integers beyond 64 bits."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_uint64(kind) and pc.max(column).as_py() >= 2**63:
        return None
    return column.cast(pa.int64()) if pa.types.is_integer(kind) else None


def _tagged_words(tag: str, words: npt.NDArray[Any], column: pa.Array) -> Any:
    """Tag and 8 bytes per value; where `column` is null only the null's tag."""
    tagged_words = np.empty((len(words), 9), np.uint8)
    tagged_words[:, 0] = ord(tag)
    tagged_words[:, 1:] = words.view(np.uint8).reshape(-1, 8)
    return tagged_words if column.null_count == 0 else _with_null_tags(tagged_words, column)


def _encode_sized(tag: str, column: pa.Array) -> list[Bytes | pa.Array]:
    lengths = np.asarray(pc.binary_length(column).fill_null(0)).astype(">u4")
    heads = np.empty((len(column), 5), np.uint8)
    heads[:, 0] = ord(tag)
    heads[:, 1:] = lengths.view(np.uint8).reshape(-1, 4)
    if column.null_count == 0:
        return [heads, column]
    return [_with_null_tags(heads, column), column.fill_null(b"")]


def _with_null_tags(byte_rows: Bytes, column: pa.Array) -> pa.Array:
    """`byte_rows` as byte strings, where `column` is null only the null's tag."""
    return pc.if_else(column.is_valid(), _binary_of([byte_rows])[0], pa.scalar(b"n", pa.binary()))


def _binary_of(blocks: list[Bytes]) -> list[pa.Array]:
    """Equally long, adjacent byte strings as one binary array; none for none."""
    if not blocks:
        return []
    block = np.ascontiguousarray(blocks[0]) if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    rows, width = block.shape
    return [_binary_from(block, np.arange(0, rows * width + 1, width))]


def _binary_from(data: Bytes, offsets: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    )


def _decimal_digits(column: pa.Array) -> pa.Array | None:
    """Plain digits without trailing zeros; None when Arrow would write some with an exponent."""
    text = pc.cast(column, pa.string())
    if column.type.scale > 0:
        if pc.any(pc.match_substring(text, "E")).as_py():
            return None
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, characters="0"), characters=".")
    elif column.type.scale < 0:
        return None
    return pc.cast(pc.if_else(pc.equal(text, "-0"), "0", text), pa.binary())


def _python_values(column: pa.Array) -> list[Any]:
    """Values of a column of another type; times inside it unconverted."""
    return list(column.to_pylist())


def _digits(value: Decimal) -> str:
    text = format(abs(value) if value.is_zero() else value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shortest_bytes(value: int) -> bytes:
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _with_length(tag: bytes, data: bytes) -> bytes:
    return tag + len(data).to_bytes(4, "big") + data
