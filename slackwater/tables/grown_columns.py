"""The columns of tables whose pipeline has got other results since the first run.

    stored      k  window_start  window_end  n  kind …          n was selected
    declared    k  window_start  window_end  most  kind …       most is, today
    grown       k  window_start  window_end  n  kind …  most    n is null in new rows, most in older ones

Schemas in, schemas out. Keys, and the columns that every pipeline has, never change within a lineage.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from slackwater.stored_columns import (
    CORRECTIONS,
    PANES,
    PUBLISHED,
    SIDE_OUTPUT,
    SNAPSHOT_NAMES,
    columns_of,
)
from slackwater.tables.errors import ShapeChanged, new_lineage
from slackwater.tables.schemas import SIDE, Columns


def _names_of_all(table: str) -> frozenset[str]:
    return frozenset(name for name, kind in columns_of(table) if kind)


# Tables with columns for results → the columns that every pipeline has there.
_FIXED_NAMES: Mapping[str, frozenset[str]] = {
    "window_state": SNAPSHOT_NAMES,
    "panes": _names_of_all(PANES),
    "published": _names_of_all(PUBLISHED),
    "corrections": _names_of_all(CORRECTIONS),
}
_IMAGES = ("old", "new")  # structs of all results


def may_grow(table: str) -> bool:
    """Whether a table has columns for results, or a side output's."""
    return table in _FIXED_NAMES or table.startswith(SIDE)


def key_columns(table: str, schema: pa.Schema) -> list[pa.Field]:
    """The columns of the key: those before `window_start` that not every pipeline has."""
    names = schema.names[: schema.names.index("window_start")]
    return [schema.field(name) for name in names if name not in _fixed_names(table)]


def grown_schema(table: str, stored_schema: pa.Schema, declared_schema: pa.Schema) -> pa.Schema | None:
    """The stored columns of a table, then the declared ones that it lacks; None where they differ in a key,
    or in the type of a common column.
    """
    if not may_grow(table) or "window_start" not in stored_schema.names:
        return None
    if key_columns(table, stored_schema) != key_columns(table, declared_schema):
        return None
    grown = {field.name: field for field in stored_schema}
    for field in declared_schema:
        if field.name in grown:
            column = _merge_fields(grown[field.name], field)
        else:
            is_like_another = field.name.lower() in map(str.lower, grown)
            column = None if is_like_another or field.name in _fixed_names(table) else field
        if column is None:
            return None
        grown[field.name] = column
    return pa.schema(list(grown.values()))


def _merge_fields(stored_field: pa.Field, declared_field: pa.Field) -> pa.Field | None:
    """A common column: equal or, if it is a struct of results, with the fields of both."""
    if stored_field.type.equals(declared_field.type):
        return stored_field
    if stored_field.name not in _IMAGES or not pa.types.is_struct(stored_field.type):
        return None
    before, now = pa.schema(stored_field.type.fields), pa.schema(declared_field.type.fields)
    if any(name in before.names and before.field(name).type != now.field(name).type for name in now.names):
        return None
    added_fields = [field for field in now if field.name not in before.names]
    return pa.field(stored_field.name, pa.struct([*before, *added_fields]))


def results_of(corrections: pa.Schema) -> Columns:
    """The results in rows of `corrections` and `published`: today's, and removed ones."""
    return tuple((field.name, field.type) for field in corrections.field("new").type)


def _fixed_names(table: str) -> frozenset[str]:
    return _FIXED_NAMES.get(table, _names_of_all(SIDE_OUTPUT))


def shape_changed(uri: str, table: str, stored_schema: pa.Schema, declared_schema: pa.Schema) -> ShapeChanged:
    stored_types = {field.name: str(field.type) for field in stored_schema}
    declared_types = {field.name: str(field.type) for field in declared_schema}
    differing = sorted(
        name
        for name in stored_types.keys() | declared_types.keys()
        if stored_types.get(name) != declared_types.get(name)
    )
    differences = ", ".join(
        f"{name} (stored {stored_types.get(name, 'not')}, declared {declared_types.get(name, 'not')})"
        for name in differing
    )
    return ShapeChanged(
        f"{uri}: its columns are not those that the pipeline declares now: "
        f"{differences or 'their order differs'}. "
        f"{_way_back(table, declared_schema, differing, stored_types)}, or "
        f"{new_lineage(_pipeline_of(uri))}.",
        table=table,
        differing=differing,
    )


def _way_back(
    table: str, declared_schema: pa.Schema, differing: list[str], stored_types: Mapping[str, str]
) -> str:
    """How to make the stored columns and the declared ones agree again, as a clause."""
    retyped_names = [name for name in differing if name in stored_types and name in declared_schema.names]
    if may_grow(table) and retyped_names == differing:
        retyped_keys = [
            field.name for field in key_columns(table, declared_schema) if field.name in retyped_names
        ]
        if retyped_keys:
            return f"A key keeps its type: write {', '.join(retyped_keys)} into the source as it was"
        if "contents" not in retyped_names:
            return "A result keeps its type: undo the change, or give the result another name"
    return "Undo the change"


def source_retyped(
    uri: str, before: Mapping[str, pa.DataType], retyped_fields: Sequence[pa.Field]
) -> ShapeChanged:
    differences = ", ".join(
        f"{field.name} (it was {before[field.name]}, and is {field.type})" for field in retyped_fields
    )
    cast = _cast_to_earlier_type(retyped_fields[0].name, before)
    return ShapeChanged(
        f"{uri}: the source's columns have other types than when the pipeline first ran: {differences}. "
        "Where the pipeline reads them, give the results that come of them other names; these may read the "
        f"earlier type by a derived column, e.g. derive={{'as_before': '{cast}'}}. A key keeps its type: "
        "write it into the source as it was. Where the pipeline does not read them, undo what was changed "
        "in its declaration. "
        f"Or {new_lineage(_pipeline_of(uri))}.",
        table="late_events",
        differing=[field.name for field in retyped_fields],
    )


def _pipeline_of(uri: str) -> str:
    return uri.rsplit("/", 2)[-2]


_SQL_TYPES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}


def _cast_to_earlier_type(name: str, types: Mapping[str, pa.DataType]) -> str:
    """The expression that reads the column `name` with its type in `types`."""
    kind = types[name]
    return f'CAST("{name}" AS {_SQL_TYPES.get(kind, str(kind).replace("decimal128", "DECIMAL"))})'
