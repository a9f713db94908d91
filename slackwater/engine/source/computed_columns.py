"""The columns of a source that are computed from stored ones, whenever its rows are read:

    stored       value {"at": 1736…, "items": [{"sku": "a"}, {"sku": "b"}]}        seen 09:30, without a zone
    zone         seen 08:30 UTC
    explode      item {"sku": "a"}, item_number 1;  item {"sku": "b"}, item_number 2           two rows of one
    derive       at 2025-01-04 …, sku "a" and "b"

A computed column has its expression in the metadata of its field, as Delta keeps that of a generated column:
a reader that has the schema gets the values. Knows nothing of pipelines, runs or which rows count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.expressions import is_time_without_zone, type_of, values_of, values_of_all
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression, parse_expression, refuse
from slackwater.pipelines.sources import ITEM, ITEM_NUMBER, Source
from slackwater.tables.schemas import TIME

Booleans = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
_ZONE, _ITEMS, _DERIVATION = b"slackwater.zone", b"slackwater.explode", b"slackwater.derive"
_ZONE_BY_FILE = b"slackwater.zone_by_file"  # each file says whether its times have a zone
_LOCAL_TIME = pa.timestamp("us")


@dataclass(frozen=True)
class ExpressionFailure:
    """The rows on which an expression fails, as a mask; `declaration` is e.g. ``derive['day_part']``, and
    `column` the column that it computes, None for a condition.
    """

    declaration: str
    column: str | None
    rows: Booleans

    @property
    def reason(self) -> str:
        return (
            f"{self.declaration} fails on this row: a value that can't be cast or computed, broken "
            "JSON, bytes that are not UTF-8, a number out of range, or a division by zero"
        )


@dataclass(frozen=True)
class ComputedRows:
    """Rows of a source as pipelines see them.

    Attributes:
        failures: of expressions that the rows' columns depend on; their values are null there.
        item_numbers: for each row of a source that is exploded, the number of the item in its list, from 1; 0
            for a row whose list is empty or null. None where nothing is exploded.
        stored_rows: the stored columns that were read for them; None where these are `rows`.
    """

    rows: pa.Table
    failures: tuple[ExpressionFailure, ...] = ()
    item_numbers: Int64s | None = None
    stored_rows: pa.Table | None = None


def schema_with_computed_columns(
    source: Source, stored: pa.Schema, *, files_say_zone: bool = False
) -> pa.Schema:
    """The stored columns, and the computed ones that `source` declares. `files_say_zone`: whether times of
    `stored` have a zone in some files and none in others.

    Raises:
        PipelineError: an expression does not suit the stored columns, or a column of its name is there.
    """
    if not (source.derive or source.zone or source.explode):
        return stored
    schema = stored
    if source.zone is not None:
        schema = pa.schema([_in_zone(column, source.zone, by_file=files_say_zone) for column in stored])
    return _schema(source.subject, source.derivations, source.zone, source.explosion, schema)


@lru_cache(maxsize=256)
def _schema(
    subject: str,
    derivations: tuple[tuple[str, Expression], ...],
    zone: str | None,
    explosion: Expression | None,
    stored: pa.Schema,
) -> pa.Schema:
    schema = stored
    if explosion is not None:
        for name in (ITEM, ITEM_NUMBER):
            if is_taken(name, schema):
                raise PipelineError(
                    subject,
                    f"explode: the source has a column {name!r}, a name that explode gives to a column of "
                    "its own; rename that of the source",
                )
        kind = type_of(subject, "explode", explosion, schema, may_be_nested=True)
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise PipelineError(
                subject,
                f"explode is {explosion.text!r}, whose values are {kind}; it must be a list. "
                f"{_way_to_list(explosion, kind)}",
            )
        schema = schema.append(pa.field(ITEM, kind.value_type, metadata={_ITEMS: explosion.text}))
        schema = schema.append(pa.field(ITEM_NUMBER, pa.int64(), metadata={_ITEMS: explosion.text}))
    for name, expression in derivations:
        declaration = f"derive[{name!r}]"
        if is_taken(name, schema):
            refuse_taken_name(subject, name, expression, schema)
        kind, text = type_of(subject, declaration, expression, schema), expression.text
        if zone is not None and _is_local_time(subject, declaration, expression, schema, zone=zone):
            text = f"timezone('{zone}', (\n{text}\n))"
        schema = schema.append(pa.field(name, kind, metadata={_DERIVATION: text}))
    return schema


def _is_local_time(
    subject: str, declaration: str, expression: Expression, schema: pa.Schema, *, zone: str
) -> bool:
    """Whether the values are times of the source's zone. Raises PipelineError: they may also be of UTC."""
    if expression.is_epoch_time or not is_time_without_zone(expression, schema):
        return False
    if expression.epoch_place is not None:
        refuse(
            subject,
            declaration,
            expression.text,
            expression.epoch_place,
            "a number that counts since 1970 gives a time of UTC, and the source has a zone: write it as "
            f"(epoch_ms(n) AT TIME ZONE 'UTC'), and a time of the zone as (t AT TIME ZONE '{zone}')",
        )
    return True


def _way_to_list(expression: Expression, kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"Its entries are one: explode={f'map_entries({expression.text})'!r}"
    if pa.types.is_struct(kind):
        lists = [f"{expression.text}.{field.name}" for field in kind if pa.types.is_list(field.type)]
        return f"Name a field that is one: explode={lists[0]!r}" if lists else "None of its fields is one."
    return f"An array within JSON text becomes one by explode={f'CAST({expression.text} AS JSON[])'!r}"


def is_taken(name: str, schema: pa.Schema) -> bool:
    return name.lower() in (other.lower() for other in schema.names)


def refuse_taken_name(
    subject: str, name: str, expression: Expression, schema: pa.Schema, *, is_key: bool = False
) -> NoReturn:
    """Raise PipelineError for a derived column whose name the source has, with the line that gives it another
    one.
    """
    names = (f"{name}_derived{number}" for number in ("", *range(2, len(schema) + 3)))
    free_name = next(other for other in names if not is_taken(other, schema))
    raise PipelineError(
        subject,
        f"derive[{name!r}]: the source has a column {name!r}. Give the derived one another name, also where "
        f"it is read: {'key_by' if is_key else 'derive'}={{{free_name!r}: {expression.text!r}}}",
    )


def _in_zone(column: pa.Field, zone: str, *, by_file: bool) -> pa.Field:
    """A column whose times are of a zone, read as moments; any other column as it is."""
    if not pa.types.is_timestamp(column.type) or (column.type.tz is not None and not by_file):
        return column
    name = column.name.replace('"', '""')
    text = f"TRY(timezone('{zone}', timezone('UTC', \"{name}\")))"  # stored times are read as if of UTC
    metadata = {**(column.metadata or {}), _ZONE: text, **({_ZONE_BY_FILE: ""} if by_file else {})}
    return pa.field(column.name, TIME, metadata=metadata)


def type_as_stored(column: pa.Field, is_local_in_file: bool) -> pa.DataType:
    """The type that the values of a stored column are read as: without a zone if the source's is theirs."""
    metadata = column.metadata or {}
    is_local = _ZONE in metadata and (is_local_in_file or _ZONE_BY_FILE not in metadata)
    return _LOCAL_TIME if is_local else column.type


def is_computed(column: pa.Field) -> bool:
    return not {_ZONE, _ITEMS, _DERIVATION}.isdisjoint(column.metadata or {})


def explodes(schema: pa.Schema) -> bool:
    return ITEM in schema.names and _ITEMS in (schema.field(ITEM).metadata or {})


def stored_names(schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """The stored columns from which `columns` of the schema come, each once, in the order of the schema."""
    dependencies = set(_dependencies(schema, columns))
    return [
        column.name
        for column in schema
        if column.name in dependencies and (not is_computed(column) or _ZONE in column.metadata)
    ]


def description(schema: pa.Schema, name: str) -> str:
    """A name for the values of a column: with another expression under the same name, of its own or of a
    column that it reads, it has another one.
    """
    dependencies = _dependencies(schema, [name])
    columns = [schema.field(name), *(one for one in schema if one.name in dependencies and one.name != name)]
    texts = [
        " = ".join([column.name, text])
        for column in columns
        if (text := _text(column, _DERIVATION) or _text(column, _ZONE) or _text(column, _ITEMS)) is not None
    ]
    return "; ".join(texts) or name


def compute(schema: pa.Schema, columns: Sequence[str], stored_rows: pa.Table) -> ComputedRows:
    """`columns` of rows that hold at least the stored columns from which these come."""
    if not any(map(is_computed, schema)):
        return ComputedRows(stored_rows.select(columns))
    dependencies = _dependencies(schema, columns)
    rows = stored_rows
    for name in rows.column_names:
        text = _text(schema.field(name), _ZONE)
        if text is not None and rows.schema.field(name).type == _LOCAL_TIME:
            values = values_of(_expression_of(name, text), rows)
            rows = rows.set_column(rows.column_names.index(name), name, values.column)
    failures: list[ExpressionFailure] = []
    item_numbers = None
    if explodes(schema):
        rows, item_numbers, failures = _explode(schema, dependencies, rows)
    texts = [(column.name, _text(column, _DERIVATION)) for column in schema if column.name in dependencies]
    derivations = [(name, _expression_of(name, text)) for name, text in texts if text is not None]
    kinds = {column.name: column.type for column in schema}  # of several sources the wider types
    rows, failures = append_derivations(derivations, rows, failures, kinds)
    return ComputedRows(rows.select(columns), tuple(failures), item_numbers, stored_rows)


def append_derivations(
    derivations: Sequence[tuple[str, Expression]],
    rows: pa.Table,
    failures: Iterable[ExpressionFailure],
    kinds: Mapping[str, pa.DataType],
) -> tuple[pa.Table, list[ExpressionFailure]]:
    """(the rows with a column of its type in `kinds` for each derivation, `failures` and those of the
    derivations). A derivation comes after those that it reads, and fails where one of its columns does.
    """
    by_column = {failure.column: failure for failure in failures}
    for independent in _independent_derivations(derivations):
        columns = values_of_all([expression for _, expression in independent], rows)
        for (column, expression), (values, is_failed) in zip(independent, columns, strict=True):
            for name in expression.columns:
                if name in by_column:
                    failed_rows = by_column[name].rows
                    is_failed = failed_rows if is_failed is None else is_failed | failed_rows
            rows = rows.append_column(column, values.cast(kinds.get(column, values.type)))
            if is_failed is not None:
                by_column[column] = ExpressionFailure(f"derive[{column!r}]", column, is_failed)
    return rows, list(by_column.values())


def _independent_derivations(
    derivations: Sequence[tuple[str, Expression]],
) -> Iterator[Sequence[tuple[str, Expression]]]:
    """The derivations in their order, in sections of which none reads a column of its own section."""
    start = 0
    for number, (_, expression) in enumerate(derivations):
        if not {column for column, _ in derivations[start:number]}.isdisjoint(expression.columns):
            yield derivations[start:number]
            start = number
    if derivations:
        yield derivations[start:]


def _dependencies(schema: pa.Schema, columns: Iterable[str]) -> dict[str, None]:
    """`columns`, and all columns on which they depend; what is exploded counts for each of them."""
    dependencies = dict.fromkeys(columns)
    for column in reversed(list(schema)):
        text = _text(column, _DERIVATION)
        if text is not None and column.name in dependencies:
            dependencies.update(dict.fromkeys(_expression_of(column.name, text).columns))
    if explodes(schema):
        dependencies.update(dict.fromkeys(_expression_of(ITEM, _list_text(schema)).columns))
    return dependencies


def _explode(
    schema: pa.Schema, dependencies: Mapping[str, None], rows: pa.Table
) -> tuple[pa.Table, Int64s, list[ExpressionFailure]]:
    """(a row for each item, and one for each list without items; the items' numbers; the failure)."""
    values, is_failed = values_of(_expression_of(ITEM, _list_text(schema)), rows)
    lists = values.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    counts = np.maximum(lengths, 1)
    parents = np.repeat(np.arange(len(lengths)), counts)
    numbers = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    numbers[lengths[parents] == 0] = 0
    places = np.cumsum(numbers > 0) - 1
    items = pc.list_flatten(lists).take(pa.array(np.where(numbers > 0, places, 0), mask=numbers == 0))
    rows = rows.select([name for name in rows.column_names if name in dependencies]).take(pa.array(parents))
    rows = rows.append_column(ITEM, items)
    rows = rows.append_column(ITEM_NUMBER, pa.array(numbers, mask=numbers == 0))
    if is_failed is None:
        return rows, numbers, []
    return rows, numbers, [ExpressionFailure("explode", ITEM, is_failed[parents])]


def _list_text(schema: pa.Schema) -> str:
    text = _text(schema.field(ITEM), _ITEMS)
    assert text is not None, "the schema explodes nothing"
    return text


def _text(column: pa.Field, key: bytes) -> str | None:
    text = (column.metadata or {}).get(key)
    return None if text is None else text.decode()


@lru_cache(maxsize=1024)
def _expression_of(name: str, text: str) -> Expression:
    return parse_expression("source", name, text)
