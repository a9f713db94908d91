"""A trigger's state of one window, held while the window's key is walked. The back end gets it when the walk
leaves the key: most state is cleared by then, and needs no place there.

    walk of key a    add  add  get  clear      in the handle
    next key         ─ put back ─▶ the back end

A handle that is kept longer shows the state of the key in question, as every handle does.
"""

from collections.abc import Mapping
from typing import Any, Final

from slackwater.windowing.windows import Window

_ABSENT: Final = object()
_PUT_BACK: Final = object()


class HeldState:
    """The value of one window of the key in question. `state` is the back end's, in memory.

    Its value is _ABSENT where there is no entry, and _PUT_BACK once the back end has it.
    """

    __slots__ = ("_holder", "_key", "_namespace", "_state", "_value")
    kind: str

    def __init__(self, state: Any, holder: Any, window: Window) -> None:
        self._state, self._holder, self._namespace = state, holder, window
        key = self._key = holder.current_key
        self._value = state.get_raw(key, window) if state.contains(key, window) else _ABSENT

    def put_back(self) -> None:
        value, self._value = self._value, _PUT_BACK
        if value is _ABSENT:
            self._state.clear(self._key, self._namespace)
        else:
            self._state.put_raw(self._key, self._namespace, value)

    def clear(self) -> None:
        if self._value is _PUT_BACK:
            self._of_key_in_question().clear()
        else:
            self._value = _ABSENT

    def _of_key_in_question(self) -> Any:
        return self._holder.state_of(self._state.descriptor, self._namespace)


class HeldValueState(HeldState):
    """See ValueState."""

    __slots__ = ()
    kind = "value"

    def value(self) -> Any:
        value = self._value
        if value is _PUT_BACK:
            return self._of_key_in_question().value()
        return self._state.descriptor.default if value is _ABSENT or value is None else value

    def update(self, value: Any) -> None:
        if self._value is _PUT_BACK:
            self._of_key_in_question().update(value)
        else:
            self._value = _ABSENT if value is None else value


class HeldReducingState(HeldState):
    """See ReducingState."""

    __slots__ = ("_reduce",)
    kind = "reducing"

    def __init__(self, state: Any, holder: Any, window: Window) -> None:
        super().__init__(state, holder, window)
        self._reduce = state.descriptor.reduce

    def get(self) -> Any:
        value = self._value
        if value is _PUT_BACK:
            return self._of_key_in_question().get()
        return None if value is _ABSENT else value

    def add(self, value: Any) -> None:
        old = self._value
        if old is _PUT_BACK:
            self._of_key_in_question().add(value)
        elif value is None:
            self._value = _ABSENT
        elif old is _ABSENT or old is None:
            self._value = value
        else:
            self._value = self._reduce(old, value)


HELD_KINDS: Final[Mapping[str, Any]] = {"value": HeldValueState, "reducing": HeldReducingState}
