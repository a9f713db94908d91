"""Reads a SELECT statement of DuckDB's SQL as a syntax tree: which tables and table functions it names.

Nothing here runs a statement or knows a table by name. The tree is DuckDB's own, so that a text means here
what it means when it runs.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from slackwater.jobs.errors import UsageError


class NotAStatement(UsageError):
    """A text that is no statement that can be asked here."""


@dataclass(frozen=True)
class TableFunction:
    """A call in FROM, such as ``windows_at(5)``.

    Attributes:
        name: of the function, in lower case.
        arguments: as texts; None for one that is no constant.
        place: the position in the statement, in bytes.
    """

    name: str
    arguments: tuple[str | None, ...]
    place: int


@dataclass(frozen=True)
class SelectStatement:
    """What a SELECT statement names.

    Attributes:
        sql: the statement.
        tables: names of tables and views in lower case; those that WITH declares are among them.
        table_functions: calls of table functions.
        shows_tables: whether it asks for the list of tables.
    """

    sql: str
    tables: frozenset[str]
    table_functions: tuple[TableFunction, ...]
    shows_tables: bool

    @classmethod
    def parse(cls, sql: str, connection: duckdb.DuckDBPyConnection) -> "SelectStatement":
        """The statement `sql`, parsed by `connection`.

        Raises:
            NotAStatement: it is no single SELECT (or FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW, PIVOT).
        """
        [answer] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        tree = json.loads(answer[0])
        if tree["error"]:
            raise NotAStatement(tree["error_message"], position=tree.get("position"))
        if len(tree["statements"]) != 1:
            raise NotAStatement("one statement is expected")
        nodes = list(_nodes(tree))
        table_names = (node["table_name"] for node in nodes if node.get("type") in ("BASE_TABLE", "SHOW_REF"))
        return cls(
            sql,
            frozenset(name.strip('"').lower() for name in table_names),
            tuple(_function(node) for node in nodes if node.get("type") == "TABLE_FUNCTION"),
            any(node.get("show_type") == "SHOW_SPECIAL" for node in nodes),
        )


def _function(node: Mapping[str, Any]) -> TableFunction:
    function = node["function"]
    return TableFunction(
        function["function_name"].lower(),
        tuple(_constant(argument["expression"]) for argument in function["arguments"]),
        int(node["query_location"]),
    )


def _constant(node: Mapping[str, Any]) -> str | None:
    return node["literal"].get("text") if node["class"] == "CONSTANT" else None


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a tree of JSON."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for child in tree:
            yield from _nodes(child)
