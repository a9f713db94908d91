"""Expressions on a row, written as SQL: what `derive` and `where` take.

DuckDB parses the text and computes the values, so that both agree. An expression consists of the nodes and
functions of `expression_grammar` and no others; each of them depends on its row alone. An expression knows no
types; `slackwater.engine.expressions` binds it to a source.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expression_database import database, reserved_words
from slackwater.pipelines.expression_grammar import (
    CLOCKS,
    NodeInTree,
    NotAnExpression,
    check_node,
    makes_time_of_epoch,
    nodes_below,
)
from slackwater.pipelines.spark_functions import use_before

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARISON = re.compile(
    rf"\s*(?P<column>{_NAME.pattern}|\"(?:[^\"]|\"\")+\")\s*(=|<>|!=|<=?|>=?)\s*"
    r"('[^']*'|-?\d+(\.\d+)?)\s*"
)
EMPTY: Mapping[str, str] = MappingProxyType({})
_OPENING = "SELECT (\n"
_NOT_SAID = 2**63


class ColumnUse(NamedTuple):
    """A place at which an expression reads a column of the table, or a field within one: its name, the
    characters [start, end) of the text that name it, what reads it (a function, or a kind of node, e.g.
    ``OPERATOR_IS_NULL``; "" for the whole expression), the fields, e.g. ("user", "id") for
    ``payload.user.id``, and the literal subscripts that follow, e.g. ``[1]``, each with its end in the text.
    """

    column: str
    start: int
    end: int
    reader: str
    fields: tuple[str, ...] = ()
    subscripts: tuple[tuple[str | int, int], ...] = ()


@dataclass(frozen=True)
class Expression:
    """An expression that may be computed. A plain value, for tasks.

    Attributes:
        uses: each use of a column.
        epoch_place: where in the text a time is made of a number that counts since 1970; None: nowhere.
        is_epoch_time: whether the whole expression is such a call.
        makes_fractions: whether `/` of two whole numbers is a double, as over results.
    """

    text: str
    uses: tuple[ColumnUse, ...]
    epoch_place: int | None = None
    is_epoch_time: bool = False
    makes_fractions: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(use.column for use in self.uses))


def parse_expression(subject: str, declaration: str, text: object) -> Expression:
    """The expression `text` of a declaration, e.g. ``derive['day_part']``. Raises PipelineError: it is none;
    the message shows the place, and says what is expected there.
    """
    if not isinstance(text, str) or not text.strip():
        raise PipelineError(
            subject, f'{declaration} is {text!r}; it is SQL as text, e.g. "hour(event_time) > 6"'
        )
    try:
        return _parse(text)
    except NotAnExpression as error:
        refuse(subject, declaration, text, error.place, error.expected)


def parse_condition(subject: str, text: object, declaration: str = "where") -> Expression:
    """The expression of a condition. A comparison of one column with one literal is read without DuckDB,
    which takes longer to import than a whole DAG file; DuckDB parses it when it is bound to a source.
    """
    match = _COMPARISON.fullmatch(text) if isinstance(text, str) else None
    if match is None or match["column"].lower() in CLOCKS:
        return parse_expression(subject, declaration, text)
    name = match["column"]
    column = name[1:-1].replace('""', '"') if name.startswith('"') else name
    return Expression(match.string, (ColumnUse(column, *match.span("column"), "COMPARISON"),))


def check_derived_names(
    subject: str, derive: Mapping[str, str], roles: Sequence[str] = (), declaration: str = "derive"
) -> None:
    """Raise PipelineError where a name can't be one of a derived column. The columns `roles` are the source's
    own.
    """
    for name in derive:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or "__" in name:
            raise PipelineError(
                subject,
                f"{declaration} has the column {name!r}; a name is letters, digits and single underscores "
                "(double ones are ours)",
            )
        if name in roles:
            raise PipelineError(
                subject,
                f"derive has {name!r}, which is a time, the partition or the order of the source; derive it "
                f"there: DeltaSource(…, derive={{{name!r}: …}})",
            )
    if len({name.lower() for name in derive}) != len(derive):
        raise PipelineError(subject, f"the columns of {declaration} must differ, also in lower case")


def parse_derivations(
    subject: str, derive: Mapping[str, str], roles: Sequence[str] = (), declaration: str = "derive"
) -> tuple[tuple[str, Expression], ...]:
    """Each derived column with its expression, in their order, but a column before those that read it. Raises
    PipelineError: see `check_derived_names`; an expression is none, or columns read each other.
    """
    check_derived_names(subject, derive, roles, declaration)
    expressions = {
        name: parse_expression(subject, f"{declaration}[{name!r}]", text) for name, text in derive.items()
    }
    operands = {
        name: [other for other in derive if other != name and other in expression.columns]
        for name, expression in expressions.items()
    }
    try:
        order = list(TopologicalSorter(operands).static_order())
    except CycleError as error:
        columns = ", ".join(dict.fromkeys(error.args[1]))
        raise PipelineError(
            subject, f"{declaration}: {columns} read each other; one of them has to do without the others"
        ) from error
    has_readers_first = any(
        position < list(derive).index(operand)
        for position, name in enumerate(derive)
        for operand in operands[name]
    )
    return tuple((name, expressions[name]) for name in (order if has_readers_first else derive))


def refuse(subject: str, declaration: str, text: str, place: int, expected: str) -> NoReturn:
    """Raise the error of a declaration whose `text` is wrong at `place`, with the line that holds it."""
    start = text.rfind("\n", 0, place) + 1
    line, column, number = text[start:].partition("\n")[0], place - start, text.count("\n", 0, place) + 1
    where = f"column {column + 1}" if number == 1 else f"line {number}, column {column + 1}"
    raise PipelineError(
        subject,
        f"{declaration} is {text!r}; at {where}: {expected}\n  {line}\n  {' ' * column}^",
    )


def query_of(*texts: str, more_columns: Mapping[str, str] = EMPTY) -> str:
    """The query of the values of each text, in columns of that order, from a table `rows`, to which
    `more_columns`, by name, are added. Within the query the table has a name that no column has: ``rows.id``
    is the field of a column `rows`.
    """
    columns = [f"(\n{text}\n) AS __{number}" for number, text in enumerate(texts)]
    added_columns = "".join(f", {text} AS {name}" for name, text in more_columns.items())
    table = f"(SELECT *{added_columns} FROM rows)" if more_columns else "rows"
    return f"SELECT {', '.join(columns)} FROM {table} AS __rows"


def place_in_text(text: str, position: int) -> int:
    """A position of DuckDB's, in bytes of a query, as a position in the expression's `text`."""
    offset = min(position - len(_OPENING), len(text.encode()))
    return len(text.encode()[: max(offset, 0)].decode(errors="ignore"))


@lru_cache(maxsize=1024)
def _parse(text: str) -> Expression:
    tree = _tree_of(text)
    if tree["error"]:
        place = place_in_text(text, int(tree.get("position", len(_OPENING))))
        raise NotAnExpression(*_expected(text, place, tree["error_message"]))
    return _expression_in(text, tree)


def _tree_of(text: str) -> dict[str, Any]:
    """DuckDB's syntax tree of an expression in a query, or the error with its position."""
    # A cursor is a connection of its own: threads may parse side by side.
    with database().cursor() as cursor:
        answer = cursor.execute("SELECT json_serialize_sql(?)", [f"{_OPENING}{text}\n)"]).fetchone()
    assert answer is not None
    tree: dict[str, Any] = json.loads(answer[0])
    return tree


def _expression_in(text: str, tree: Mapping[str, Any]) -> Expression:
    selects = [statement["node"] for statement in tree["statements"]]
    if len(selects) != 1 or len(selects[0].get("select_list", ())) != 1:
        raise NotAnExpression(0, "one expression is expected, whose parentheses match")
    [root] = selects[0]["select_list"]
    if selects[0]["from_table"]["type"] != "EMPTY" or root.get("alias"):
        raise NotAnExpression(0, "one expression is expected, whose parentheses match")
    uses, epoch_places = [], []
    for node, reader, subscripts in nodes_below(NodeInTree(root)):
        place = _place(text, node)
        check_node(text, node, place, reader)
        if makes_time_of_epoch(node):
            epoch_places.append(place)
        if node["class"] == "COLUMN_REF":
            end = place_in_text(text, node["query_location"] + node["query_location_length"])
            column, *fields = node["column_names"]
            uses.append(
                ColumnUse(
                    column=column,
                    start=place,
                    end=end,
                    reader=reader,
                    fields=tuple(fields),
                    subscripts=_without_parentheses(text, end, subscripts),
                )
            )
    return Expression(
        text,
        tuple(sorted(uses, key=lambda use: use.start)),
        min(epoch_places, default=None),
        makes_time_of_epoch(root),
    )


def _without_parentheses(
    text: str, start: int, subscripts: Sequence[tuple[str | int, int]]
) -> tuple[tuple[str | int, int], ...]:
    """The subscripts up to a parenthesis, as in ``(payload)['user']``, each with its end in the text."""
    keys: list[tuple[str | int, int]] = []
    for key, position in subscripts:
        end = place_in_text(text, position)
        if not text[start:end].lstrip().startswith(("[", ".")):
            break
        keys.append((key, end))
        start = end
    return tuple(keys)


def _place(text: str, node: Mapping[str, Any]) -> int:
    """Where a node begins in the text; 0 where DuckDB does not say."""
    position = node.get("query_location", _NOT_SAID)
    return 0 if position >= _NOT_SAID else place_in_text(text, position)


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")+\"|\w+(?:\.\w+)?|[^\s\w]")
_EXPECTING_MORE = frozenset(
    ("and", "or", "not", "in", "like", "ilike", "between", "is", "case", "when", "then", "else", "escape")
)


_WORDS_TRIED = 5


def _word_of_sql(text: str, place: int) -> re.Match[str] | None:
    """The word at or before a syntax error that SQL reserves, and that is a column if it stands in quotes."""
    words = [word for word in re.finditer(r"\w+", text) if word.start() <= place]
    for word in words[: -_WORDS_TRIED - 1 : -1]:
        start, end = word.span()
        if word[0].lower() not in reserved_words() or text[end:].lstrip().startswith("("):
            continue
        if not _tree_of(f'{text[:start]}"{word[0]}"{text[end:]}')["error"]:
            return word
    return None


def column_as_written(name: str) -> str:
    """The name of a column as an expression has it: in double quotes unless it is a plain name."""
    is_plain = _NAME.fullmatch(name) and name.lower() not in reserved_words() | CLOCKS
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def _expected(text: str, place: int, reason: str) -> tuple[int, str]:
    """(the place of a syntax error, what is expected there)."""
    if "unterminated" in reason:
        return place, f"{reason}: a closing quote is expected"
    tokens = [token for token in _TOKEN.findall(text[:place]) if token.strip()]
    last = tokens[-1].lower() if tokens else ""
    is_operand = bool(re.fullmatch(r"\w.*|'.*|\".*|\)", last, re.DOTALL)) and last not in _EXPECTING_MORE
    word = _word_of_sql(text, place)
    if word is not None:
        return word.start(), f'{word[0]} is a word of SQL; a column of that name is written "{word[0]}"'
    if (use := use_before(text, place)) is not None:
        return use
    what = "an operator, or the end" if is_operand else "a column, a literal, a function or a parenthesis"
    if tokens.count("(") > tokens.count(")") and is_operand:
        what = "an operator, a comma or a closing parenthesis"
    names = re.search(r"(\w+)\s+$", text[:place]), re.match(r"\w+", text[place:])
    if is_operand and names[0] is not None and names[1] is not None:
        name = f"{names[0][1]} {names[1][0]}"
        return place, f'{reason}; {what} is expected; a column of the name {name} is written "{name}"'
    reading = "the text ends" if place >= len(text.rstrip()) else f"{reason}"
    return min(place, len(text.rstrip())), f"{reading}; {what} is expected"
