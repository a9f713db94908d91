"""The transaction of one element, for operators with quarantine: undone when a user's function raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.windowing.state.journal import UndoJournal


class _StandIn:
    """Forwards calls to output or listener through the transaction: now, or after the element succeeded."""

    def __init__(self, target: Any, transaction: ElementTransaction) -> None:
        self._target, self._transaction = target, transaction

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        return lambda *arguments: self._transaction.pass_on(method, arguments)


class ElementTransaction:
    """Between `begin` and `commit` or `undo`, state and timers note changes in `journal`, and rows wait.

    The operator calls the attributes `output` and `listener` in place of the real ones. `is_undoable` is
    False during a firing or merge, which change what other elements have left.
    """

    def __init__(self, output: Any, listener: Any = None) -> None:
        self.journal = UndoJournal()
        self.output: Any = _StandIn(output, self)
        self.listener: Any = None if listener is None else _StandIn(listener, self)
        self._pending_calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._is_open = False
        self.is_undoable = True

    def pass_on(self, method: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self._is_open:
            self._pending_calls.append((method, arguments))
        else:
            method(*arguments)

    def begin(self) -> None:
        self.journal.begin()
        self._is_open = self.is_undoable = True

    def commit(self) -> None:
        self.journal.commit()
        self._is_open = False
        pending_calls, self._pending_calls = self._pending_calls, []
        for method, arguments in pending_calls:
            method(*arguments)

    def undo(self) -> None:
        self.journal.undo()
        self._is_open = False
        self._pending_calls = []
