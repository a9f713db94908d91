"""Keys as dense numbers 0 … n-1: the keys of one batch on the map side, and all keys that a range has
received or parked on the range side.

    key column    b  a  b  c  a        distinct   number  key group  key
    numbers       1  0  1  2  0                   0       4          a
                                                  1       4          b
                                                  2       9          c

Numbers ascend with key groups, so rows sorted by them are sorted for ranges of whole key groups. `keys`
hashes keys and knows their groups and places.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.key_ranges import divide_groups
from slackwater.engine.rows.keys import Keys
from slackwater.engine.transport.packing import unpack
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    ValueCodes,
    code_values,
    group_pairs,
)
from slackwater.windowing.columnar.arrays.texts import are_short, text_numbers

KEY_GROUP = "key_group"
_PREFIX = "__key."
SENT_GROUP = _PREFIX + KEY_GROUP


@dataclass(frozen=True)
class KeyNumbers:
    """The distinct keys of some rows. `numbers` is int64[n], each row's key; `distinct` has at each number
    the key's group and columns.
    """

    numbers: Longs
    distinct: pa.Table

    @classmethod
    def from_batch(cls, rows: pa.Table, keys: Keys) -> "KeyNumbers":
        """Number the keys of source rows, ascending by key group."""
        if not keys.names:
            return cls._from_all(rows, keys)
        key_codes, distinct = _code_keys(rows.select(keys.names))
        groups = np.asarray(keys.groups(distinct), np.int32)
        order = _by_group(groups)
        return cls._numbered_by(key_codes, distinct.add_column(0, KEY_GROUP, pa.array(groups)), order)

    @classmethod
    def from_range(cls, columns: pa.Table, keys: Keys) -> "KeyNumbers":
        """Number the keys of rows with their group beside them, by group, then key, as in a snapshot."""
        if not keys.names:
            return cls._from_all(columns, keys)
        key_codes, distinct = _code_keys(columns.select(keys.names))
        # int16, because there is an entry for every code, also for codes that no key has.
        groups = np.empty(key_codes.size, np.int16)
        groups[key_codes.codes] = columns.column(KEY_GROUP).to_numpy()
        groups = groups[key_codes.present].astype(np.int64)
        order = _ascending(distinct)
        order = order[_by_group(groups[order])]
        return cls._numbered_by(key_codes, distinct.add_column(0, KEY_GROUP, pa.array(groups)), order)

    @classmethod
    def _from_all(cls, rows: pa.Table, keys: Keys) -> "KeyNumbers":
        """The one key of windows of all elements; no key where there are no rows."""
        group = keys.groups_of([0] * min(rows.num_rows, 1)).astype(np.int64)
        return cls(np.zeros(rows.num_rows, np.int64), pa.table({KEY_GROUP: group}))

    @classmethod
    def _numbered_by(cls, key_codes: ValueCodes, distinct: pa.Table, order: Longs) -> "KeyNumbers":
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        return cls(key_codes.numbers_by_code(numbers), distinct.take(pa.array(order)))

    @property
    def groups(self) -> Longs:
        """The key group of each number."""
        return self.distinct.column(KEY_GROUP).to_numpy().astype(np.int64)


def _by_group(groups: npt.NDArray[Any]) -> Longs:
    """The stable order of key groups. They are at most 2^15, and short integers are sorted by radix."""
    return np.argsort(groups.astype(np.int16 if groups.max(initial=0) >= 1 << 8 else np.uint8), kind="stable")


def _code_keys(columns: pa.Table) -> tuple[ValueCodes, pa.Table]:
    """(each row's key as a code, the key columns of each code that some row has), without dictionaries."""
    key_codes, values = _code_column(columns.column(0))
    if columns.num_columns == 1:
        return key_codes, pa.table({columns.column_names[0]: values})
    groups = Groups(key_codes.codes, key_codes.size)
    for column in columns.columns[1:]:
        groups, _, _ = group_pairs(groups.codes, _code_column(column)[0].codes)
    example = np.zeros(groups.size, np.int64)
    example[groups.codes] = np.arange(len(groups.codes))
    rows = columns.take(pa.array(example))
    distinct = pa.table(
        {name: plain(column) for name, column in zip(rows.column_names, rows.columns, strict=True)}
    )
    return ValueCodes(groups.codes, groups.size, np.arange(groups.size)), distinct


def _code_column(column: pa.ChunkedArray) -> tuple[ValueCodes, pa.Array]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        number = pa.int32() if pa.types.is_date32(kind) else kind
        key_codes, values = code_values(column.cast(number).cast(pa.int64()).to_numpy())
        return key_codes, pa.array(values).cast(number).cast(kind)
    if not pa.types.is_dictionary(kind):
        return _code_texts(column) or _code_by_dictionary(column)
    entries = pa.chunked_array([chunk.dictionary for chunk in column.chunks], kind.value_type)
    key_codes, values = _code_texts(entries) or _code_by_dictionary(entries)
    firsts = np.cumsum([0, *(len(chunk.dictionary) for chunk in column.chunks)]).tolist()
    places = [
        chunk.indices.to_numpy() + np.int64(first)
        for chunk, first in zip(column.chunks, firsts, strict=False)
    ]
    codes_of_rows = ValueCodes.of(
        key_codes.codes[np.concatenate([np.zeros(0, np.int64), *places])], key_codes.size
    )
    if len(codes_of_rows.present) < len(key_codes.present):
        values = values.take(pa.array(np.searchsorted(key_codes.present, codes_of_rows.present)))
    return codes_of_rows, values


def _code_texts(texts: pa.ChunkedArray) -> tuple[ValueCodes, pa.Array] | None:
    """As `_code_column`, of texts so short that they are numbered by their bytes; None for longer texts."""
    if not pa.types.is_string(texts.type) or not are_short(texts.chunks):
        return None
    every = texts.combine_chunks()
    if (numbers := text_numbers(every)) is None:
        return None
    key_codes, _ = code_values(numbers)
    examples = np.empty(key_codes.size, np.int64)
    examples[key_codes.codes] = np.arange(len(every))
    return key_codes, every.take(pa.array(examples[key_codes.present]))


def _code_by_dictionary(column: pa.ChunkedArray) -> tuple[ValueCodes, pa.Array]:
    dictionary_column = column.dictionary_encode().unify_dictionaries()
    codes = np.concatenate(
        [np.zeros(0, np.int64), *(chunk.indices.to_numpy() for chunk in dictionary_column.chunks)]
    )
    dictionary = (
        dictionary_column.chunk(0).dictionary if dictionary_column.num_chunks else pa.array([], column.type)
    )
    return ValueCodes(codes, len(dictionary), np.arange(len(dictionary))), dictionary


def _ascending(keys: pa.Table) -> Longs:
    column, numbers = keys.column(0), None
    if keys.num_columns == 1:
        if pa.types.is_integer(column.type):
            numbers = column.to_numpy()
        elif pa.types.is_string(column.type) and are_short(column.chunks):
            numbers = text_numbers(column.combine_chunks())
    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    order: Longs = (
        pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
        .to_numpy()
        .astype(np.int64)
    )
    return order


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def with_keys(rows: pa.Table, keys: Longs, distinct: pa.Table) -> pa.Table:
    """`rows`, sorted by their key numbers `keys`, with the key columns: integers, or else dictionaries."""
    first, beyond = (int(keys[0]), int(keys[-1]) + 1) if len(keys) else (0, 0)
    keys_of_part, places = distinct.slice(first, beyond - first), keys - first
    for name, values in zip(keys_of_part.column_names, keys_of_part.columns, strict=True):
        if pa.types.is_integer(values.type):
            column = pa.array(values.to_numpy().astype(np.int64)[places])
        else:
            column = pa.DictionaryArray.from_arrays(
                pa.array(places.astype(np.int32)), values.combine_chunks()
            )
        rows = rows.append_column(_PREFIX + name, column)
    return rows


def with_own_dictionaries(rows: pa.Table) -> pa.Table:
    """Rows of one chunk cut from more rows, without the dictionary entries that none of them has."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and rows.num_rows:
            rows = rows.set_column(place, field.name, _with_own_dictionary(rows.column(place).chunk(0)))
    return rows


def _with_own_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    codes = column.indices.to_numpy()
    least, beyond = int(codes.min()), int(codes.max()) + 1
    codes, entries = codes - least, column.dictionary.slice(least, beyond - least)
    is_present = np.zeros(len(entries), np.bool_)
    is_present[codes] = True
    if not is_present.all():
        codes = (np.cumsum(is_present, dtype=np.int32) - 1)[codes]
        entries = entries.filter(pa.array(is_present))
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), entries)


def split_keys(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    names = [name for name in rows.column_names if name.startswith(_PREFIX)]
    return rows.select(names).rename_columns(
        [name.removeprefix(_PREFIX) for name in names]
    ), rows.drop_columns(names)


def numbers_between(cuts: Longs, sent_rows: pa.Table, keys: Keys) -> npt.NDArray[Any]:
    """Between which two of `cuts` lies the key of each row that `with_keys` made and `pack` packed, see
    `Keys.numbers_between`. No more columns are unpacked than that takes.
    """
    names = keys.names if divide_groups(cuts) else []
    columns = unpack(sent_rows, (SENT_GROUP, *(_PREFIX + name for name in names)))
    # By their own names: another column may have one of these.
    key_columns, _ = split_keys(columns)
    return keys.numbers_between(cuts, key_columns, key_columns.column(KEY_GROUP).to_numpy())


def keys_of(rows: pa.Table, keys: Keys) -> pa.Table:
    return pa.table({name: _with_dictionary(rows.column(name)) for name in (KEY_GROUP, *keys.names)})


def _with_dictionary(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A key column as `with_keys` has it. Texts, few of which repeat, are their own dictionary."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    values = column.combine_chunks()
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(pa.array(np.arange(len(values), dtype=np.int32)), values)
    return values.dictionary_encode()
