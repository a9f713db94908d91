"""Elements whose fields are made when they are read: a named tuple for whoever looks at it, but a column that
the function never reads costs nothing.

    place in the columns    0        1        2
    v, read before          7        9        4        in a slot of each object, as soon as it is made
    event_time, not yet     ·        ·        ·        made for all objects at the first access

Knows columns and named tuples, no window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, ClassVar

import pyarrow as pa

from slackwater.engine.operator.garbage import collector_resting
from slackwater.engine.rows.python_values import to_user_values
from slackwater.windowing.columnar.arrays.columns import Longs


class RowMaker:
    def __init__(self, record: type, column_of: Callable[[str], pa.Array]) -> None:
        self._record: Any = record
        self._column_of = column_of
        self._class = _lazy_class(record)
        self._names_read: list[str] = []

    def rows(self, numbers: Longs) -> list[Any]:
        """The elements of these numbers. Fields that earlier elements were asked for are made at once; if
        that is every field, elements are plain named tuples.
        """
        columns = _FieldValues(self._column_of, pa.array(numbers), self._names_read)
        names = list(self._names_read)
        if len(names) == len(self._record._fields):
            return list(map(self._record._make, zip(*map(columns.values, self._record._fields), strict=True)))
        with collector_resting():
            rows: list[Any] = list(map(object.__new__, repeat(self._class, len(numbers))))
            _set_all(self._class._origin, rows, zip(repeat(columns), range(len(rows)), strict=False))
            for name in names:
                _set_all(getattr(self._class, name), rows, columns.values(name))
        return rows


class _FieldValues:
    """The values of some elements, column by column, each made when it is asked for."""

    def __init__(
        self, column_of: Callable[[str], pa.Array], numbers: pa.Array, names_read: list[str]
    ) -> None:
        self._column_of = column_of
        self._numbers = numbers
        self._names_read = names_read
        self._values: dict[str, list[Any]] = {}

    def values(self, name: str) -> list[Any]:
        values = self._values.get(name)
        if values is None:
            column = self._column_of(name).take(self._numbers)
            values = self._values[name] = to_user_values(pa.chunked_array([column]))
            if name not in self._names_read:
                self._names_read.append(name)
        return values


class LazyRow(Sequence[Any]):
    """A named tuple whose fields are made when read; has its class, equals it, and is pickled as it."""

    __slots__ = ("_origin",)
    _record: ClassVar[Any]

    def __getattr__(self, name: str) -> Any:
        if name not in self._record._fields:
            raise AttributeError(f"{self._record.__name__!r} object has no attribute {name!r}")
        columns, place = self._origin
        value = columns.values(name)[place]
        getattr(type(self), name).__set__(self, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("can't set attribute")

    def _as_record(self) -> Any:
        return self._record._make([getattr(self, name) for name in self._record._fields])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._as_record())

    def __len__(self) -> int:
        return len(self._record._fields)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int) and -len(self._record._fields) <= place < len(self._record._fields):
            return getattr(self, self._record._fields[place])
        return self._as_record()[place]

    def __eq__(self, other: object) -> bool:
        return self._as_record() == _plain(other)

    def __lt__(self, other: Any) -> bool:
        return self._as_record() < _plain(other)

    def __le__(self, other: Any) -> bool:
        return self._as_record() <= _plain(other)

    def __gt__(self, other: Any) -> bool:
        return self._as_record() > _plain(other)

    def __ge__(self, other: Any) -> bool:
        return self._as_record() >= _plain(other)

    def __hash__(self) -> int:
        return hash(self._as_record())

    def __add__(self, other: Any) -> Any:
        return self._as_record() + _plain(other)

    def __radd__(self, other: Any) -> Any:
        return other + self._as_record()

    def __mul__(self, times: int) -> Any:
        return self._as_record() * times

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(self._as_record())

    def __reduce__(self) -> Any:
        return self._as_record().__reduce_ex__(2)


def _lazy_class(record: Any) -> Any:
    return type(
        record.__name__,
        (LazyRow,),
        {
            "__slots__": record._fields,
            "__class__": property(lambda row: record),  # `isinstance(row, tuple)` is true
            "_record": record,
            "_fields": record._fields,
            "_field_defaults": record._field_defaults,
            "_make": record._make,
            "_asdict": lambda row: row._as_record()._asdict(),
            "_replace": lambda row, /, **values: row._as_record()._replace(**values),
        },
    )


def _plain(value: Any) -> Any:
    return value._as_record() if issubclass(type(value), LazyRow) else value


def _set_all(slot: Any, rows: Iterable[Any], values: Iterable[Any]) -> None:
    deque(map(slot.__set__, rows, values), maxlen=0)
