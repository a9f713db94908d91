"""Values of expressions for whole batches of rows: DuckDB computes them, in memory and in one thread, for
both engines alike.

A row on which an expression fails (a value that can't be cast, an overflow, a division by zero) is told apart
from one on which it is null. A column of bytes is the text whose UTF-8 they are: a row of other bytes fails.
What an expression may hold is `slackwater.pipelines.expressions`.

Conditions are true, false or unknown. Integers and decimals compare exactly with any literal; NaN equals
itself and is greater than every number; text compares by its UTF-8 bytes.
"""

import json
import os
import re
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression, connect, place_in_text, query_of, refuse
from slackwater.tables.schemas import TIME

if TYPE_CHECKING:
    import duckdb

from collections.abc import Mapping

from slackwater.pipelines.expressions import parse_expression

_PLACEHOLDER = "__rows"  # a table without columns has no number of rows
_CANDIDATES = 4
_NULL_CHECKS = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")  # these look at no byte
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_FITTING = (
    *(pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64),
    *(pa.types.is_decimal128, pa.types.is_string, pa.types.is_date32, pa.types.is_timestamp),
)


class Values(NamedTuple):
    """The values of an expression, one a row; null where `is_failed`, which is None if none fails."""

    column: pa.ChunkedArray
    is_failed: npt.NDArray[np.bool_] | None


def type_of(subject: str, declaration: str, expression: Expression, source: pa.Schema) -> pa.DataType:
    """The type of an expression's values on rows of the schema `source`.

    Raises:
        PipelineError: a column is missing, an operand does not suit, or no table can hold the values.
    """
    for use in expression.uses:
        reason = None
        if use.column not in source.names:
            reason = _missing_column(use.column, source)
        elif use.reader not in _NULL_CHECKS and _holds_bytes_within(source.field(use.column).type):
            reason = f"column {use.column!r} holds bytes within a list, map or struct; these are no text"
        if reason is not None:
            refuse(subject, declaration, expression.text, use.start, reason)
    try:
        kind = _type_of(expression, source)
        _check_literals(expression, source)
    except _duckdb_error():
        refuse(subject, declaration, expression.text, *_misfit(expression, source))
    if not any(is_kind(kind) for is_kind in _FITTING):
        raise PipelineError(
            subject,
            f"{declaration} is {expression.text!r}, whose values are {kind}; cast it to a number, text, a "
            "boolean, a date or a timestamp",
        )
    return kind


def _missing_column(name: str, source: pa.Schema) -> str:
    struct, _, field = name.partition(".")
    if field and struct in source.names and pa.types.is_nested(source.field(struct).type):
        return (
            f"{struct} is nested, and its fields can't be read here; the source has to have {field} as a "
            "column"
        )
    return f"the source has no column {name!r}; it has {', '.join(sorted(source.names))}"


def values_of(expression: Expression, rows: pa.Table) -> Values:
    kind = _type_of(expression, rows.schema)
    operands, text = _as_duckdb_takes_it(expression, rows), _text_as_computed(expression, rows.schema)
    try:
        return Values(_cast(_compute(query_of(text), operands), kind), None)
    except _duckdb_error():
        # A row that fails gives a null structure, a null value a structure that holds null.
        query = f"SELECT TRY(struct_pack(v := (\n{text}\n))) AS v FROM rows"
        structures = _compute(query, operands).combine_chunks()
    values = pa.chunked_array([structures.flatten()[0]])
    return Values(_cast(values, kind), np.asarray(structures.is_null()))


@lru_cache(maxsize=1024)
def _type_of(expression: Expression, source: pa.Schema) -> pa.DataType:
    query = query_of(_text_as_computed(expression, source))
    kind = _compute(query, _as_duckdb_takes_it(expression, source.empty_table())).type
    return TIME if pa.types.is_timestamp(kind) else kind


@lru_cache(maxsize=1024)
def _check_literals(expression: Expression, source: pa.Schema) -> None:
    """Refuse, with DuckDB's error, a literal that has no value of the type that it is compared with, as in
    ``day > 'soon'``: on a row of nulls nothing but a literal can fail to be converted.
    """
    import duckdb

    try:
        _compute(query_of(_text_as_computed(expression, source)), _row_of_nulls(expression, source))
    except duckdb.ConversionException:
        raise
    except duckdb.Error:
        return


def _row_of_nulls(expression: Expression, source: pa.Schema) -> pa.Table:
    columns = {name: pa.nulls(1, source.field(name).type) for name in expression.columns}
    return _as_duckdb_takes_it(expression, pa.table(columns or {_PLACEHOLDER: pa.nulls(1)}))


def _text_as_computed(expression: Expression, source: pa.Schema) -> str:
    return "".join(query_piece for _, query_piece in _pieces(expression, source))


def _pieces(expression: Expression, source: pa.Schema) -> Iterator[tuple[str, str]]:
    """(each piece of the expression's text as written, as DuckDB gets it); bytes are decoded where read."""
    end = 0
    for use in expression.uses:
        name = expression.text[use.start : use.end]
        if _is_bytes(source.field(use.column).type) and use.reader not in _NULL_CHECKS:
            yield (expression.text[end : use.start],) * 2
            yield name, f"TRY(decode({name}))" if use.reader == "TRY_CAST" else f"decode({name})"
            end = use.end
    yield (expression.text[end:],) * 2


def _place_as_written(expression: Expression, source: pa.Schema, place: int) -> int:
    start = 0
    for piece, query_piece in _pieces(expression, source):
        if place < len(query_piece):
            return start + (place if piece == query_piece else 0)
        place, start = place - len(query_piece), start + len(piece)
    return start


def _compute(query: str, rows: pa.Table) -> pa.ChunkedArray:
    connection = _connection()
    connection.register("rows", rows)
    try:
        return connection.sql(query).to_arrow_table().column(0)
    finally:
        connection.unregister("rows")


def _as_duckdb_takes_it(expression: Expression, rows: pa.Table) -> pa.Table:
    """The columns that the expression reads; times as moments of UTC, to the microsecond."""
    if not expression.columns:
        return pa.table({_PLACEHOLDER: pa.nulls(rows.num_rows, pa.int8())})
    columns = [rows.column(name) for name in expression.columns]
    return pa.table(
        [_moments(column) if pa.types.is_timestamp(column.type) else column for column in columns],
        names=list(expression.columns),
    )


def _moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(TIME)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


_connections = threading.local()


def _connection() -> "duckdb.DuckDBPyConnection":
    if getattr(_connections, "process", None) != os.getpid():
        _connections.connection, _connections.process = connect(), os.getpid()
    return _connections.connection


def _duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _misfit(expression: Expression, source: pa.Schema) -> tuple[int, str]:
    """(the place in the text at which DuckDB refuses an expression on such rows, its reason with what suits
    instead). It tells both only to statements that are executed at once.
    """
    connection, text = _connection(), _text_as_computed(expression, source)
    connection.register("rows", _row_of_nulls(expression, source))
    try:
        connection.execute(query_of(text)).fetchall()
    except _duckdb_error() as error:
        details: dict[str, Any] = json.loads(str(error).partition(": ")[2])
    finally:
        connection.unregister("rows")
    message, _, candidates = details["exception_message"].partition("\n\tCandidate functions:\n")
    reason = " ".join(message.split())
    kinds = re.findall(r"[A-Z][A-Z ]+", message.partition("(")[2])
    forms = sorted(
        (line.strip() for line in candidates.splitlines() if line.strip()),
        key=lambda form: -sum(kind in form for kind in kinds),
    )
    if forms:
        others = f" and {len(forms) - _CANDIDATES} others" if len(forms) > _CANDIDATES else ""
        reason += f" Expected is {'; '.join(forms[:_CANDIDATES])}{others}"
    position = re.match(r"\[(\d+)", details.get("location", "[0"))
    assert position is not None
    place = _place_as_written(expression, source, place_in_text(text, int(position[1])))
    return place, reason


def _is_bytes(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _BYTES)


def _holds_bytes_within(kind: pa.DataType) -> bool:
    children = [kind.field(number).type for number in range(kind.num_fields)]
    return any(_is_bytes(child) or _holds_bytes_within(child) for child in children)


def bind_condition(subject: str, text: str, types: Mapping[str, pa.DataType]) -> Expression:
    """The condition `text` on a source whose columns have `types`.

    Raises:
        PipelineError: it can't be read, a column is missing, or two sides can't be compared.
    """
    condition = parse_expression(subject, "where", text)
    kind = type_of(subject, "where", condition, pa.schema(list(types.items())))
    if not pa.types.is_boolean(kind):
        raise PipelineError(subject, f"where is {text!r}, whose values are {kind}; it must be true or false")
    return condition


def rows_that_meet(condition: Expression, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """For each row whether the condition is true; unknown and failing count as false."""
    return np.asarray(values_of(condition, rows).column.fill_null(False), np.bool_)
