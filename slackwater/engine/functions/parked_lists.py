"""The elements of parked windows as the operator engine leaves them: a text for each window in `window_state`
or, of a long list, for each piece in `keyed_state` (see `slackwater.windowing.snapshot.list_pieces`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.calls.element_texts import ElementTexts, join_lists
from slackwater.engine.columnar.arrow_columns import times, times_in_ms, values_of_keys
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.window_columns import OpenWindows
from slackwater.windowing.errors import SnapshotFormatError
from slackwater.windowing.runtime.window_operator_builder import CONTENTS
from slackwater.windowing.snapshot import list_pieces

_LIST: Final = '{"list":['
_END: Final = "]}"


@dataclass(frozen=True)
class ParkedLists:
    """The elements of parked windows: how many each has, int64[n], and their texts, window by window."""

    lengths: Longs
    texts: pa.Array

    @classmethod
    def read(
        cls, window_rows: pa.Table, keyed_rows: pa.Table, keys: Sequence[str], element_texts: ElementTexts
    ) -> "ParkedLists":
        """The lists of windows, as ordered in `window_rows`; long ones are in pieces in `keyed_rows`.

        Raises:
            SnapshotFormatError: there are pieces of a list without a window.
        """
        contents = window_rows.column("contents").combine_chunks()
        keyed_rows = keyed_rows.filter(pc.equal(keyed_rows.column("state_name"), CONTENTS))
        if keyed_rows.num_rows:
            contents = _with_long_lists(contents, window_rows, keyed_rows, keys)
        return cls(*element_texts.read_lists(contents))


def _with_long_lists(
    contents: pa.Array, window_rows: pa.Table, keyed_rows: pa.Table, keys: Sequence[str]
) -> pa.Array:
    pieces: dict[tuple[Any, ...], dict[int, str]] = {}
    owners = _owners(keyed_rows, keys, "namespace")
    values = (keyed_rows.column(name).to_pylist() for name in ("map_key", "value_json"))
    for owner, number, text in zip(owners, *values, strict=True):
        pieces.setdefault(owner, {})[int(number)] = text[len(_LIST) : -len(_END)]
    texts = contents.to_pylist()
    for place, owner in enumerate(_owners(window_rows, keys, "window")):
        pieces_of_window = pieces.pop(owner, None)
        if pieces_of_window is not None:
            texts[place] = (
                f"[{','.join(pieces_of_window[number] for number in range(len(pieces_of_window)))}]"
            )
    if pieces:
        raise SnapshotFormatError(
            f"keyed_state holds elements of windows that are not open: {list(pieces)[:3]}."
        )
    return pa.array(texts, pa.string())


def _owners(rows: pa.Table, keys: Sequence[str], prefix: str) -> list[tuple[Any, ...]]:
    bounds = [times_in_ms(rows.column(f"{prefix}_{side}")).tolist() for side in ("start", "end")]
    return list(zip(*(rows.column(name).to_pylist() for name in keys), *bounds, strict=True))


def park_lists(
    windows: OpenWindows, lengths: Longs, texts: pa.Array, distinct: pa.Table
) -> tuple[pa.Array, list[pa.Table]]:
    """(the column `contents` of `window_state`, tables of `keyed_state` for long lists); `lengths`, int64[n],
    is 0 for a window without contents.
    """
    ends = np.cumsum(lengths)
    offsets = np.append(0, ends).astype(np.int32)
    piece_lengths = np.zeros(len(lengths), np.int64)
    may_be_long = lengths > list_pieces.FEWEST_IN_PIECE
    for place in np.flatnonzero(may_be_long).tolist():
        pieces_of_window = texts.slice(int(offsets[place]), int(lengths[place]))
        text_length = partial(_text_length, pieces_of_window)
        piece_lengths[place] = list_pieces.untyped_piece_length(len(pieces_of_window), text_length) or 0
    is_text = (lengths > 0) & (piece_lengths == 0)
    lists = pa.ListArray.from_arrays(pa.array(offsets), texts)
    contents = pc.binary_join_element_wise("[", join_lists(lists.filter(pa.array(is_text))), "]", "")
    contents = contents.take(pa.array(np.cumsum(is_text) - 1, mask=~is_text))
    long_places = np.flatnonzero(piece_lengths)
    if not len(long_places):
        return contents, []
    counts = -(-lengths[long_places] // piece_lengths[long_places])
    owners = np.repeat(long_places, counts)
    numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    firsts = offsets[owners] + numbers * piece_lengths[owners]
    beyonds = np.minimum(firsts + piece_lengths[owners], ends[owners])
    pieces = [
        f"{_LIST}{','.join(texts.slice(first, beyond - first).to_pylist())}{_END}"
        for first, beyond in zip(firsts.tolist(), beyonds.tolist(), strict=True)
    ]
    columns = {
        **values_of_keys(distinct, windows.keys[owners]),
        "namespace_start": times(windows.starts[owners]),
        "namespace_end": times(windows.ends[owners]),
    }
    return contents, [_rows_of_pieces(columns, numbers, pieces)]


def _rows_of_pieces(owners: Mapping[str, Any], numbers: Longs, pieces: Sequence[str]) -> pa.Table:
    """Rows of `keyed_state`; `owners` are columns of keys and namespaces, `numbers` the places of pieces."""
    return pa.table(
        {
            **owners,
            "state_name": pa.array([CONTENTS] * len(pieces), pa.string()),
            "map_key": pa.array(list(map(str, numbers.tolist())), pa.string()),
            "value_json": pa.array(pieces, pa.string()),
        }
    )


def _text_length(texts: pa.Array, count: int) -> int:
    return int(pc.sum(pc.utf8_length(texts.slice(0, count))).as_py()) + count + 1
