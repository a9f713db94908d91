"""Arrow lists as flat columns, and back: the row number of each item beside the items."""

from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Longs


def flatten_lists(lists: pa.Array) -> tuple[Longs, Any]:
    """(row of each item, the items). Null lists are empty."""
    lengths = lists.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    return np.repeat(np.arange(len(lists)), lengths), lists.flatten()


def build_lists(rows: Longs, items: pa.Array, size: int) -> pa.Array:
    """One list for each of `size` rows, of the items that have its row number; `rows` ascend."""
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=size), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items)
