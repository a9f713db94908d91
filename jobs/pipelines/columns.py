"""Columns that a pipeline declares as SQL text, such as ``origin string, n long``: their names and types.

Text only: which Arrow type a name stands for is `slackwater.windowing.snapshot.sql_types`' business.
Standard library.
"""

import re
from typing import NamedTuple

from slackwater.jobs.pipelines.errors import PipelineError

SCALARS = (
    *("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("string", "boolean", "binary", "date", "timestamp"),
)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_COLUMN = re.compile(r"\s*(?P<name>[^\s:,]+)\s*[\s:]\s*(?P<type>\S.*?)\s*", re.DOTALL)


class Column(NamedTuple):
    """A declared column; `type` is SQL's, in lower case."""

    name: str
    type: str


def parse_columns(subject: str, what: str, text: object) -> tuple[Column, ...]:
    """The columns of ``name type, name type, …``; `what` of `subject` they are is for errors.

    Raises:
        PipelineError: the text is no such list, or a type is none of ours.
    """
    if not isinstance(text, str) or not text.strip():
        raise PipelineError(
            subject, f"{what} is {text!r}; give names and types as text, e.g. 'origin string, n long'"
        )
    return tuple(_column(subject, what, part) for part in _split(text))


def _column(subject: str, what: str, part: str) -> Column:
    found = _COLUMN.fullmatch(part)
    if found is None:
        raise PipelineError(
            subject,
            f"{what} has {part.strip()!r}, which is no column; write its name and its type, e.g. 'n long'",
        )
    name, kind = found["name"], re.sub(r"\s+", "", found["type"]).lower()
    if not _is_type(kind):
        raise PipelineError(
            subject,
            f"{what}: column {name!r} has the type {found['type']!r}; there are {', '.join(SCALARS)}, "
            "decimal(p,s) and array<…>",
        )
    return Column(name, kind)


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
    """`text` at its commas, but not at those inside of parentheses or angle brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "(<") - (char in ")>")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts
