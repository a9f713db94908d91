"""Cuts the rows of files into ranges of key groups that fit memory, and a key group that does not into ranges
of the hashes of its keys. All rows of a key, and so of a window, lie in one range.

The cuts follow from the statistics of Delta's log: each file spreads its rows evenly over the key groups from
its least to its greatest, and the sum over the files is cut into pieces of equal size.

    file 1   4 rows, groups 0-3     |####....|
    file 2   8 rows, groups 2-5     |..####..|
    rows of each group               11332200      of about 6 rows: groups up to 3, and from 4 on

A range of hashes is read from all files of its key group, but for those whose names say that they hold other
hashes.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.schemas import Columns
from slackwater.windowing.columnar.arrays.key_hashes import PLACE_BITS, key_places

KEY_GROUP = "key_group"
_LAST = (1 << 15) - 1  # Flink's greatest max_parallelism, less 1


class Hashes(NamedTuple):
    """The keys of the columns `keys` whose scrambled hash is from `first` to before `beyond`."""

    keys: Columns
    first: int
    beyond: int

    @property
    def where(self) -> pc.Expression:
        columns = [pc.field(name) for name, _ in self.keys]
        # Arrow has no public way to call a function that was registered, but this is the one it documents.
        key_hash = pc.Expression._call(_hash_function(tuple(kind for _, kind in self.keys)), columns)
        return (key_hash >= self.first) & (key_hash < self.beyond)


@cache
def _hash_function(kinds: tuple[pa.DataType, ...]) -> str:
    """The name under which Arrow knows the function that hashes keys of these types, in this process."""
    name = f"slackwater_hash_of_{'_'.join(map(str, kinds))}"

    # No run writes a null key; a row that has one all the same must lie in some portion.
    values = ["" if pa.types.is_string(kind) else pa.scalar(0, pa.int32()).cast(kind) for kind in kinds]

    def scrambled_hashes(_: Any, *columns: pa.Array) -> pa.Array:
        keys = [column.fill_null(value) for column, value in zip(columns, values, strict=True)]
        return pa.array(key_places(keys, 1))  # of the only key group, a place is the hash

    pc.register_scalar_function(
        scrambled_hashes,
        name,
        {"summary": "the scrambled hashes of keys", "description": "as key groups are computed from them"},
        {f"key_{number}": kind for number, kind in enumerate(kinds)},
        pa.int64(),
    )
    return name


class Portion(NamedTuple):
    """Key groups from `least` to `greatest` (None: no bound), or the keys of them with some `hashes`."""

    least: int | None = None
    greatest: int | None = None
    hashes: Hashes | None = None

    @property
    def where(self) -> pc.Expression:
        is_inside = pc.scalar(True) if self.hashes is None else self.hashes.where
        if self.least is not None:
            is_inside = is_inside & (pc.field(KEY_GROUP) >= self.least)
        return is_inside if self.greatest is None else is_inside & (pc.field(KEY_GROUP) <= self.greatest)

    @property
    def within(self) -> Within:
        return Within(KEY_GROUP, self.least, self.greatest)

    def files_among(self, files: StoredFiles) -> StoredFiles:
        files = files.within(self.within)
        return files if self.hashes is None else files.among(filter(self._may_hold, files.paths))

    def _may_hold(self, path: str) -> bool:
        range_of_file = KeyRange.in_name(path)
        if self.hashes is None or range_of_file is None:
            return True
        groups = range(
            max(range_of_file.key_groups.first, self.least or 0),
            min(range_of_file.key_groups.last, _LAST if self.greatest is None else self.greatest) + 1,
        )
        return any(KeyRange.from_hashes(group, *self.hashes[1:]).overlaps(range_of_file) for group in groups)

    def parts(self, count: int, keys: Columns) -> list["Portion"]:
        cuts = [(number << PLACE_BITS) // count for number in range(count + 1)]
        return [self._replace(hashes=Hashes(keys, *bounds)) for bounds in pairwise(cuts)]


def portions(files: Sequence[pa.Table], most: int, keys: Columns = ()) -> list[Portion]:
    """Ranges of key groups that together cover all, each with about `most` rows of `files` (as `actions_of`
    gives them). With `keys` a key group of more rows is divided, too.
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
    rows_of_groups = np.diff(until, prepend=0.0)
    large = np.flatnonzero(rows_of_groups > most + 1e-9)[: None if keys else 0]  # each a portion of its own
    cuts = _between_rows(np.unique(np.concatenate([cuts, large, large + 1])), until)
    starts, ends = [None, *cuts.tolist()], [*(cuts - 1).tolist(), None]
    part_counts = np.ones(len(starts), np.int64)
    part_counts[np.searchsorted(cuts, large, side="right")] = np.ceil(rows_of_groups[large] / most - 1e-9)
    whole_portions = map(Portion, starts, ends)
    return [
        part
        for portion, count in zip(whole_portions, part_counts.tolist(), strict=True)
        for part in (portion.parts(count, keys) if count > 1 else [portion])
    ]


def _between_rows(cuts: np.ndarray, until: np.ndarray) -> np.ndarray:
    """The ascending `cuts` that have rows between them and the cut before, and rows behind them."""
    chosen_cuts, rows_before = [], 0.0
    for cut in cuts.tolist():
        if cut and until[-1] - 1e-6 > until[cut - 1] > rows_before + 1e-6:
            chosen_cuts.append(cut)
            rows_before = until[cut - 1]
    return np.array(chosen_cuts, np.int64)


def _bounds(actions: pa.Table, side: str, otherwise: int) -> np.ndarray:
    name = f"{side}.{KEY_GROUP}"
    if name not in actions.column_names:
        return np.full(actions.num_rows, otherwise)
    return np.asarray(actions.column(name).fill_null(otherwise).to_numpy(), np.int64)
