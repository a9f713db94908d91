"""The tables that a map task sends to the ranges. They wait for each other, packed or as they are, so that
many batches and many ranges do not make many more tables, of few rows each:

    batch 1   cells  late   --.
    batch 2   cells         --+-- wait -- cells of all batches -- range 0, range 1, … range n
    batch 3   cells  late   --'           late rows of all     -- range 0, range 1, … range n

A table that is large enough to be divided among all ranges alone waits for nobody.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.replaying.results import mark_table, name_of
from slackwater.engine.transport.packing import concat_packed, is_packed

# To send and to receive a table takes as long as to bring so many bytes of small ones together.
_BYTES_WORTH_A_TABLE = 256 << 10
MOST_WAITING_BYTES = 64 << 20
_SHARE_OF_MEMORY = 16

Route = Callable[[pa.Table], Iterator[tuple[int, pa.Table]]]


class SentTables:
    """What one map task sends to `ranges` ranges.

    Args:
        memory_mb: what the task may take; a small part of it may wait.
        route: divides a table, marked with its name, among the ranges: (range number, rows).
    """

    def __init__(self, ranges: int, memory_mb: int, route: Route) -> None:
        self._route = route
        self._large_bytes = ranges * _BYTES_WORTH_A_TABLE
        self._most_bytes = min(MOST_WAITING_BYTES, (memory_mb << 20) // _SHARE_OF_MEMORY)
        self._waiting_tables: dict[str, list[pa.Table]] = {}
        self._waiting_bytes = 0

    def send(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """What goes out after one more table: its rows, the rows of all tables that wait, or nothing."""
        size = table.nbytes
        if size >= self._large_bytes:
            yield from self._route(table)
            return
        self._waiting_tables.setdefault(name_of(table), []).append(table)
        self._waiting_bytes += size
        if self._waiting_bytes >= self._most_bytes:
            yield from self.send_the_rest()

    def send_the_rest(self) -> Iterator[tuple[int, pa.Table]]:
        waiting_tables, self._waiting_tables, self._waiting_bytes = self._waiting_tables, {}, 0
        for name, tables in waiting_tables.items():
            yield from self._route(_as_one(name, tables))


def _as_one(name: str, tables: list[pa.Table]) -> pa.Table:
    """Tables of the same columns as one, in one chunk; they are let go."""
    if len(tables) == 1:
        return tables.pop()
    if is_packed(tables[0]):
        rows = concat_packed(tables)
    else:
        rows = mark_table(name, pa.concat_tables([table.replace_schema_metadata(None) for table in tables]))
    tables.clear()
    return rows.unify_dictionaries().combine_chunks()


def divide(rows: pa.Table, numbers: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, pa.Table]]:
    """(range number, its rows, in their order), of rows with these range numbers."""
    if bool(np.any(numbers[1:] < numbers[:-1])):
        # Short integers are sorted by radix.
        order = np.argsort(numbers.astype(np.min_scalar_type(numbers.max())), kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for start, end in itertools.pairwise([*starts, len(numbers)]):
        yield int(numbers[start]), rows.slice(start, end - start)
