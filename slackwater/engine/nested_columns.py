"""What an expression reads at the end of ``payload.user.id``: its type, and its bytes as text. Names of
fields are compared as DuckDB compares them, regardless of the case of ASCII letters.
"""

import re

import pyarrow as pa

from slackwater.pipelines.expression_grammar import NULL_CHECKS, ascii_lower
from slackwater.pipelines.expressions import ColumnUse
from slackwater.tables.schemas import TIME

_BYTES = (
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view),
)
_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)


def is_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return is_bytes(kind.value_type)
    return any(is_kind(kind) for is_kind in _BYTES)


def _is_list(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _LISTS)


def type_read(use: ColumnUse, source: pa.Schema) -> tuple[pa.DataType, int]:
    """(the type of what `use` reads, against which there is no reason; the end of its name in the text). A
    subscript that takes a part out of a value belongs to the name: the value's other parts are not read.
    """
    kind, end = source.field(use.column).type, use.end
    for name in use.fields:
        kind = _types_of(kind, name)[0]
    for key, end_of_key in use.subscripts:
        types = _types_of(kind, key)
        if len(types) != 1:
            break
        kind, end = types[0], end_of_key
    return kind, end


def _types_of(kind: pa.DataType, name: str | int) -> list[pa.DataType]:
    """The types of the parts of this name or number: one, or several fields that differ in case only. A map
    has each name, a list each number.
    """
    if pa.types.is_map(kind):
        return [kind.item_type]
    if isinstance(name, int):
        return [kind.value_type] if _is_list(kind) else []
    if not pa.types.is_struct(kind):
        return []
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return [field.type for field in fields if ascii_lower(field.name) == ascii_lower(name)]


def reason_against(use: ColumnUse, text: str, source: pa.Schema) -> str | None:
    """Why rows of the schema `source` have nothing that `use` can read, and what is written instead."""
    if use.column not in source.names:
        return _missing_column(use, text, source)
    if sum(ascii_lower(name) == ascii_lower(use.column) for name in source.names) > 1:
        return _same_but_for_case("the source has columns", use.column, source.names)
    kind, path = source.field(use.column).type, use.column
    for name in use.fields:
        types = _types_of(kind, name)
        if not types:
            return _missing_field(path, kind, name, ".".join([use.column, *use.fields]), source)
        if len(types) > 1:
            names = [kind.field(number).name for number in range(kind.num_fields)]
            return _same_but_for_case(f"{path} has fields", name, names)
        kind, path = types[0], f"{path}.{name}"
    return None if use.reader in NULL_CHECKS else _ambiguity_within(path, kind)


def _ambiguity_within(path: str, kind: pa.DataType) -> str | None:
    children = [kind.field(number) for number in range(kind.num_fields)]
    names = [child.name for child in children]
    for child in children:
        if [ascii_lower(name) for name in names].count(ascii_lower(child.name)) > 1:
            return _same_but_for_case(f"{path} has fields", child.name, names)
        reason = _ambiguity_within(f"{path}.{child.name}", child.type)
        if reason is not None:
            return reason
    return None


def _same_but_for_case(subject: str, name: str, names: list[str]) -> str:
    twins = [repr(other) for other in names if ascii_lower(other) == ascii_lower(name)]
    return f"{subject} {' and '.join(twins)}, which SQL can't tell apart; rename one of them in the source"


def _missing_column(use: ColumnUse, text: str, source: pa.Schema) -> str:
    quoted = [name for name in source.names if re.search(r"\W", name) and text.startswith(name, use.start)]
    if quoted:
        name = max(quoted, key=len)
        return f'the source has no column {use.column!r}; the column {name} is written "{name}"'
    in_other_case = [name for name in source.names if ascii_lower(name) == ascii_lower(use.column)]
    if in_other_case:
        return f"the source has no column {use.column!r}; it is written {in_other_case[0]}"
    struct, _, field = use.column.partition(".")
    if field and struct in source.names and pa.types.is_nested(source.field(struct).type):
        return (
            f"the source has no column {use.column!r}; a field of {struct} is written {use.column}, without "
            "quotes"
        )
    return f"the source has no column {use.column!r}; it has {', '.join(sorted(source.names))}"


def _missing_field(path: str, kind: pa.DataType, name: str, column: str, source: pa.Schema) -> str:
    if column in source.names:
        return f'{path} has no field {name}; the column {column} is written "{column}"'
    if pa.types.is_struct(kind):
        names = [kind.field(number).name for number in range(kind.num_fields)]
        return f"{path} has no field {name}; it has {', '.join(names)}"
    if _is_list(kind):
        return f"{path} is a list; a field of its first item is written {path}[1].{name}"
    if pa.types.is_string(kind) or is_bytes(kind):
        return f"{path} is text, which has no fields; a member of JSON is written {path} ->> '{name}'"
    return f'{path} is {kind}, which has no fields; a column of the name {column} is written "{column}"'


def text_of_bytes(text: str, kind: pa.DataType, depth: int = 0) -> str:
    """The SQL of the value of `text`, of the type `kind`, with texts in place of the bytes of their UTF-8."""
    if is_bytes(kind):
        return f"decode({text})"
    if not _holds_bytes(kind):
        return text
    item = f"__item{depth}"
    if pa.types.is_struct(kind):
        fields = [
            f"{quoted(field.name)} := {text_of_bytes(f'({text}).{quoted(field.name)}', field.type, depth)}"
            for field in (kind.field(number) for number in range(kind.num_fields))
        ]
        return f"(CASE WHEN {text} IS NOT NULL THEN struct_pack({', '.join(fields)}) END)"
    if pa.types.is_map(kind):
        key = text_of_bytes(f"({item}).key", kind.key_type, depth + 1)
        value = text_of_bytes(f"({item}).value", kind.item_type, depth + 1)
        entry = f"struct_pack(key := {key}, value := {value})"
        return f"map_from_entries(list_transform(map_entries({text}), lambda {item}: {entry}))"
    return f"list_transform({text}, lambda {item}: {text_of_bytes(item, kind.value_type, depth + 1)})"


def with_moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with moments of UTC, to the microsecond, for all times within."""
    kind = _type_with_moments(column.type)
    if kind == column.type:
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(kind)
    return column.cast(kind, safe=False)


def _type_with_moments(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return TIME
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([field.with_type(_type_with_moments(field.type)) for field in fields])
    if pa.types.is_map(kind):
        return pa.map_(_type_with_moments(kind.key_type), _type_with_moments(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_with_moments(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_type_with_moments(kind.value_type)))
    return kind


def _holds_bytes(kind: pa.DataType) -> bool:
    children = [kind.field(number).type for number in range(kind.num_fields)]
    return any(is_bytes(child) or _holds_bytes(child) for child in children)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
