"""Calls of a vectorized function, and the check of its results; behind an evictor it is called per firing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.python_values import to_user_values
from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.tables.schemas import TIME
from slackwater.windowing import ProcessAllWindowFunction, ProcessWindowFunction
from slackwater.windowing.snapshot import times
from slackwater.windowing.snapshot.sql_types import arrow_type

BOUNDS = ("window_start", "window_end")


class ResultTableError(PermanentError):
    """A vectorized function has returned no table, or none with a row of the declared columns per firing."""


@dataclass(frozen=True)
class VectorizedCalls:
    """A vectorized function of a pipeline; it gets `fields` as lists and returns the columns `results`."""

    function: VectorizedFunction
    keys: tuple[tuple[str, pa.DataType], ...]
    fields: tuple[tuple[str, pa.DataType], ...]
    results: tuple[tuple[str, pa.DataType], ...]

    @classmethod
    def of(cls, pipeline: Pipeline, schema: pa.Schema, names: Iterable[str]) -> "VectorizedCalls":
        assert isinstance(pipeline.process, VectorizedFunction)
        others = (name for name in names if name not in pipeline.keys and name not in BOUNDS)
        return cls(
            function=pipeline.process,
            keys=tuple((name, schema.field(name).type) for name in pipeline.keys),
            fields=tuple((name, user_type(schema.field(name).type)) for name in others),
            results=tuple(
                (name, arrow_type(kind))
                for name, kind in pipeline.output_columns
                if name not in pipeline.keys
            ),
        )

    def call(
        self, window_columns: Mapping[str, Any], element_columns: Mapping[str, pa.Array]
    ) -> list[pa.Array]:
        """The columns of results, with one row for each firing. Raises ResultTableError for another table."""
        firings = pa.table({**window_columns, **element_columns})
        answer = self.function(_as_frame(firings, self.function.frame))
        return self._checked(answer, firings.num_rows)

    def _checked(self, answer: Any, rows: int) -> list[pa.Array]:
        names = [name for name, _ in self.results]
        try:
            table = pa.table(answer)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise ResultTableError(
                f"the vectorized function returned a {type(answer).__name__}, which is no table: {error}"
            ) from error
        known_names = {*names, *(name for name, _ in self.keys), "__index_level_0__"}
        missing = [name for name in names if name not in table.column_names]
        unknown = [name for name in table.column_names if name not in known_names]
        if missing or unknown:
            raise ResultTableError(
                f"the vectorized function returned the columns {table.column_names}, but the output has "
                f"{names}"
            )
        if table.num_rows != rows:
            raise ResultTableError(
                f"the vectorized function returned {table.num_rows} rows for {rows} firings; it returns one "
                "row for each"
            )
        return [_cast(name, table.column(name), kind) for name, kind in self.results]

    def results_of_one_firing(
        self, key: Any, window: Any, elements: Iterable[Any]
    ) -> Iterator[tuple[Any, ...]]:
        values = key if len(self.keys) > 1 else (key,)
        keys = {
            name: pa.array([value], kind)
            for (name, kind), value in zip(self.keys, values[: len(self.keys)], strict=True)
        }
        elements = list(elements)
        lists = {
            name: pa.array([[getattr(element, name) for element in elements]], pa.list_(kind))
            for name, kind in self.fields
        }
        bounds = {
            name: times([getattr(window, side, None)], name)
            for name, side in zip(BOUNDS, ("start", "end"), strict=True)
        }
        arrays = self.call({**keys, **bounds}, lists)
        return zip(*(to_user_values(pa.chunked_array([array])) for array in arrays), strict=True)


class OneFiring(ProcessWindowFunction):
    """A vectorized function as the operator calls it, for windows of a key."""

    def __init__(self, calls: VectorizedCalls) -> None:
        self.calls = calls

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        return self.calls.results_of_one_firing(key, context.window, elements)


class OneFiringOfAll(ProcessAllWindowFunction):
    """A vectorized function as the operator calls it, for windows of all rows."""

    def __init__(self, calls: VectorizedCalls) -> None:
        self.calls = calls

    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        return self.calls.results_of_one_firing((), context.window, elements)


def user_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column as a function gets it: times are of UTC, in microseconds."""
    return TIME if pa.types.is_timestamp(kind) else kind


def user_column(column: pa.Array) -> pa.Array:
    """A column as a function gets it: of `user_type`; -0.0 is 0.0."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(TIME)
    return pc.add(column, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else column


def _as_frame(firings: pa.Table, frame: str) -> Any:
    if frame == "arrow":
        return firings
    if frame == "pandas":
        return firings.to_pandas()
    import polars

    return polars.from_arrow(firings)


def _cast(name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind).combine_chunks()
    except pa.ArrowException as error:
        raise ResultTableError(
            f"the vectorized function returned {name!r} as {column.type}, which is no {kind}: {error}"
        ) from error
