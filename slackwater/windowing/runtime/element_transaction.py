"""The transaction of one element: its rows wait until it has succeeded, and its changes are undone when a
user's function raises on it.

Only operators that send failing elements to quarantine have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.windowing.state.journal import UndoJournal


class _StandIn:
    """Takes the calls meant for an output or a listener, and hands them to the transaction, which makes them
    now or when the element has succeeded.
    """

    def __init__(self, target: Any, transaction: ElementTransaction) -> None:
        self._target, self._transaction = target, transaction

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        return lambda *arguments: self._transaction.pass_on(method, arguments)


class ElementTransaction:
    """Between `begin` and `commit` or `undo`, state and timers note their changes in `journal`, and rows
    wait.

    Args:
        output, listener: the real ones.

    Attributes:
        journal: for the state back end and the timer services.
        is_undoable: whether a failure now is to be undone. The operator sets it False during a firing or
            merge: these change what other elements have left.
        output, listener: what the operator calls instead.
    """

    def __init__(self, output: Any, listener: Any = None) -> None:
        self.journal = UndoJournal()
        self.output: Any = _StandIn(output, self)
        self.listener: Any = None if listener is None else _StandIn(listener, self)
        self._pending_calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._is_open = False
        self.is_undoable = True

    def pass_on(self, method: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Call now, or when the element has succeeded."""
        if self._is_open:
            self._pending_calls.append((method, arguments))
        else:
            method(*arguments)

    def begin(self) -> None:
        self.journal.begin()
        self._is_open = self.is_undoable = True

    def commit(self) -> None:
        """The element has succeeded: let its rows out, in order."""
        self.journal.commit()
        self._is_open = False
        pending_calls, self._pending_calls = self._pending_calls, []
        for method, arguments in pending_calls:
            method(*arguments)

    def undo(self) -> None:
        """The element has failed: state, timers and rows are as before it."""
        self.journal.undo()
        self._is_open = False
        self._pending_calls = []
