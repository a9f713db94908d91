"""A pipeline's key: its columns, its Flink type, and the key groups and ranges of its values.

The key of one column is a plain value, that of several columns is a Flink tuple. Windows of all
elements have no key column: their one key is the byte 0, as in Flink's windowAll.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.jobs.pipelines import Pipeline
from slackwater.windowing.columnar.arrays.key_hashes import key_groups
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import BYTE, KeyType, TupleKey, key_type


@dataclass(frozen=True)
class Keys:
    """The key of a pipeline on a source.

    Attributes:
        columns: names and types of the key columns.
        max_parallelism: number of key groups.
    """

    columns: tuple[tuple[str, pa.DataType], ...]
    max_parallelism: int

    @classmethod
    def of(cls, pipeline: Pipeline, schema: pa.Schema) -> "Keys":
        """The key of `pipeline` over a source of that schema; its types were checked before."""
        return cls(tuple((name, schema.field(name).type) for name in pipeline.keys), pipeline.max_parallelism)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def type(self) -> KeyType:
        """The key's type in Flink's terms: integers up to 32 bits hash as Integer, bigint as Long, dates as
        LocalDate.
        """
        if not self.columns:
            return BYTE
        fields = tuple(_flink_type(kind) for _, kind in self.columns)
        return fields[0] if len(fields) == 1 else TupleKey(fields)

    def values(self, rows: pa.Table) -> list[Any]:
        """The key of each row; equal keys are one object."""
        if not self.columns:
            return [0] * rows.num_rows
        columns = [rows.column(name).to_pylist() for name in self.names]
        if len(columns) == 1:
            return list(columns[0])
        tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        return [tuples.setdefault(key, key) for key in zip(*columns, strict=True)]

    def groups(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """The key group of each row."""
        if not self.columns:
            return self._the_group_of_all(rows.num_rows)
        return key_groups([rows.column(name) for name in self.names], self.max_parallelism)

    def groups_of(self, keys: Sequence[Any]) -> npt.NDArray[np.int32]:
        """The key group of each key."""
        if not self.columns:
            return self._the_group_of_all(len(keys))
        return key_groups([column for _, column in self.arrays(keys)], self.max_parallelism)

    def _the_group_of_all(self, rows: int) -> npt.NDArray[np.int32]:
        """The key group of the byte 0, once for each of `rows` rows."""
        return np.repeat(key_groups([pa.array([0], pa.int8())], self.max_parallelism), rows)

    def ranges_of(self, groups: npt.NDArray[np.int32], ranges: int) -> npt.NDArray[np.int32]:
        """Which of `ranges` contiguous ranges each key group belongs to; see `range`."""
        return groups * np.int32(ranges) // np.int32(self.max_parallelism)

    def range(self, number: int, ranges: int) -> KeyGroupRange:
        """The key groups of a range."""
        return KeyGroupRange.of_operator(number, ranges, self.max_parallelism)

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
