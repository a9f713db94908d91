"""Long lists in `keyed_state`: one row per piece, so that no writer or reader of a snapshot needs a whole
list in memory.

    state_name       map_key   value
    window-contents  0         the first elements
    window-contents  1         the next ones …

All pieces but the last have equally many elements: a multiple of 1024, as many as make about a megabyte of
text, by the first 1024. So they follow from the list alone, not from where it was kept. A list of one piece
is stored as a short list is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from slackwater.windowing.errors import SnapshotFormatError
from slackwater.windowing.snapshot.json_values import dump_value
from slackwater.windowing.snapshot.layout import SnapshotLayout
from slackwater.windowing.state.backend import StateEntry

FEWEST_IN_PIECE: Final = 1024
PIECE_CHARS: Final = 1 << 20
TYPED_ELEMENTS: Final = 1 << 16  # in a piece of a list with a declared type

PieceOwner = tuple[str, Any, Any]  # state name, key, namespace


def piece_length(entry: StateEntry, layout: SnapshotLayout) -> int | None:
    """Elements per piece of a list; None for a list of one piece, and for other state."""
    if entry.kind != "list" or len(entry.value) <= FEWEST_IN_PIECE:
        return None
    if entry.state_name in layout.value_columns():
        return TYPED_ELEMENTS if len(entry.value) > TYPED_ELEMENTS else None

    def text_length(count: int) -> int:
        first_elements = list(islice(entry.value, count))
        return len(dump_value(layout.json, first_elements, entry.state_name, entry.key, entry.namespace))

    return untyped_piece_length(len(entry.value), text_length)


def untyped_piece_length(elements: int, text_length: Callable[[int], int]) -> int | None:
    """`piece_length` without a declared type; `text_length(n)`: length of the first n elements' text."""
    if elements <= FEWEST_IN_PIECE:
        return None
    length = FEWEST_IN_PIECE * max(1, PIECE_CHARS // text_length(FEWEST_IN_PIECE))
    return length if elements > length else None


def pieces_of(entry: StateEntry, length: int) -> Iterator[tuple[int, StateEntry]]:
    """(number, entry with the elements) of each piece of a long list."""
    elements = iter(entry.value)
    number = 0
    while piece := list(islice(elements, length)):
        yield number, entry._replace(value=piece)
        number += 1


class PieceOrder:
    """Puts the pieces of long lists into order: a piece waits until all before it have come."""

    def __init__(self) -> None:
        self._next_numbers: dict[PieceOwner, int] = {}
        self._waiting: dict[PieceOwner, dict[int, StateEntry]] = {}

    def add(self, number: int, entry: StateEntry) -> Sequence[StateEntry]:
        """The pieces of the same list that are complete with piece `number`, in order."""
        owner = entry.state_name, entry.key, entry.namespace
        next_number = self._next_numbers.get(owner, 0)
        waiting = self._waiting.setdefault(owner, {})
        waiting[number] = entry
        ready = []
        while next_number in waiting:
            ready.append(waiting.pop(next_number))
            next_number += 1
        self._next_numbers[owner] = next_number
        if not waiting:
            del self._waiting[owner]
        return ready

    def require_complete(self) -> None:
        """Called after the last row; raises SnapshotFormatError if a piece is missing."""
        for (name, key, namespace), waiting in self._waiting.items():
            raise SnapshotFormatError(
                f"State {name!r} of key {key!r} ({namespace!r}) lacks piece "
                f"{self._next_numbers[name, key, namespace]} of its list, but has piece {min(waiting)}."
            )
