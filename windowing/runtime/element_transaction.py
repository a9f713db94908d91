"""One element's changes and rows, held back until it has succeeded, or taken back when a user's function raises on it.

Only operators that send failing elements to quarantine have one.
"""

from __future__ import annotations

from typing import Any

from windowing.state.journal import UndoJournal


class HeldCalls:
    """Stands in for an output or a listener: while `is_holding`, calls wait for `release` or `drop`."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._calls: list[tuple[Any, tuple[Any, ...]]] = []
        self.is_holding = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        def call(*arguments: Any) -> None:
            if self.is_holding:
                self._calls.append((method, arguments))
            else:
                method(*arguments)

        return call

    def release(self) -> None:
        """Make the calls held, in order, and hold no more."""
        self.is_holding = False
        calls, self._calls = self._calls, []
        for method, arguments in calls:
            method(*arguments)

    def drop(self) -> None:
        """Forget the calls held, and hold no more."""
        self.is_holding = False
        self._calls = []


class ElementTransaction:
    """Between `begin` and `commit` or `undo`, state and timers note their changes in `journal`, and rows wait.

    Args:
        output, listener: the real ones.

    Attributes:
        journal: for the state back end and the timer services.
        output, listener: what the operator calls instead.
    """

    def __init__(self, output: Any, listener: Any = None) -> None:
        self.journal = UndoJournal()
        self.output: Any = HeldCalls(output)
        self.listener: Any = None if listener is None else HeldCalls(listener)
        self._held = [held for held in (self.output, self.listener) if held is not None]

    def begin(self) -> None:
        self.journal.begin()
        for held in self._held:
            held.is_holding = True

    def commit(self) -> None:
        """The element has succeeded: let its rows out."""
        self.journal.commit()
        for held in self._held:
            held.release()

    def undo(self) -> None:
        """The element has failed: state, timers and rows are as before it."""
        self.journal.undo()
        for held in self._held:
            held.drop()
