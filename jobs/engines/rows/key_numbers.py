"""Keys as dense numbers: of one batch on the map side, of all that a range has received on the other.

Hashing and key groups are the business of `slackwater.jobs.engines.rows.keys`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.rows.keys import Keys
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    ValueCodes,
    code_values,
    group_pairs,
    run_numbers,
    run_starts,
)
from slackwater.windowing.columnar.arrays.orders import sort_with_places
from slackwater.windowing.columnar.arrays.texts import are_short, text_numbers
from slackwater.windowing.key_groups import KeyGroupRange

KEY_GROUP = "key_group"
_PREFIX = "__key."
SENT_GROUP = _PREFIX + KEY_GROUP
_SPARSE = 4  # values that there might be, for each row


@dataclass(frozen=True)
class KeyNumbers:
    """The distinct keys of some rows.

    Attributes:
        numbers: int64[n], each row's key.
        distinct: at each number, the key's group and columns.
    """

    numbers: Longs
    distinct: pa.Table

    @classmethod
    def of_batch(cls, rows: pa.Table, keys: Keys) -> "KeyNumbers":
        """Number the keys of source rows, ascending by key group."""
        coded, distinct = _coded(rows.select(keys.names))
        groups = np.asarray(keys.groups(distinct), np.int32)
        return cls._ordered(coded, distinct.add_column(0, KEY_GROUP, pa.array(groups)), _by_group(groups))

    @classmethod
    def of_range(cls, columns: pa.Table, keys: Keys) -> "KeyNumbers":
        """Number the keys of rows that have their group beside them, in the order of a snapshot: by group,
        then by key columns.
        """
        if (sorted_out := _sorted_out(columns, keys)) is not None:
            return sorted_out
        coded, distinct = _coded(columns.select(keys.names))
        groups = np.empty(
            coded.size, np.int16
        )  # as small as it can be: there is an entry for every key that there might be
        groups[coded.codes] = columns.column(KEY_GROUP).to_numpy()
        groups = groups[coded.present].astype(np.int64)
        order = _ascending(distinct)
        order = order[_by_group(groups[order])]
        return cls._ordered(coded, distinct.add_column(0, KEY_GROUP, pa.array(groups)), order)

    @classmethod
    def _ordered(cls, coded: ValueCodes, distinct: pa.Table, order: Longs) -> "KeyNumbers":
        """The key that stands at order[i] among those that are there has the number i."""
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        return cls(coded.numbers_by_code(numbers), distinct.take(pa.array(order)))

    @property
    def groups(self) -> Longs:
        """The key group of each number."""
        return self.distinct.column(KEY_GROUP).to_numpy().astype(np.int64)


def _sorted_out(columns: pa.Table, keys: Keys) -> KeyNumbers | None:
    """As `of_range`, of integers that lie far apart: where most of a table by value would be empty, it takes
    less time to sort rows. None where that does not hold."""
    groups, values = columns.column(KEY_GROUP).to_numpy(), columns.column(keys.names[0])
    if len(keys.names) > 1 or not pa.types.is_signed_integer(values.type) or not len(values):
        return None
    numbers = values.to_numpy().astype(np.int64)
    least = int(numbers.min())
    width = int(numbers.max()) - least + 1
    if not _SPARSE * len(numbers) < width < 1 << 47:  # a group has 15 bits
        return None
    packed = groups * np.int64(width)
    packed += numbers
    packed -= least
    order, ascending = sort_with_places(packed)
    starts = run_starts(ascending)
    numbers[order] = run_numbers(starts, len(order))
    distinct = columns.select([KEY_GROUP, *keys.names]).take(pa.array(order[starts]))
    return KeyNumbers(numbers, distinct)


def _by_group(groups: npt.NDArray[Any]) -> Longs:
    """Stable. There are at most 2^15 groups, and short integers sort by radix."""
    return np.argsort(groups.astype(np.int16 if groups.max(initial=0) >= 1 << 8 else np.uint8), kind="stable")


def _coded(columns: pa.Table) -> tuple[ValueCodes, pa.Table]:
    """(each row's key as a code, the key columns at each code that is there), without dictionaries."""
    coded, values = _coded_column(columns.column(0))
    if columns.num_columns == 1:
        return coded, pa.table({columns.column_names[0]: values})
    groups = Groups(coded.codes, coded.size)
    for column in columns.columns[1:]:
        groups, _, _ = group_pairs(groups.codes, _coded_column(column)[0].codes)
    example = np.zeros(groups.size, np.int64)
    example[groups.codes] = np.arange(len(groups.codes))
    rows = columns.take(pa.array(example))
    distinct = pa.table(
        {name: plain(column) for name, column in zip(rows.column_names, rows.columns, strict=True)}
    )
    return ValueCodes(groups.codes, groups.size, np.arange(groups.size)), distinct


def _coded_column(column: pa.ChunkedArray) -> tuple[ValueCodes, pa.Array]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        number = pa.int32() if pa.types.is_date32(kind) else kind
        coded, values = code_values(column.cast(number).cast(pa.int64()).to_numpy())
        return coded, pa.array(values).cast(number).cast(kind)
    if not pa.types.is_dictionary(kind):
        return _coded_texts(column) or _hashed(column)
    entries = pa.chunked_array([chunk.dictionary for chunk in column.chunks], kind.value_type)
    coded, values = _coded_texts(entries) or _hashed(entries)
    firsts = np.cumsum([0, *(len(chunk.dictionary) for chunk in column.chunks)]).tolist()
    places = [
        chunk.indices.to_numpy() + np.int64(first)
        for chunk, first in zip(column.chunks, firsts, strict=False)
    ]
    used = ValueCodes.of(coded.codes[np.concatenate([np.zeros(0, np.int64), *places])], coded.size)
    if len(used.present) < len(coded.present):
        values = values.take(pa.array(np.searchsorted(coded.present, used.present)))
    return used, values


def _coded_texts(texts: pa.ChunkedArray) -> tuple[ValueCodes, pa.Array] | None:
    """Of texts so short that numbers may stand for them; else None."""
    if not pa.types.is_string(texts.type) or not are_short(texts.chunks):
        return None
    every = texts.combine_chunks()
    if (numbers := text_numbers(every)) is None:
        return None
    coded, _ = code_values(numbers)
    examples = np.empty(coded.size, np.int64)
    examples[coded.codes] = np.arange(len(every))
    return coded, every.take(pa.array(examples[coded.present]))


def _hashed(column: pa.ChunkedArray) -> tuple[ValueCodes, pa.Array]:
    encoded = column.dictionary_encode().unify_dictionaries()
    codes = np.concatenate([np.zeros(0, np.int64), *(chunk.indices.to_numpy() for chunk in encoded.chunks)])
    dictionary = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], column.type)
    return ValueCodes(codes, len(dictionary), np.arange(len(dictionary))), dictionary


def _ascending(keys: pa.Table) -> Longs:
    """The places of distinct keys in their order."""
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
    """A column without a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def with_keys(rows: pa.Table, keys: Longs, distinct: pa.Table) -> pa.Table:
    """`rows`, sorted by their numbers `keys`, with the keys beside them: integers as they are, others as
    dictionaries.
    """
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


def split_keys(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The inverse of `with_keys`: (keys, rows)."""
    names = [name for name in rows.column_names if name.startswith(_PREFIX)]
    return rows.select(names).rename_columns(
        [name.removeprefix(_PREFIX) for name in names]
    ), rows.drop_columns(names)


def bounds_of_groups(rows: pa.Table, key_groups: KeyGroupRange) -> slice:
    """Of rows that `with_keys` made, of which at least the column `SENT_GROUP` is there, where those of some
    key groups stand.
    """
    start, end = np.searchsorted(
        rows.column(SENT_GROUP).to_numpy(), [key_groups.first, key_groups.last + 1]
    ).tolist()
    return slice(start, end)


def keys_of(rows: pa.Table, keys: Keys) -> pa.Table:
    """The key columns of snapshot rows, in the form in which `with_keys` has them."""
    return pa.table({name: _with_dictionary(rows.column(name)) for name in (KEY_GROUP, *keys.names)})


def _with_dictionary(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Of texts, of which few repeat, the texts themselves are the dictionary."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    values = column.combine_chunks()
    if pa.types.is_string(values.type):
        return pa.DictionaryArray.from_arrays(pa.array(np.arange(len(values), dtype=np.int32)), values)
    return values.dictionary_encode()
