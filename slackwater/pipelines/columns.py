"""Columns that a pipeline declares as SQL text, such as ``origin string, n long``: their names and types.

Text only, with the standard library: `slackwater.windowing.snapshot.sql_types` maps names of types to Arrow.
"""

import re
from typing import NamedTuple

from slackwater.pipelines.errors import PipelineError

SCALARS = (
    *("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("string", "boolean", "binary", "date", "timestamp"),
)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_COLUMN = re.compile(r"\s*(?P<name>[^\s:,]+)\s*[\s:]\s*(?P<type>\S.*?)\s*", re.DOTALL)


class TypedColumn(NamedTuple):
    """A column's name, and its SQL type in lower case."""

    name: str
    type: str


def parse_columns(subject: str, what: str, text: object) -> tuple[TypedColumn, ...]:
    """The columns of ``name type, name type, …``; `what` is the declaration that errors name. Raises
    PipelineError: the text is no such list, or a type is not supported.
    """
    if not isinstance(text, str) or not text.strip():
        raise PipelineError(
            subject, f"{what} is {text!r}; give names and types as text, e.g. 'origin string, n long'"
        )
    return tuple(_column(subject, what, part) for part in _split(text))


def _column(subject: str, what: str, part: str) -> TypedColumn:
    match = _COLUMN.fullmatch(part)
    if match is None:
        raise PipelineError(
            subject,
            f"{what} has {part.strip()!r}, which is no column; write its name and its type, e.g. 'n long'",
        )
    name, kind = match["name"], re.sub(r"\s+", "", match["type"]).lower()
    if not _is_type(kind):
        raise PipelineError(
            subject,
            f"{what}: column {name!r} has the type {match['type']!r}; there are {', '.join(SCALARS)}, "
            "decimal(p,s) and array<…>",
        )
    return TypedColumn(name, kind)


def is_type(text: object) -> bool:
    """Whether `text` is a SQL type of a column."""
    return isinstance(text, str) and _is_type(re.sub(r"\s+", "", text).lower())


def _is_type(kind: str) -> bool:
    if kind.startswith("array<") and kind.endswith(">"):
        return _is_type(kind[6:-1])
    decimal = _DECIMAL.fullmatch(kind)
    return (
        kind in SCALARS
        if decimal is None
        else 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1])
    )


def _split(text: str) -> list[str]:
    """The parts of `text` between its commas outside of parentheses and angle brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "(<") - (char in ")>")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts
