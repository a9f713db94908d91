"""Keys as dense numbers: of one batch on the map side, of all that a range has received on the other.

Hashing and key groups are the business of `jobs.engines.keys`.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.engines.columnar.families import Part
from jobs.engines.keys import Keys
from windowing.columnar.columns import Longs
from windowing.columnar.groups import group_pairs, group_values
from windowing.key_groups import KeyGroupRange

KEY_GROUP = "key_group"
_PREFIX = "__key."


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
        numbers, example = _number(rows.select(keys.names))
        distinct = rows.select(keys.names).take(pa.array(example))
        groups = np.asarray(keys.groups(distinct), np.int32)
        order = np.argsort(groups.astype(np.int16), kind="stable")  # there are at most 2^15 groups, and short integers sort by radix
        return cls(numbers, distinct.add_column(0, KEY_GROUP, pa.array(groups)))._renumbered(order)

    @classmethod
    def of_range(cls, columns: pa.Table, keys: Keys) -> "KeyNumbers":
        """Number the keys of rows that have their group beside them, in the order of a snapshot: by group, then by key columns."""
        numbers, example = _number(columns.select(keys.names))
        distinct = columns.take(pa.array(example))
        distinct = pa.table({name: plain(distinct.column(name)) for name in distinct.column_names})
        order = pc.sort_indices(distinct, sort_keys=[(name, "ascending") for name in (KEY_GROUP, *keys.names)])
        return cls(numbers, distinct)._renumbered(order.to_numpy().astype(np.int64))

    def _renumbered(self, order: Longs) -> "KeyNumbers":
        """The same keys; number i is what order[i] was."""
        renumbered = np.empty(len(order), np.int64)
        renumbered[order] = np.arange(len(order))
        return KeyNumbers(renumbered[self.numbers], self.distinct.take(pa.array(order)))

    @property
    def groups(self) -> Longs:
        """The key group of each number."""
        return self.distinct.column(KEY_GROUP).to_numpy().astype(np.int64)


def _number(columns: pa.Table) -> tuple[Longs, Longs]:
    """(each row's key, a row of each key)."""
    integers = [_integers(column) for column in columns.columns]
    groups, _ = group_values(integers[0])
    for column in integers[1:]:
        groups, _, _ = group_pairs(groups.codes, group_values(column)[0].codes)
    example = np.zeros(groups.size, np.int64)
    example[groups.codes] = np.arange(len(groups.codes))
    return groups.codes, example


def _integers(column: pa.ChunkedArray) -> Longs:
    """Equal integers for equal values."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif not pa.types.is_integer(kind):
        column = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
        column = column.unify_dictionaries()
        return np.concatenate([np.zeros(0, np.int64), *(chunk.indices.to_numpy() for chunk in column.chunks)])
    return column.cast(pa.int64()).to_numpy()


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def with_keys(part: Part, distinct: pa.Table) -> pa.Table:
    """The rows of `part`, sorted by key, with their keys beside them: integers as they are, others as dictionaries."""
    rows, keys = part.rows, part.keys
    first, beyond = (int(keys[0]), int(keys[-1]) + 1) if len(keys) else (0, 0)
    own, places = distinct.slice(first, beyond - first), pa.array((keys - first).astype(np.int32))
    for name in own.column_names:
        values = own.column(name).combine_chunks()
        if pa.types.is_integer(values.type):
            column = values.take(places).cast(pa.int64())
        else:
            column = pa.DictionaryArray.from_arrays(places, values)
        rows = rows.append_column(_PREFIX + name, column)
    return rows


def split_keys(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The inverse of `with_keys`: (keys, rows)."""
    names = [name for name in rows.column_names if name.startswith(_PREFIX)]
    return rows.select(names).rename_columns([name.removeprefix(_PREFIX) for name in names]), rows.drop_columns(names)


def rows_of_groups(rows: pa.Table, key_groups: KeyGroupRange) -> pa.Table:
    """Of rows that `with_keys` made, those of some key groups."""
    groups = rows.column(_PREFIX + KEY_GROUP).to_numpy()
    start, end = np.searchsorted(groups, [key_groups.first, key_groups.last + 1]).tolist()
    return rows.slice(start, end - start)


def keys_of(rows: pa.Table, keys: Keys) -> pa.Table:
    """The key columns of snapshot rows, in the form in which `with_keys` has them."""
    columns = {name: rows.column(name) for name in (KEY_GROUP, *keys.names)}
    for name, column in columns.items():
        columns[name] = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column.combine_chunks().dictionary_encode()
    return pa.table(columns)
