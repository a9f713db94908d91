"""The fields of JSON that several expressions read, taken out of each text at once.

    value ->> '$.id'                    __fields_0[1]
    CAST(value ->> '$.at' AS BIGINT)    CAST(__fields_0[2] AS BIGINT)
    FROM rows                           FROM (SELECT *, json_extract_string(value, ['$.id', '$.at']) AS …)

DuckDB reads the whole text for each arrow, so two fields take twice as long as one; and most rows of JSON are
read for several. An expression that need not read what it names, as CASE does, is left as it is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from slackwater.engine.nested_columns import is_bytes, quoted, text_of_bytes
from slackwater.pipelines.expressions import ColumnUse, Expression

_ARROW, _TEXTS = "->>", pa.list_(pa.string())
_PATH = re.compile(r"\s*->>\s*'(\$[^'*?]*)'(?!\s*->)")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
# What may skip an operand, so that its failure is none.
_SKIPPING = re.compile(r"\b(case|coalesce|if|ifnull|try|lambda|list_\w+|array_\w+)\b|->(?!>)", re.IGNORECASE)


@dataclass(frozen=True)
class JsonFields:
    """The fields at `paths` of each text in `column`, whose SQL is `operand`, as a column `name` of lists."""

    name: str
    column: str
    operand: str
    paths: tuple[str, ...]

    @property
    def text(self) -> str:
        return self._extraction_from(self.operand)

    @property
    def text_or_null(self) -> str:
        """SQL that is null for a text that is no JSON. TRY would take row by row where one fails."""
        operand = self.operand if self.operand == quoted(self.column) else f"TRY({self.operand})"
        return f"CASE WHEN json_valid({operand}) THEN {self._extraction_from(operand)} END"

    def _extraction_from(self, operand: str) -> str:
        paths = ", ".join(f"'{path}'" for path in self.paths)
        return f"json_extract_string({operand}, [{paths}])"


@lru_cache(maxsize=1024)
def share_json_fields(
    expressions: tuple[Expression, ...], source: pa.Schema, least: int = 2
) -> tuple[tuple[Expression, ...], tuple[JsonFields, ...]]:
    """(the expressions, reading shared fields instead of their JSON; these fields). Columns of which less
    than `least` paths are read share none.
    """
    paths: dict[str, dict[str, None]] = {}
    for expression in expressions:
        for use, path, _ in _fields_read(expression, source):
            paths.setdefault(use.column, {})[path] = None
    all_fields = {
        column: JsonFields(
            name=f"__fields_{number}",
            column=column,
            operand=text_of_bytes(quoted(column), source.field(column).type),
            paths=tuple(paths_of_column),
        )
        for number, (column, paths_of_column) in enumerate(paths.items())
        if len(paths_of_column) >= least
    }
    if not all_fields:
        return expressions, ()
    sharing = tuple(_with_fields(expression, source, all_fields) for expression in expressions)
    return sharing, tuple(all_fields.values())


def with_fields(source: pa.Schema, fields: Sequence[JsonFields]) -> pa.Schema:
    """The columns that sharing expressions read."""
    return pa.schema([*source, *((one.name, _TEXTS) for one in fields)])


def _fields_read(expression: Expression, source: pa.Schema) -> Iterator[tuple[ColumnUse, str, int]]:
    """(each use of a column by an arrow with a path, the path, where it ends in the text)."""
    if _SKIPPING.search(_LITERAL.sub("''", expression.text)):
        return
    for use in expression.uses:
        kind = source.field(use.column).type
        path = _PATH.match(expression.text, use.end) if use.reader == _ARROW and not use.fields else None
        if path is not None and (pa.types.is_string(kind) or is_bytes(kind)):
            yield use, path[1], path.end()


def _with_fields(expression: Expression, source: pa.Schema, all_fields: dict[str, JsonFields]) -> Expression:
    text, uses, end = "", list[ColumnUse](), 0
    ends = {use.start: (path, path_end) for use, path, path_end in _fields_read(expression, source)}
    for use in expression.uses:
        text += expression.text[end : use.start]
        path, end = ends.get(use.start, ("", use.end))
        start = len(text)
        if path and use.column in all_fields:
            fields = all_fields[use.column]
            text += f"{fields.name}[{fields.paths.index(path) + 1}]"
            uses.append(ColumnUse(fields.name, start, start + len(fields.name), "ARRAY_EXTRACT"))
        else:
            text, end = text + expression.text[use.start : use.end], use.end
            subscripts = tuple((key, place + start - use.start) for key, place in use.subscripts)
            uses.append(use._replace(start=start, end=len(text), subscripts=subscripts))
    return Expression(text + expression.text[end:], tuple(uses))
