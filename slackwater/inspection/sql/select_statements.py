"""Reads a SELECT statement of DuckDB's SQL as a syntax tree: which tables and functions it names. Nothing
here runs a statement. The tree is DuckDB's own, so that a text means here what it means when it runs.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from slackwater.inspection.sql.statement_errors import NotAStatement, text_with_place

READING_STATEMENTS = "SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE and SHOW TABLES"
# What SHOW lists beside tables has a name of this form in the tree.
_LIST_OF_TABLES = "tables"


@dataclass(frozen=True)
class TableFunction:
    """A call in FROM, such as ``windows_at(5)``. Arguments are texts; None for one that is no constant."""

    name: str
    arguments: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True)
class SelectStatement:
    """The names in a SELECT statement, in lower case.

    Attributes:
        tables: tables and views; one that a schema qualifies has a dot.
        own_tables: names that WITH gives.
        functions, table_functions: scalar and aggregate functions; calls in FROM.
        shown_list: what SHOW is to list, "tables" for SHOW TABLES; None for other statements.
        describes: whether it is DESCRIBE or SUMMARIZE.
    """

    sql: str
    tables: frozenset[str]
    own_tables: frozenset[str]
    functions: frozenset[str]
    table_functions: tuple[TableFunction, ...]
    shown_list: str | None
    describes: bool

    @classmethod
    def parse(cls, sql: str, connection: duckdb.DuckDBPyConnection) -> "SelectStatement":
        """The statement `sql`, parsed by `connection`. Raises NotAStatement: it is not exactly one statement,
        or it does not read (see `READING_STATEMENTS`).
        """
        [answer] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        tree = json.loads(answer[0])
        if tree["error"] and tree["error_type"] == "parser":
            raise NotAStatement(text_with_place(tree["error_message"], sql, tree.get("location")))
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            raise NotAStatement(f"one statement is expected, and there are {len(statements) or 'none'}.")
        if tree["error"]:
            verb = re.match(r"\s*(\w+)", statements[0].query)
            kind = statements[0].type.name if verb is None else verb[1].upper()
            raise NotAStatement(f"{kind} is not possible here. What reads is: {READING_STATEMENTS}.")
        nodes = list(_nodes(tree))
        return cls(
            sql=sql,
            tables=frozenset(
                ".".join(node["qualified_name"]["path"]).replace('"', "").lower()
                for node in nodes
                if node.get("type") in ("BASE_TABLE", "SHOW_REF") and not node.get("query")
                if node.get("show_type") != "SHOW_SPECIAL"
            ),
            own_tables=frozenset(
                entry["key"].lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())
            ),
            functions=frozenset(
                node["function_name"].lower() for node in nodes if node.get("class") in ("FUNCTION", "WINDOW")
            ),
            table_functions=tuple(_function(node) for node in nodes if node.get("type") == "TABLE_FUNCTION"),
            shown_list=next(
                (
                    node["table_name"].strip('"').lower()
                    for node in nodes
                    if node.get("show_type") == "SHOW_SPECIAL"
                ),
                None,
            ),
            describes=any(node.get("show_type") in ("DESCRIBE", "SUMMARY", "SHOW") for node in nodes),
        )

    @property
    def is_description(self) -> bool:
        """Whether its rows, which are few, are about columns or tables; it can't be part of a statement."""
        return self.shown_list is not None or self.describes

    @property
    def shows_tables(self) -> bool:
        return self.shown_list == _LIST_OF_TABLES


def _function(node: Mapping[str, Any]) -> TableFunction:
    function = node["function"]
    return TableFunction(
        function["function_name"].lower(),
        tuple(_constant(argument["expression"]) for argument in function["arguments"]),
    )


def _constant(node: Mapping[str, Any]) -> str | None:
    return node["literal"].get("text") if node["class"] == "CONSTANT" else None


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for child in tree:
            yield from _nodes(child)
