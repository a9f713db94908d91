"""Reads a SELECT statement of DuckDB's SQL as a syntax tree: which tables and functions it names; and turns
DuckDB's message about a statement into a sentence, its hint, and the line with carets under the place.
Nothing here runs a statement. The tree is DuckDB's own, so that a text means here what it means when it runs.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from slackwater.errors import UsageError

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


MEMORY_LIMIT = "200MB"
_LINES = 6
_KINDS_OF_FILES = frozenset({"IO Error", "Invalid Input Error"})


class NotAStatement(UsageError):
    """A text that is no statement that can be asked here, or one that has failed. Facts: is_of_a_file
    (whether a file may be to blame).
    """


def has_place(message: str) -> bool:
    return message.endswith("}")


def error_of_statement(message: str, sql: str, offset: int = 0) -> NotAStatement:
    """The error for DuckDB's `message` about `sql`, before which DuckDB has read `offset` characters."""
    kind, _, details_text = message.partition(": ")
    if kind == "Out of Memory Error":
        return NotAStatement(
            f"the statement needs more memory than it may have ({MEMORY_LIMIT}). Ask for less: a condition, "
            "a LIMIT, or fewer columns."
        )
    is_of_a_file = kind in _KINDS_OF_FILES
    try:
        details, _ = json.JSONDecoder().raw_decode(details_text)
    except ValueError:
        return NotAStatement(text_with_place(details_text or message, sql, None), is_of_a_file=is_of_a_file)
    text = text_with_place(details["exception_message"], sql, details.get("location"), offset)
    return NotAStatement(text, is_of_a_file=is_of_a_file)


def text_with_place(message: str, sql: str, location: str | None, offset: int = 0) -> str:
    """DuckDB's message for people, with the line that it is about and carets under the place. `location` is
    ``[position, length]`` in bytes, or None; `sql` begins at the position `offset`.
    """
    sentence, *hints = _without_noise(message)
    text = "\n".join([sentence, *hints])
    place = re.match(r"\[(\d+),\s*(\d+)", location or "")
    if place is None or int(place[1]) < offset:
        return text
    first = int(place[1]) - offset
    before = sql.encode()[:first].decode(errors="ignore")
    length = len(sql.encode()[first:][: int(place[2])].decode(errors="ignore").partition("\n")[0])
    start = before.rfind("\n") + 1
    line = sql[start:].partition("\n")[0]
    return f"{text}\n\n  {line}\n  {' ' * (len(before) - start)}{'^' * max(1, length)}"


def _without_noise(message: str) -> list[str]:
    """The lines of a message, without advice on DuckDB's settings, which can't be changed here, and without
    all but the first candidates.
    """
    message = message.partition("\n\nLINE ")[0].replace("\t", "  ")
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    return [*lines[:_LINES], *(["  …"] if len(lines) > _LINES else [])] or ["the statement failed"]
