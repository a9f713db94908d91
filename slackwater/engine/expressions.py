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
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.json_fields import JsonFields, share_json_fields, with_fields
from slackwater.engine.nested_columns import (
    is_bytes,
    quoted,
    reason_against,
    text_of_bytes,
    type_read,
    with_moments,
)
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expression_database import connect
from slackwater.pipelines.expression_grammar import READERS_OF_BYTES
from slackwater.pipelines.expressions import (
    EMPTY,
    Expression,
    parse_expression,
    place_in_text,
    query_of,
    refuse,
)
from slackwater.tables.schemas import TIME

if TYPE_CHECKING:
    import duckdb

_PLACEHOLDER = "__no_column"  # a table without columns has no number of rows
_CANDIDATES = 4
_FITTING = (
    *(pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64),
    *(pa.types.is_decimal128, pa.types.is_string, pa.types.is_date32, pa.types.is_timestamp),
)
# Types that no table of ours has, with the one that holds their values. A value that it can't hold fails.
_STORED_AS = {
    **{"UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UBIGINT": "BIGINT"},
    **{"HUGEINT": "DECIMAL(38, 0)", "UHUGEINT": "DECIMAL(38, 0)", "JSON": "VARCHAR", "UUID": "VARCHAR"},
}


class Values(NamedTuple):
    """The values of an expression, one a row; null where `is_failed`, which is None if none fails."""

    column: pa.ChunkedArray
    is_failed: npt.NDArray[np.bool_] | None

    def failing_also(self, rows: npt.NDArray[np.bool_]) -> "Values":
        """The values where also `rows` fail."""
        if not rows.any():
            return self
        column = pc.if_else(pa.array(rows), pa.scalar(None, self.column.type), self.column)
        return Values(column, rows if self.is_failed is None else self.is_failed | rows)


def type_of(
    subject: str, declaration: str, expression: Expression, source: pa.Schema, may_be_nested: bool = False
) -> pa.DataType:
    """The type of an expression's values on rows of the schema `source`; a list, a map or a struct only if it
    `may_be_nested`.

    Raises:
        PipelineError: a column is missing, an operand does not suit, or no table can hold the values.
    """
    for use in expression.uses:
        reason = reason_against(use, expression.text, source)
        if reason is not None:
            refuse(subject, declaration, expression.text, use.start, reason)
    try:
        kind = _type_of(expression, source)
        _check_literals(expression, source)
    except _duckdb_error():
        refuse(subject, declaration, expression.text, *_misfit(expression, source))
    if may_be_nested and pa.types.is_nested(kind):
        return kind
    if not any(is_kind(kind) for is_kind in _FITTING):
        raise PipelineError(
            subject,
            f"{declaration} is {expression.text!r}, whose values are {kind}; cast it to a number, text, a "
            f"boolean, a date or a timestamp{_hint_for(kind)}",
        )
    return kind


def _hint_for(kind: pa.DataType) -> str:
    if pa.types.is_nested(kind):
        return ", take one part of it, or make text of it: to_json(…)"
    return ": decode(…) gives the text of bytes" if is_bytes(kind) else ""


def values_of(expression: Expression, rows: pa.Table) -> Values:
    return values_of_all([expression], rows)[0]


def values_of_all(expressions: Sequence[Expression], rows: pa.Table) -> list[Values]:
    """The values of each expression; the rows are read once for all of them."""
    kinds = [_type_of(expression, rows.schema) for expression in expressions]
    operands = _as_duckdb_takes_it(expressions, rows)
    sharing, fields = share_json_fields(tuple(expressions), rows.schema)
    texts = _texts_of_values(sharing, rows.schema, fields)
    try:
        columns = _compute(expressions[0], texts, operands, {one.name: one.text for one in fields}).columns
        return [Values(_cast(column, kind), None) for column, kind in zip(columns, kinds, strict=True)]
    except _duckdb_error():
        sharing, fields = share_json_fields(tuple(expressions), rows.schema, least=1)
        texts = _texts_of_values(sharing, rows.schema, fields)
    # A row that fails gives a null structure, a null value a structure that holds null.
    attempts = [f"TRY(struct_pack(v := (\n{text}\n)))" for text in texts]
    attempts += [f"{one.name} IS NULL AND {quoted(one.column)} IS NOT NULL" for one in fields]
    try:
        texts_of_fields = {one.name: one.text_or_null for one in fields}
        columns = _compute(expressions[0], attempts, operands, texts_of_fields).columns
    except _duckdb_error():
        # TRY lets a few errors pass, as that of an unknown time zone.
        if len(expressions) == 1:
            return [_values_by_halves(expressions[0], rows)]
        return [values_of(expression, rows) for expression in expressions]
    values = [_values_within(column, kind) for column, kind in zip(columns[: len(kinds)], kinds, strict=True)]
    for one, is_no_json in zip(fields, columns[len(kinds) :], strict=True):
        mask = np.asarray(is_no_json)
        values = [
            value.failing_also(mask) if one.name in expression.columns else value
            for value, expression in zip(values, sharing, strict=True)
        ]
    return values


def _texts_of_values(
    expressions: Sequence[Expression], source: pa.Schema, fields: Sequence[JsonFields]
) -> list[str]:
    schema = with_fields(source, fields)
    return [_text_of_values(expression, schema) for expression in expressions]


def _values_within(structures: pa.ChunkedArray, kind: pa.DataType) -> Values:
    structure = structures.combine_chunks()
    column = pa.chunked_array([structure.flatten()[0]])
    is_failed = np.asarray(structure.is_null()) if structure.null_count else None
    return Values(_cast(column, kind), is_failed)


def _values_by_halves(expression: Expression, rows: pa.Table) -> Values:
    """The values where one row fails all of the rows, which are halved until it is alone."""
    if rows.num_rows == 1:
        column = pa.chunked_array([pa.nulls(1, _type_of(expression, rows.schema))])
        return Values(column, np.ones(1, np.bool_))
    middle = rows.num_rows // 2
    halves = [values_of(expression, half) for half in (rows.slice(0, middle), rows.slice(middle))]
    failures = [
        np.zeros(len(half.column), np.bool_) if half.is_failed is None else half.is_failed for half in halves
    ]
    column = pa.chunked_array([chunk for half in halves for chunk in half.column.chunks])
    return Values(column, np.concatenate(failures))


@lru_cache(maxsize=1024)
def _type_of(expression: Expression, source: pa.Schema) -> pa.DataType:
    kind = _type_as_computed(expression, source)
    return TIME if pa.types.is_timestamp(kind) else kind


def is_time_without_zone(expression: Expression, source: pa.Schema) -> bool:
    """Whether the values, whose type is known to suit, are times without a zone."""
    kind = _type_as_computed(expression, source)
    return bool(pa.types.is_timestamp(kind)) and kind.tz is None


@lru_cache(maxsize=1024)
def _type_as_computed(expression: Expression, source: pa.Schema) -> pa.DataType:
    text = _text_of_values(expression, source)
    rows = _as_duckdb_takes_it([expression], source.empty_table())
    return _compute(expression, [text], rows).column(0).type


@lru_cache(maxsize=1024)
def _text_of_values(expression: Expression, source: pa.Schema) -> str:
    """The text that DuckDB gets for an expression, with a cast to a type that tables can hold."""
    text, connection = _text_as_computed(expression, source), _connection(expression)
    connection.register("rows", _as_duckdb_takes_it([expression], source.empty_table()))
    try:
        [(_, kind, *_)] = connection.sql(f"DESCRIBE {query_of(text)}").fetchall()
    finally:
        connection.unregister("rows")
    target = _STORED_AS.get(kind)
    return text if target is None else f"CAST((\n{text}\n) AS {target})"


@lru_cache(maxsize=1024)
def _check_literals(expression: Expression, source: pa.Schema) -> None:
    """Refuse, with DuckDB's error, a literal that has no value of the type that it is compared with, as in
    ``day > 'soon'``: on a row of nulls nothing but a literal can fail to be converted.
    """
    import duckdb

    try:
        text = _text_as_computed(expression, source)
        _compute(expression, [text], _row_of_nulls(expression, source))
    except duckdb.ConversionException:
        raise
    except duckdb.Error:
        return


def _row_of_nulls(expression: Expression, source: pa.Schema) -> pa.Table:
    columns = {name: pa.nulls(1, source.field(name).type) for name in expression.columns}
    return _as_duckdb_takes_it([expression], pa.table(columns or {_PLACEHOLDER: pa.nulls(1)}))


def _text_as_computed(expression: Expression, source: pa.Schema) -> str:
    return "".join(query_piece for _, query_piece in _pieces(expression, source))


def _pieces(expression: Expression, source: pa.Schema) -> Iterator[tuple[str, str]]:
    """(each piece of the expression's text as written, as DuckDB gets it); bytes are decoded where read."""
    end = 0
    for use in expression.uses:
        kind, end_of_name = type_read(use, source)
        name = expression.text[use.start : end_of_name]
        text = name if use.reader in READERS_OF_BYTES else text_of_bytes(name, kind)
        if text != name:
            yield (expression.text[end : use.start],) * 2
            yield name, f"TRY({text})" if use.reader == "TRY_CAST" else text
            end = end_of_name
    yield (expression.text[end:],) * 2


def _place_as_written(expression: Expression, source: pa.Schema, place: int) -> int:
    start = 0
    for piece, query_piece in _pieces(expression, source):
        if place < len(query_piece):
            return start + (place if piece == query_piece else 0)
        place, start = place - len(query_piece), start + len(piece)
    return start


def _compute(
    expression: Expression, texts: Sequence[str], rows: pa.Table, more_columns: Mapping[str, str] = EMPTY
) -> pa.Table:
    """The values of each text on `rows`, which have `more_columns`, each computed by its text, besides. All
    are of declarations like that of `expression`.
    """
    connection = _connection(expression)
    connection.register("rows", rows)
    try:
        return connection.sql(query_of(*texts, more_columns=more_columns)).to_arrow_table()
    finally:
        connection.unregister("rows")


def _as_duckdb_takes_it(expressions: Sequence[Expression], rows: pa.Table) -> pa.Table:
    """The columns that the expressions read; times as moments of UTC, to the microsecond."""
    names = list(dict.fromkeys(name for expression in expressions for name in expression.columns))
    if not names:
        return pa.table({_PLACEHOLDER: pa.nulls(rows.num_rows, pa.int8())})
    return pa.table([with_moments(rows.column(name)) for name in names], names=names)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column as `kind`: the same but for times, which lose what is finer than a microsecond."""
    return column if column.type == kind else column.cast(kind, safe=not pa.types.is_timestamp(kind))


_connections = threading.local()


def _connection(expression: Expression) -> "duckdb.DuckDBPyConnection":
    if getattr(_connections, "process", None) != os.getpid():
        _connections.process, _connections.by_kind = os.getpid(), {}
    makes_fractions = expression.makes_fractions
    connection = _connections.by_kind.get(makes_fractions)
    if connection is None:
        connection = _connections.by_kind[makes_fractions] = connect(makes_fractions=makes_fractions)
    return connection


def _duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _misfit(expression: Expression, source: pa.Schema) -> tuple[int, str]:
    """(the place in the text at which DuckDB refuses an expression on such rows, its reason with what suits
    instead). It tells both only to statements that are executed at once.
    """
    connection, text = _connection(expression), _text_as_computed(expression, source)
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
        if "VARCHAR" in kinds or "JSON" in kinds:
            takes_times = any("TIMESTAMP" in form or "DATE" in form for form in forms)
            if takes_times or "to_timestamp(" in message:
                reason += "; a text that is a time is cast, CAST(… AS TIMESTAMP)"
            if any(kind in form for form in forms for kind in ("BIGINT", "INTEGER", "DOUBLE")):
                reason += "; a text that is a number is cast first, CAST(… AS BIGINT)"
    position = re.match(r"\[(\d+)", details.get("location", "[0"))
    assert position is not None
    place = _place_as_written(expression, source, place_in_text(text, int(position[1])))
    return place, reason


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
