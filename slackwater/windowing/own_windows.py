"""Windows of a user's own class: a named tuple that declares its columns in tables.

    class Visit(NamedTuple):
        start: int                     window_start, in milliseconds
        end: int                       window_end
        tier: str                      tier
        columns = "tier string"        the declared columns: every field but `start` and `end`

        def max_timestamp(self) -> int:
            return self.end - 1

A class may lack `start`, `end` or both; the end of a window without one is `max_timestamp()` + 1. Columns
have the types of keys and no field is None, so a window hashes, serializes and survives its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import attrgetter
from typing import Any, Final, NamedTuple

from slackwater.windowing.errors import ConfigurationError, KeyTypeError, OwnWindowError
from slackwater.windowing.java import LONG_MAX, hash_order, wrap_int
from slackwater.windowing.key_types import BOOLEAN, BYTE, DATE, INT, LONG, SHORT, STRING, KeyType
from slackwater.windowing.windows import MergeCallback, TimeWindow, Window

START, END = "start", "end"
_TYPES: Final[dict[str, KeyType]] = {
    **dict.fromkeys(("tinyint", "byte"), BYTE),
    **dict.fromkeys(("smallint", "short"), SHORT),
    **dict.fromkeys(("int", "integer"), INT),
    **dict.fromkeys(("bigint", "long"), LONG),
    "string": STRING,
    "boolean": BOOLEAN,
    "date": DATE,
}
_LATEST_MS: Final = (2**63 - 1) // 1000  # a timestamp column counts microseconds


class WindowField(NamedTuple):
    name: str
    type: KeyType


@dataclass(frozen=True)
class OwnWindowClass:
    """A user's class of windows, checked; `fields` are in the order of its constructor."""

    window_class: Any
    fields: tuple[WindowField, ...]

    @property
    def columns(self) -> tuple[WindowField, ...]:
        return tuple(field for field in self.fields if field.name not in (START, END))

    @property
    def has_start(self) -> bool:
        """Whether windows have a start; if not, `window_start` is null."""
        return any(field.name == START for field in self.fields)

    @property
    def has_end(self) -> bool:
        """Whether windows have a field for the end; if not, it follows from `max_timestamp()`."""
        return any(field.name == END for field in self.fields)

    @property
    def description(self) -> list[str]:
        """The fields as plain texts, which a pipeline's declarations record."""
        return [
            field.name if field.name in (START, END) else f"{field.name} {field.type.name}"
            for field in self.fields
        ]

    def check(self, window: Window) -> None:
        """Raise OwnWindowError for another class, a field of another type, or an `end` that isn't the end."""
        if type(window) is not self.window_class:
            raise OwnWindowError(
                f"The assigner gave {window!r}, but its window_type is {self.window_class.__name__}."
            )
        for (name, kind), value in zip(self.fields, window, strict=True):
            try:
                kind.check(value)
                if kind is STRING and not value.isascii():
                    value.encode()
            except (KeyTypeError, UnicodeError) as error:
                raise OwnWindowError(
                    f"{window!r}: the field {name} is declared as {kind.name} and can't be {value!r}. A "
                    "window has a value of the declared type in each field, never None."
                ) from error
        last_instant = window.max_timestamp()
        if self.has_end and last_instant != window.end - 1:
            raise OwnWindowError(
                f"{window!r}: max_timestamp() is {last_instant}; of a window with the field `end` it is "
                "end - 1."
            )
        times = (window.start if self.has_start else 0, last_instant)
        if type(last_instant) is not int or any(
            abs(time) >= _LATEST_MS for time in times if time != LONG_MAX or self.has_end
        ):
            raise OwnWindowError(
                f"{window!r}: start and max_timestamp() are milliseconds within 292,000 years of 1970, got "
                f"{times[0]} and {last_instant!r}; a window that never ends has no field `end`, and "
                f"{LONG_MAX} as max_timestamp()."
            )

    def check_all(self, windows: Sequence[Window]) -> Sequence[Window]:
        for window in windows:
            self.check(window)
        return windows

    def hash_code(self, window: Window) -> int:
        """Java's `Objects.hash` of the fields, the hash code of a Java record."""
        result = 1
        for (_, kind), value in zip(self.fields, window, strict=True):
            result = wrap_int(31 * result + kind.hash_code(value))
        return result

    def serialize(self, window: Window) -> bytes:
        """The fields, each as Flink's serializer of its type writes it."""
        return b"".join([kind.serialize(value) for (_, kind), value in zip(self.fields, window, strict=True)])


def declares_columns(window_type: type) -> bool:
    """Whether this is a user's class of windows with declared columns."""
    return hasattr(window_type, "columns")


@cache
def own_window_class(window_type: type) -> OwnWindowClass:
    """The checked class; ConfigurationError unless a named tuple with `max_timestamp` and its `columns`."""
    name, names = window_type.__name__, getattr(window_type, "_fields", None)
    if names is None or not issubclass(window_type, tuple):
        raise ConfigurationError(f"{name} is no named tuple; a window of your own is one.")
    if not callable(getattr(window_type, "max_timestamp", None)):
        raise ConfigurationError(f"{name} has no max_timestamp(); it says the last millisecond of a window.")
    text = getattr(window_type, "columns", None)
    if not isinstance(text, str):
        raise ConfigurationError(
            f"{name}.columns is {text!r}; it declares a column for each field but start and end, such as "
            "columns = 'tier string', or ''."
        )
    types = dict(_column(name, part) for part in text.split(",") if part.strip())
    if set(types) != set(names) - {START, END} or not names:
        raise ConfigurationError(
            f"{name} has the fields {', '.join(names) or 'none'} and declares the columns "
            f"{', '.join(types) or 'none'}; there is a column for each field but start and end, and at least "
            "one field."
        )
    return OwnWindowClass(window_type, tuple(WindowField(field, types.get(field, LONG)) for field in names))


def _column(window_name: str, text: str) -> tuple[str, KeyType]:
    name, _, kind = text.strip().partition(" ")
    kind = kind.strip().lower()
    if kind not in _TYPES:
        raise ConfigurationError(
            f"{window_name}.columns has {text.strip()!r}; a column of a window is a name and one of "
            f"{', '.join(_TYPES)}."
        )
    return name, _TYPES[kind]


def checked_windows(
    assign: Callable[[Any, int], Sequence[Window]], window_type: type
) -> Callable[[Any, int], Sequence[Window]]:
    """An assigner's function; it checks windows of a class that declares its columns."""
    if not declares_columns(window_type):
        return assign
    check_all = own_window_class(window_type).check_all
    return lambda value, time: check_all(assign(value, time))


def java_hash(window: Window) -> int:
    """A window's hash code, which orders merged windows: its own `java_hash()`, or that of its fields."""
    if type(window) is TimeWindow or hasattr(window, "java_hash"):
        return int(window.java_hash())
    window_type: Any = type(window)
    return own_window_class(window_type).hash_code(window)


def serialize(window: Window) -> bytes:
    """A window's bytes, which order timers of one key and time: its own `serialize()`, or its fields'."""
    if type(window) is TimeWindow or hasattr(window, "serialize"):
        return bytes(window.serialize())
    window_type: Any = type(window)
    return own_window_class(window_type).serialize(window)


def merge_touching_windows(
    windows: Iterable[Window], callback: MergeCallback, by: Callable[[Window], Any] | None = None
) -> None:
    """Merge windows that overlap or touch, as time windows do; for `merge_windows` of an assigner.

    Args:
        windows: with the fields `start` and `end`, and `cover(other)`, the window that two become.
        callback: called in ascending order of the groups' starts with (cover, members), for groups of
            several.
        by: an additional property, such as a field, that windows of one group have in common.
    """
    groups: list[list[Window]] = []
    newest_groups: dict[Any, list[Window]] = {}
    ends: dict[Any, int] = {}
    for window in sorted(windows, key=attrgetter(START)):
        lane = None if by is None else by(window)
        if lane in ends and window.start <= ends[lane]:
            newest_groups[lane].append(window)
            ends[lane] = max(ends[lane], window.end)
        else:
            newest_groups[lane], ends[lane] = [window], window.end
            groups.append(newest_groups[lane])
    for members in groups:
        distinct = dict.fromkeys(members)
        if len(distinct) > 1:
            callback(reduce(lambda a, b: a.cover(b), distinct), hash_order(distinct, java_hash))
