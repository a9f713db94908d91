"""Every table of a pipeline and every column of it: names and types from the schemas, meanings from
`column_meanings`.

A column without a meaning, and a meaning without a column, ends the build.
"""

import re

import pyarrow as pa

from generators.column_meanings import COLUMNS, EVERYWHERE, TABLES
from slackwater.tables.schemas import TEXT, Shape, partitioned_by, table_columns

# A pipeline's own columns, as the page names them; their types are the pipeline's.
_SHAPE = Shape(
    keys=(("<key>", TEXT),),
    results=(("<result>", TEXT),),
    parts=(("<result>__<part>", TEXT),),
    source=(("<source column>", TEXT),),
    states=(("<state>__value", TEXT),),
    sides=(("<tag>", (("<output column>", TEXT),)),),
    windows=(("<window column>", TEXT),),
)


def page(*, page: str) -> str:
    """A section for each table."""
    columns = table_columns(_SHAPE)
    _refuse({*TABLES} ^ {*columns}, "tables")
    stale = {table: {*notes} - {name for name, _ in columns[table]} for table, notes in COLUMNS.items()}
    _refuse({f"{table}.{name}" for table, names in stale.items() for name in names}, "columns")
    return "\n".join(line for table in TABLES for line in _table(table, columns[table]))


def _table(table: str, columns: tuple[tuple[str, pa.DataType], ...]) -> list[str]:
    """Heading, purpose and columns of one table."""
    parts = partitioned_by(table)
    tail = f" Partitioned by `{parts[0]}`." if parts else ""
    rows = [f"| {_code(name)} | {_type(name, kind)} | {_meaning(table, name)} |" for name, kind in columns]
    return [f"## `{table}`", "", TABLES[table] + tail, "", "| column | type | |", "|---|---|---|", *rows, ""]


def _meaning(table: str, column: str) -> str:
    meaning = COLUMNS.get(table, {}).get(column) or EVERYWHERE.get(column)
    assert meaning, f"docs/generators/column_meanings.py says nothing of {table}.{column}"
    return meaning


def _type(name: str, kind: pa.DataType) -> str:
    """As Delta names it; a pipeline's own columns have types of their own."""
    if name.startswith("<"):
        return "its own"
    text = str(kind)
    for arrow, delta in (
        (r"timestamp\[us, tz=UTC\]", "timestamp"),
        (r"date32\[day\]", "date"),
        ("int64", "long"),
        ("int32", "integer"),
        ("bool", "boolean"),
        (r"list<(?:item|element): ", "array<"),
    ):
        text = re.sub(arrow, delta, text)
    return _code("struct of results" if "<result>" in text else text)


def _code(text: str) -> str:
    return f"`{text}`"


def _refuse(names: set[str], what: str) -> None:
    assert not names, f"docs/generators/column_meanings.py and the schemas differ in {what}: {sorted(names)}"
