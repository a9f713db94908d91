"""A pipeline's key: one column's plain value, a Flink tuple of several, or the byte 0 of Flink's windowAll;
with its key groups, places and ranges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.rows.key_ranges import KeyRange, divide_groups, range_cuts
from slackwater.engine.rows.python_values import to_user_values
from slackwater.pipelines import Pipeline
from slackwater.windowing.columnar.arrays.key_hashes import PLACE_BITS, key_groups, key_places
from slackwater.windowing.key_groups import murmur_hash
from slackwater.windowing.key_types import BYTE, KeyType, TupleKey, key_type

_BYTE_0: Final = pa.array([0], pa.int8())


@dataclass(frozen=True)
class Keys:
    """The key of a pipeline on a source: names and types of its columns."""

    columns: tuple[tuple[str, pa.DataType], ...]
    max_parallelism: int

    @classmethod
    def of(cls, pipeline: Pipeline, schema: pa.Schema) -> "Keys":
        return cls(tuple((name, schema.field(name).type) for name in pipeline.keys), pipeline.max_parallelism)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def type(self) -> KeyType:
        """In Flink's terms: integers up to 32 bits hash as Integer, bigint as Long, dates as LocalDate."""
        if not self.columns:
            return BYTE
        fields = tuple(_flink_type(kind) for _, kind in self.columns)
        return fields[0] if len(fields) == 1 else TupleKey(fields)

    def values(self, rows: pa.Table) -> list[Any]:
        """The key of each row; equal keys are one object."""
        if not self.columns:
            return [0] * rows.num_rows
        columns = [to_user_values(rows.column(name)) for name in self.names]
        if len(columns) == 1:
            return list(columns[0])
        tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        return [tuples.setdefault(key, key) for key in zip(*columns, strict=True)]

    def groups(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        if not self.columns:
            return self._the_group_of_all(rows.num_rows)
        return key_groups([rows.column(name) for name in self.names], self.max_parallelism)

    def groups_of(self, keys: Sequence[Any]) -> npt.NDArray[np.int32]:
        if not self.columns:
            return self._the_group_of_all(len(keys))
        return key_groups([column for _, column in self.arrays(keys)], self.max_parallelism)

    def _the_group_of_all(self, rows: int) -> npt.NDArray[np.int32]:
        return np.repeat(key_groups([_BYTE_0], self.max_parallelism), rows)

    def places(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The place of the key of each row, see `key_hashes`. Integer keys may be of a wider type."""
        if not self.columns:
            return np.repeat(key_places([_BYTE_0], self.max_parallelism), rows.num_rows)
        columns = (
            rows.column(name).cast(kind) if pa.types.is_integer(kind) else rows.column(name)
            for name, kind in self.columns
        )
        return key_places(list(columns), self.max_parallelism)

    def holder(self, key_range: KeyRange) -> Callable[[Any], bool]:
        hash_code, groups = self.type.hash_code, self.max_parallelism

        def holds(key: Any) -> bool:
            key_hash = murmur_hash(hash_code(key))
            return key_range.first <= (key_hash % groups << PLACE_BITS | key_hash) < key_range.beyond

        return holds

    def range_numbers(
        self, rows: pa.Table, groups: npt.NDArray[np.integer[Any]], ranges: int
    ) -> npt.NDArray[Any]:
        """Which of `ranges` ranges each row's key belongs to; `groups` are the key groups of the rows."""
        return self.numbers_between(range_cuts(ranges, self.max_parallelism), rows, groups)

    def numbers_between(
        self, cuts: npt.NDArray[np.int64], rows: pa.Table, groups: npt.NDArray[np.integer[Any]]
    ) -> npt.NDArray[Any]:
        """Between which two of `cuts` each key lies, from 0. Key groups suffice where no cut divides one."""
        if divide_groups(cuts):
            return np.searchsorted(cuts, self.places(rows), side="right") - 1
        ranges_of_groups = (
            np.searchsorted(cuts >> PLACE_BITS, np.arange(self.max_parallelism), side="right") - 1
        )
        return ranges_of_groups.astype(np.int16)[groups]

    def range(self, number: int, ranges: int) -> KeyRange:
        first, beyond = range_cuts(ranges, self.max_parallelism)[number : number + 2].tolist()
        return KeyRange(first, beyond)

    def rows_in(self, key_range: KeyRange, rows: pa.Table) -> pa.Table:
        groups, owned_groups = rows.column("key_group").to_numpy(), key_range.key_groups
        rows = rows.filter(pa.array((groups >= owned_groups.first) & (groups <= owned_groups.last)))
        if not key_range.divides_groups:
            return rows
        places = self.places(rows)
        return rows.filter(pa.array((places >= key_range.first) & (places < key_range.beyond)))

    def arrays(self, keys: Sequence[Any]) -> list[tuple[str, pa.Array]]:
        """Keys as columns, in their declared types."""
        if not self.columns:
            return []
        columns = (
            [keys] if len(self.columns) == 1 else list(zip(*keys, strict=True)) or [()] * len(self.columns)
        )
        return [
            (name, pa.array(values, kind)) for (name, kind), values in zip(self.columns, columns, strict=True)
        ]


def _flink_type(kind: pa.DataType) -> KeyType:
    if pa.types.is_string(kind):
        return key_type("string")
    if pa.types.is_boolean(kind):
        return key_type("bool")
    if pa.types.is_date(kind):
        return key_type("date")
    return key_type("long" if kind.bit_width == 64 else "int")
