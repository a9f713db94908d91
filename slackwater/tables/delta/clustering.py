"""Clusters the rows of a table: divides each partition into files by the values of one column of integers,
such as key groups, so that few files hold the rows of few values.

    values           0 1 2 3 4 5 6 7 8 9
    a small day      [.................]      one file
    a large day      [.....|......|....]      some files, each with the rows of its own values: its band

A file's statistics in Delta's log are its band. Files that somebody else has merged are right, and only have
wider bands. Knows no table by name, and neither reads nor writes files.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.columnar.arrays.orders import distinct_values

_VALUES = 1 << 15


class Clustering(NamedTuple):
    """How the rows of a partition are divided into files.

    Attributes:
        column: integers from 0 to 32767, never null; rows of one value are not divided.
        file_rows: about so many rows become a file, and up to twice as many.
    """

    column: str
    file_rows: int = 1 << 18

    @property
    def small_rows(self) -> int:
        """A file of fewer rows is small: it has no band, and may be merged with others."""
        return self.file_rows // 2

    def pieces(self, rows: pa.Table, rows_before: int) -> Iterator[pa.Table]:
        """`rows` in one piece for each file, the first for a file that has `rows_before` rows already.
        Several pieces are in the order of the column.
        """
        total = rows_before + rows.num_rows
        count = total // self.file_rows
        if count < 2:
            yield rows
            return
        values = rows.column(self.column).to_numpy().astype(np.int16)
        if np.any(values[1:] < values[:-1]):
            order = np.argsort(values, kind="stable")
            rows, values = rows.take(pa.array(order)), values[order]
        for start, end in pairwise(_cuts(values, total * np.arange(1, count) // count - rows_before)):
            yield rows.slice(start, end - start)

    def bands_of(self, rows: pa.Table, partition: str, files: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Divide `rows` by the bands of `files` (see `actions_of`), which they replace: (number of the band,
        its rows), -1 for rows in no band. Where bands overlap the narrowest gets the row. `partition` is the
        name of the partition column.
        """
        days, values = rows.column(partition).combine_chunks(), rows.column(self.column).to_numpy()
        numbers = np.full(rows.num_rows, -1)
        for day, bands in self._bands_by_partition(partition, files).items():
            is_of_day = (
                (days.is_null() if day is None else pc.equal(days, day))
                .fill_null(False)
                .to_numpy(zero_copy_only=False)
            )
            numbers[is_of_day] = _numbers_of_values(bands)[values[is_of_day]]
        for number in distinct_values(numbers).tolist():
            is_of_band = numbers == number
            yield number, rows if is_of_band.all() else rows.filter(pa.array(is_of_band))

    def _bands_by_partition(self, partition: str, files: pa.Table) -> dict[Any, list[tuple[int, int]]]:
        low, high = f"min.{self.column}", f"max.{self.column}"
        bands: dict[Any, list[tuple[int, int]]] = {}
        if not {low, high} <= set(files.column_names):
            return bands
        names = [f"partition.{partition}", low, high, "num_records"]
        for day, least, greatest, count in zip(
            *(files.column(name).to_pylist() for name in names), strict=True
        ):
            if count is not None and count >= self.small_rows and least is not None:
                bands.setdefault(day, []).append((least, greatest))
        return bands


def _cuts(values: np.ndarray, ideal_cuts: np.ndarray) -> list[int]:
    """Where `values`, ascending, are cut so that no value is: at the ends, and nearest to `ideal_cuts`."""
    ideal_cuts = ideal_cuts.clip(0, len(values) - 1)
    before, after = (np.searchsorted(values, values[ideal_cuts], side) for side in ("left", "right"))
    cuts = np.where(ideal_cuts - before <= after - ideal_cuts, before, after)
    return [int(cut) for cut in np.unique([0, *cuts, len(values)])]


def _numbers_of_values(bands: list[tuple[int, int]]) -> np.ndarray:
    """For each value the number of the narrowest of `bands` that has it, else -1."""
    numbers = np.full(_VALUES, -1)
    for number in sorted(range(len(bands)), key=lambda number: bands[number][0] - bands[number][1]):
        least, greatest = bands[number]
        numbers[least : greatest + 1] = number
    return numbers
