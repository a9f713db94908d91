"""Names and kinds of state, declared by functions and triggers: frozen, comparable, picklable values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol


class AggregateOperations(Protocol):
    """The part of an AggregateFunction that aggregating state uses."""

    def create_accumulator(self) -> Any: ...

    def add(self, value: Any, accumulator: Any) -> Any: ...

    def get_result(self, accumulator: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...


@dataclass(frozen=True)
class StateDescriptor:
    """Root of all descriptors.

    Attributes:
        name: unique among the states of an operator. A trigger's state and a function's per-window state
            share names: as in Flink, equal names are one state; different kinds under one name are refused.
        sql_type: SQL type of a value, for typed columns in tables; None for none.
        kind: "value", "list", "map", "reducing" or "aggregating".
    """

    kind: ClassVar[str] = ""

    name: str
    sql_type: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ValueStateDescriptor(StateDescriptor):
    """One value (Flink: ValueStateDescriptor). An empty state reads as `default`."""

    kind: ClassVar[str] = "value"

    default: Any = None


@dataclass(frozen=True)
class ListStateDescriptor(StateDescriptor):
    """A list in order of arrival (Flink: ListStateDescriptor)."""

    kind: ClassVar[str] = "list"


@dataclass(frozen=True)
class MapStateDescriptor(StateDescriptor):
    """A map (Flink: MapStateDescriptor). `key_sql_type` is the SQL type of its keys."""

    kind: ClassVar[str] = "map"

    key_sql_type: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ReducingStateDescriptor(StateDescriptor):
    """One value, folded by `reduce(old, new)` (Flink: ReducingStateDescriptor)."""

    kind: ClassVar[str] = "reducing"

    reduce: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class AggregatingStateDescriptor(StateDescriptor):
    """An accumulator, fed and read through an aggregate function (Flink: AggregatingStateDescriptor). With
    `merges_as_list` it stands for a list: a window's own elements come before those that it absorbs.
    """

    kind: ClassVar[str] = "aggregating"

    aggregate: AggregateOperations
    merges_as_list: bool = field(default=False, kw_only=True)
