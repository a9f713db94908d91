"""The values of a source that may have a role: its columns, the fields of its structs, and those of the JSON
objects in its texts, each with an expression for `derive` and what a sample says of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.expressions import values_of
from slackwater.engine.source.time_suggestions import TimeSuggestion, json_paths, json_text, suggest_times
from slackwater.pipelines.expression_database import connect
from slackwater.pipelines.expressions import column_as_written, parse_expression

_EXAMPLE_LENGTH = 60


@dataclass(frozen=True, kw_only=True)
class SourceField:
    """One value of each row.

    Attributes:
        name: for people: ``ms``, ``trip.at``, ``value.tollgate.id``.
        column: of the source, in which it is.
        path: to it within the column; empty for the column itself.
        type: of the column, or what is known of the field.
        expression: SQL for it.
        values: of the sample; bytes that are text as text.
        times: ways to make times of it; a timestamp has one.
        holds_json: whether its values are JSON objects, whose fields follow it.
    """

    name: str
    column: str
    path: tuple[str, ...]
    type: str
    expression: str
    values: pa.ChunkedArray
    times: tuple[TimeSuggestion, ...] = ()
    holds_json: bool = False

    @property
    def is_column(self) -> bool:
        return not self.path

    @property
    def word(self) -> str:
        """The last part of its name, by which its meaning is guessed."""
        return self.path[-1] if self.path else self.column

    @cached_property
    def null_share(self) -> float:
        return self.values.null_count / len(self.values) if len(self.values) else 0.0

    @cached_property
    def distinct(self) -> int | None:
        """How many values the sample has; None for nested ones."""
        if pa.types.is_nested(self.values.type):
            return None
        return int(pc.count_distinct(self.values, mode="only_valid").as_py())

    @cached_property
    def example(self) -> Any:
        values = self.values.drop_null()
        if not len(values):
            return None
        value = values[0].as_py()
        if isinstance(value, str | bytes | list | dict):
            text = value.hex() if isinstance(value, bytes) else str(value)
            return text if len(text) <= _EXAMPLE_LENGTH else text[: _EXAMPLE_LENGTH - 1] + "…"
        return value

    @property
    def holds_bytes(self) -> bool:
        return "binary" in self.type

    @property
    def is_integer(self) -> bool:
        return bool(pa.types.is_integer(self.values.type))

    @property
    def is_text(self) -> bool:
        return bool(pa.types.is_string(self.values.type) or pa.types.is_large_string(self.values.type))

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """A number for each value; null has one, too."""
        dictionary = self.values.combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(dictionary, pa.ChunkedArray):
            dictionary = dictionary.combine_chunks()
        return dictionary.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def fields_of(rows: pa.Table, types: Sequence[tuple[str, str]]) -> list[SourceField]:
    """Every column of the sample, each followed by the fields in it. `types` are those of its format."""
    type_by_name = dict(types)
    return [
        field
        for name in rows.column_names
        for field in _fields_of_column(name, type_by_name.get(name), rows.column(name))
    ]


def _fields_of_column(name: str, kind: str | None, stored: pa.ChunkedArray) -> Iterator[SourceField]:
    values = _as_expressions_see(stored)
    expression = column_as_written(name)
    column = SourceField(
        name=name, column=name, path=(), type=kind or str(stored.type), expression=expression, values=values
    )
    if pa.types.is_timestamp(values.type):
        has_zone = values.type.tz is not None
        timestamps = TimeSuggestion(expression, "timestamps" if has_zone else "timestamps without a zone")
        yield replace(column, times=(timestamps,))
        return
    suggestions = {
        item.field: item._replace(reason=item.reason.partition(": ")[2] if item.field else item.reason)
        for item in suggest_times(name, values)
    }
    values_by_path = json_paths(values)
    times = (suggestions[""],) if "" in suggestions else ()
    yield replace(column, times=times, holds_json=bool(values_by_path))
    if pa.types.is_struct(values.type):
        yield from _fields_of_struct(name, (), expression, values, suggestions)
    elif values_by_path:
        yield from _fields_of_json(name, values_by_path, suggestions, expression, values)


def _fields_of_struct(
    column: str,
    path: tuple[str, ...],
    expression: str,
    values: pa.ChunkedArray,
    suggestions: Mapping[str, TimeSuggestion],
) -> Iterator[SourceField]:
    structs = values.combine_chunks()
    if isinstance(structs, pa.ChunkedArray):
        structs = pa.concat_arrays(structs.chunks)
    for child, stored in zip(structs.type, structs.flatten(), strict=True):
        child_path = (*path, child.name)
        child_values = _as_expressions_see(pa.chunked_array([stored]))
        child_expression = f"{expression}.{column_as_written(child.name)}"
        suggestion = suggestions.get(".".join(child_path))
        yield SourceField(
            name=".".join((column, *child_path)),
            column=column,
            path=child_path,
            type=str(child.type),
            expression=child_expression,
            values=child_values,
            times=() if suggestion is None else (suggestion,),
        )
        if pa.types.is_struct(child.type):
            yield from _fields_of_struct(column, child_path, child_expression, child_values, suggestions)


def _fields_of_json(
    column: str,
    values_by_path: Mapping[tuple[str, ...], pa.Array],
    suggestions: Mapping[str, TimeSuggestion],
    expression: str,
    texts: pa.ChunkedArray,
) -> Iterator[SourceField]:
    paths = [path for path, values in values_by_path.items() if not pa.types.is_nested(values.type)]
    for path, values in zip(paths, _json_texts(texts, paths), strict=True):
        suggestion = suggestions.get(".".join(path))
        yield SourceField(
            name=f"{column}.{'.'.join(path)}",
            column=column,
            path=path,
            type=f"JSON {_json_type(values_by_path[path].type)}",
            expression=json_text(expression, path),
            values=values,
            times=() if suggestion is None else (suggestion,),
        )


def _json_type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind):
        return "text"
    return "true or false" if pa.types.is_boolean(kind) else "null" if pa.types.is_null(kind) else "number"


def _json_texts(texts: pa.ChunkedArray, paths: Sequence[tuple[str, ...]]) -> list[pa.ChunkedArray]:
    """The text of each field, row by row; each object is parsed once."""
    if not paths:
        return []
    literals = ", ".join(json_text("", path).removeprefix(" ->> ") for path in paths)
    with connect() as connection:
        connection.register("rows", pa.table({"v": texts}))
        lists_of_texts = connection.sql(
            f"SELECT TRY(json_extract_string(v, [{literals}])) AS t FROM rows"
        ).to_arrow_table()
    lists = lists_of_texts.column("t").combine_chunks()
    columns = []
    for place in range(len(paths)):
        values = pc.list_element(lists, place) if not lists.null_count else _elements(lists, place)
        columns.append(pa.chunked_array([values]))
    return columns


def _elements(lists: pa.ListArray, place: int) -> pa.Array:
    return pa.array(
        [None if item is None else item[place] for item in lists.to_pylist()], lists.type.value_type
    )


def _as_expressions_see(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes that are UTF-8 as text, times to the microsecond; other values as they are."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return values


def times_of(field: SourceField, columns: Mapping[str, pa.ChunkedArray]) -> npt.NDArray[np.float64]:
    """The times that a field's first suggestion makes, in milliseconds; NaN where it is null or fails.
    `columns` are the values of the columns, as expressions see them.
    """
    expression = parse_expression("source", "derive", field.times[0].expression)
    moments = values_of(expression, pa.table({field.column: columns[field.column]})).column
    micros = moments.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.float64())
    return np.floor(micros.to_numpy(zero_copy_only=False) / 1000)
