"""Cuts the rows of files into ranges of key groups that fit memory. All rows of a key, and so of a window,
lie in one range.

The cuts follow from the statistics of Delta's log: each file spreads its rows evenly over the key groups from
its least to its greatest, and the sum over the files is cut into pieces of equal size.

    file 1   4 rows, groups 0-3     |####....|
    file 2   8 rows, groups 2-5     |..####..|
    rows of each group               11332200      of about 6 rows: groups up to 3, and from 4 on
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEY_GROUP = "key_group"
_LAST = (1 << 15) - 1  # Flink's greatest max_parallelism, less 1


class Portion(NamedTuple):
    """Key groups from `least` to `greatest`, both included; None for no bound."""

    least: int | None = None
    greatest: int | None = None

    @property
    def where(self) -> pc.Expression:
        """The condition that a row lies in the portion."""
        is_inside = pc.scalar(True)
        if self.least is not None:
            is_inside = is_inside & (pc.field(KEY_GROUP) >= self.least)
        return is_inside if self.greatest is None else is_inside & (pc.field(KEY_GROUP) <= self.greatest)


def portions(files: Sequence[pa.Table], most: int) -> list[Portion]:
    """Ranges of key groups that together cover all, each with about `most` rows.

    Args:
        files: the files of each table, as `actions_of` gives them.
        most: how many rows may be held at once.
    """
    rows = np.zeros(_LAST + 2)
    for actions in files:
        if actions.num_rows:
            counts = actions.column("num_records").fill_null(0).to_numpy()
            least, greatest = _bounds(actions, "min", 0), _bounds(actions, "max", _LAST)
            density = counts / (greatest - least + 1)
            np.add.at(rows, least, density)
            np.add.at(rows, greatest + 1, -density)
    until = np.cumsum(np.cumsum(rows[:-1]))
    total = until[-1]
    pieces = max(1, int(np.ceil(total / most - 1e-9)))
    piece_of_group = np.concatenate([[0.0], until[:-1]]) * pieces / max(total, 1.0)
    cuts = np.flatnonzero(np.diff(np.floor(piece_of_group + 1e-9).clip(0, pieces - 1))) + 1
    starts, ends = [None, *cuts.tolist()], [*(cuts - 1).tolist(), None]
    return [Portion(start, end) for start, end in zip(starts, ends, strict=True)]


def _bounds(actions: pa.Table, side: str, otherwise: int) -> np.ndarray:
    name = f"{side}.{KEY_GROUP}"
    if name not in actions.column_names:
        return np.full(actions.num_rows, otherwise)
    return np.asarray(actions.column(name).fill_null(otherwise).to_numpy(), np.int64)
