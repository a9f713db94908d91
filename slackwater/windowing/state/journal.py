"""The undo journal of one element, for operators with quarantine: each change notes its inverse call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class UndoJournal:
    """Inverse calls in order of the changes, recorded between `begin` and `commit` or `undo` only."""

    def __init__(self) -> None:
        self._inverses: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._is_recording = False

    def begin(self) -> None:
        self._inverses.clear()
        self._is_recording = True

    def note(self, inverse: Callable[..., Any], *arguments: Any) -> None:
        if self._is_recording:
            self._inverses.append((inverse, arguments))

    def commit(self) -> None:
        self._is_recording = False
        self._inverses.clear()

    def undo(self) -> None:
        """Revert all changes since `begin`, newest first."""
        self._is_recording = False
        while self._inverses:
            inverse, arguments = self._inverses.pop()
            inverse(*arguments)
