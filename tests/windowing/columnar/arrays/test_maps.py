"""Maps as columns against dictionaries, row by row."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.arrays import maps
from slackwater.windowing.columnar.arrays.maps import Entries, Fold

ROWS = 6
FOLDS: dict[Fold, Callable[[int, int], int]] = {Fold.SUM: lambda a, b: a + b, Fold.MAX: max}
entries = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-3, 3), st.integers(0, 9)), max_size=20)


def columns(entries: list[tuple[int, int, int]]) -> tuple[np.ndarray, ...]:
    return tuple(np.array([entry[i] for entry in entries], np.int64) for i in range(3))


def as_dictionaries(entries: list[tuple[int, int, int]], fold: Fold) -> list[dict[int, int]]:
    rows: list[dict[int, int]] = [{} for _ in range(ROWS)]
    for row, key, value in entries:
        rows[row][key] = FOLDS[fold](rows[row][key], value) if key in rows[row] else value
    return rows


def read(entries: Entries) -> list[dict[int, int]]:
    """The maps; keys of a row must ascend, and rows too."""
    pairs = list(zip(entries.rows.tolist(), entries.keys.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    rows: list[dict[int, int]] = [{} for _ in range(ROWS)]
    for row, key, value in zip(*(column.tolist() for column in entries), strict=True):
        rows[row][key] = value
    return rows


@pytest.mark.parametrize("fold", Fold)
@given(entries=entries)
def test_entries_of_one_row_and_key_are_folded(fold: Fold, entries: list[tuple[int, int, int]]) -> None:
    assert read(maps.fold_entries(*columns(entries), fold)) == as_dictionaries(entries, fold)


@pytest.mark.parametrize("fold", Fold)
@given(entries=entries, starts=st.sets(st.integers(1, ROWS - 1)))
def test_each_row_holds_what_the_rows_before_it_in_its_run_held(
    fold: Fold, entries: list[tuple[int, int, int]], starts: set[int]
) -> None:
    begins = sorted({0, *starts})
    whole = []
    for row in range(ROWS):
        begin = max(start for start in begins if start <= row)
        whole += [(row, key, value) for other, key, value in entries if begin <= other <= row]
    ours = maps.fold_runs(maps.fold_entries(*columns(entries), fold), np.array(begins, np.int64), ROWS, fold)
    assert read(ours) == as_dictionaries(whole, fold)
