"""Expressions on a row, written as SQL: what `derive` and `where` take.

DuckDB parses the text and computes the values, so that both agree. An expression consists of the nodes and
functions below and no others; each of them depends on its row alone. An expression knows no types;
`slackwater.engine.expressions` binds it to a source.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from slackwater.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import duckdb

# `/` of two whole numbers is a whole number, as in Flink; times are UTC; no row is lost to a division by zero
# that gives null or infinity. An optimizer that takes common parts out of TRY would make one row's failure
# the batch's.
SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET integer_division = true",
    "SET ieee_floating_point_ops = false",
    "SET error_on_division_by_zero = true",
    "SET disabled_optimizers = 'common_subexpressions'",
    "SET errors_as_json = true",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
OPERATORS = frozenset(
    [
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "||",
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "like_escape",
        "not_like_escape",
        "ilike_escape",
        "not_ilike_escape",
    ]
)
FUNCTIONS: Mapping[str, str] = {
    "numbers": "abs ceil ceiling floor greatest isfinite isinf isnan least mod round sign sqrt trunc",
    "text": "concat contains ends_with instr left length lower lpad ltrim position regexp_extract "
    "regexp_full_match regexp_matches regexp_replace replace reverse right rpad rtrim split_part starts_with "
    "strpos substr substring trim upper",
    "times": "date_diff date_part date_trunc day dayname dayofmonth dayofweek dayofyear epoch epoch_ms hour "
    "isodow last_day make_date make_timestamp minute month monthname quarter second strftime strptime "
    "timezone to_timestamp week weekday year",
    "intervals": "to_years to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds "
    "to_microseconds",
    "choices": "if nullif",
}
_FUNCTIONS = frozenset(name for names in FUNCTIONS.values() for name in names.split())
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE"),
    *("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
)
_OTHER_NAMES_OF_TYPES = (
    "BOOL INT LONG REAL NUMERIC TEXT STRING DATETIME TIMESTAMPTZ INT1 INT2 INT4 INT8 FLOAT4 FLOAT8"
)
_CASTS = frozenset((*TYPES, *_OTHER_NAMES_OF_TYPES.split()))
# Parts of a time, for the functions that take the name of one: another name would fail on every row.
PARTS = (
    *("year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds", "microseconds"),
    *("dow", "isodow", "doy", "isoyear", "epoch"),
)
_FUNCTIONS_OF_PARTS = frozenset(["date_part", "date_trunc", "date_diff"])
_NODES = frozenset(["CASE", "CAST", "BETWEEN", "COMPARISON", "CONJUNCTION", "CONSTANT", "COLUMN_REF", "TYPE"])
_OPERATOR_NODES = frozenset(
    [
        "OPERATOR_NOT",
        "OPERATOR_IS_NULL",
        "OPERATOR_IS_NOT_NULL",
        "COMPARE_IN",
        "COMPARE_NOT_IN",
        "OPERATOR_COALESCE",
    ]
)
# Some of these are written like columns.
_CLOCKS = frozenset(
    [
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "now",
        "today",
        "get_current_time",
        "get_current_timestamp",
        "transaction_timestamp",
        "random",
        "uuid",
        "gen_random_uuid",
    ]
)
_DIFFERS = "differs from run to run; a value comes from its row alone, with columns, literals and functions"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARISON = re.compile(rf"\s*(?P<column>{_NAME.pattern})\s*(=|<>|!=|<=?|>=?)\s*('[^']*'|-?\d+(\.\d+)?)\s*")
_OPENING = "SELECT (\n"
_NOT_SAID = 2**63


class ColumnUse(NamedTuple):
    """A place at which an expression reads a column: its name, the characters [start, end) of the text that
    name it, and the kind of node that reads it, e.g. ``OPERATOR_IS_NULL``, or "" for the whole expression.
    """

    column: str
    start: int
    end: int
    reader: str


@dataclass(frozen=True)
class Expression:
    """An expression that may be computed: its text, and each use of a column. A plain value, for tasks."""

    text: str
    uses: tuple[ColumnUse, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(use.column for use in self.uses))


class NotAnExpression(ValueError):
    """A text is no expression. `place` is the position in it; `expected` says what belongs there."""

    def __init__(self, place: int, expected: str) -> None:
        super().__init__(place, expected)
        self.place, self.expected = place, expected


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


def parse_condition(subject: str, text: object) -> Expression:
    """The expression of a `where`. A comparison of one column with one literal is read without DuckDB, which
    takes longer to import than a whole DAG file; DuckDB parses it when it is bound to a source.
    """
    match = _COMPARISON.fullmatch(text) if isinstance(text, str) else None
    if match is None or match["column"].lower() in _CLOCKS:
        return parse_expression(subject, "where", text)
    return Expression(match.string, (ColumnUse(match["column"], *match.span("column"), "COMPARISON"),))


def parse_derivations(
    subject: str, derive: Mapping[str, str], roles: Sequence[str]
) -> tuple[tuple[str, Expression], ...]:
    """Each derived column with its expression, in their order. The columns `roles` of the source have roles
    that a derived column can't have: files are chosen by them. Raises PipelineError: a name can't be one of a
    column, or an expression is none.
    """
    for name in derive:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or "__" in name:
            raise PipelineError(
                subject,
                f"derive has the column {name!r}; a name is letters, digits and single underscores (double "
                "ones are ours)",
            )
        if name in roles:
            raise PipelineError(
                subject,
                f"derive has {name!r}, which is a time, the partition or the order of the source; these are "
                "columns of the source itself",
            )
    if len({name.lower() for name in derive}) != len(derive):
        raise PipelineError(subject, "derived columns must differ, also in lower case")
    return tuple(
        (name, parse_expression(subject, f"derive[{name!r}]", text)) for name, text in derive.items()
    )


def refuse(subject: str, declaration: str, text: str, place: int, expected: str) -> NoReturn:
    """Raise the error of a declaration whose `text` is wrong at `place`, with the line that holds it."""
    start = text.rfind("\n", 0, place) + 1
    line, column, number = text[start:].partition("\n")[0], place - start, text.count("\n", 0, place) + 1
    where = f"column {column + 1}" if number == 1 else f"line {number}, column {column + 1}"
    raise PipelineError(
        subject,
        f"{declaration} is {text!r}; at {where}: {expected}\n  {line}\n  {' ' * column}^",
    )


def connect() -> "duckdb.DuckDBPyConnection":
    """A database in memory that computes expressions; it can read nothing else."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})  # others would give the process's memory back
    for setting in SETTINGS:
        connection.execute(setting)
    return connection


def query_of(text: str) -> str:
    """The query of the values `v` of an expression's text from a table `rows`."""
    return f"{_OPENING}{text}\n) AS v FROM rows"


def place_in_text(text: str, position: int) -> int:
    """A position of DuckDB's, in bytes of a query, as a position in the expression's `text`."""
    offset = min(position - len(_OPENING), len(text.encode()))
    return len(text.encode()[: max(offset, 0)].decode(errors="ignore"))


@cache
def _parser() -> "duckdb.DuckDBPyConnection":
    return connect()


@lru_cache(maxsize=1024)
def _parse(text: str) -> Expression:
    # A cursor is a connection of its own: threads may parse side by side.
    with _parser().cursor() as cursor:
        answer = cursor.execute("SELECT json_serialize_sql(?)", [f"{_OPENING}{text}\n)"]).fetchone()
    assert answer is not None
    tree = json.loads(answer[0])
    if tree["error"]:
        place = place_in_text(text, int(tree.get("position", len(_OPENING))))
        raise NotAnExpression(*_expected(text, place, tree["error_message"]))
    return _expression_in(text, tree)


def _expression_in(text: str, tree: Mapping[str, Any]) -> Expression:
    selects = [statement["node"] for statement in tree["statements"]]
    if len(selects) != 1 or len(selects[0].get("select_list", ())) != 1:
        raise NotAnExpression(0, "one expression is expected, whose parentheses match")
    [root] = selects[0]["select_list"]
    if selects[0]["from_table"]["type"] != "EMPTY" or root.get("alias"):
        raise NotAnExpression(0, "one expression is expected, whose parentheses match")
    uses = []
    for node, reader in _nodes(root):
        place = _place(text, node)
        _check_node(text, node, place)
        if node["class"] == "COLUMN_REF":
            end = place_in_text(text, node["query_location"] + node["query_location_length"])
            uses.append(ColumnUse(node["column_names"][0], place, end, reader))
    return Expression(text, tuple(sorted(uses, key=lambda use: use.start)))


def _nodes(value: Any, reader: str = "") -> Iterator[tuple[Mapping[str, Any], str]]:
    """(each node of a tree, the kind of its parent), parents before their children."""
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item, reader)
    elif isinstance(value, Mapping):
        if "class" in value:
            yield value, reader
            reader = "TRY_CAST" if value.get("try_cast") else value["type"]
        for item in value.values():
            yield from _nodes(item, reader)


def _place(text: str, node: Mapping[str, Any]) -> int:
    """Where a node begins in the text; 0 where DuckDB does not say."""
    position = node.get("query_location", _NOT_SAID)
    return 0 if position >= _NOT_SAID else place_in_text(text, position)


def _check_node(text: str, node: Mapping[str, Any], place: int) -> None:
    match node["class"]:
        case "FUNCTION":
            _check_function(node, place)
        case "OPERATOR" if node["type"] in _OPERATOR_NODES:
            return
        case "COLUMN_REF":
            _check_column(text, node, place)
        case "TYPE" if node["type_name"].upper() not in _CASTS:
            raise NotAnExpression(
                place, f"{node['type_name']} is no type to cast to; the types are {', '.join(TYPES)}"
            )
        case kind if kind not in _NODES:
            raise NotAnExpression(
                place,
                "columns, literals, operators, CASE, CAST and functions of one row are expected; no "
                + {"SUBQUERY": "query", "WINDOW": "window function", "STAR": "*", "LAMBDA": "lambda"}.get(
                    kind, kind.lower().replace("_", " ")
                ),
            )


def _check_function(node: Mapping[str, Any], place: int) -> None:
    name = node["function_name"].lower()
    embellishments = (
        *(node["schema"], node["catalog"], node["filter"], node["distinct"], node["export_state"]),
        *(node["order_bys"]["orders"], *(argument["name"] for argument in node["arguments"])),
    )
    if name in _FUNCTIONS_OF_PARTS and node["arguments"]:
        part = node["arguments"][0]["expression"].get("literal", {}).get("text", "").lower()
        if part not in PARTS:
            raise NotAnExpression(place, f"{name} takes one of {', '.join(PARTS)} in quotes first")
    if not any(embellishments) and name in (OPERATORS if node["is_operator"] else _FUNCTIONS):
        return
    if node["is_operator"]:
        raise NotAnExpression(
            place, "+ - * / % || LIKE, comparisons, AND, OR and NOT are the operators; not " + name
        )
    if any(embellishments) and name in _FUNCTIONS:
        raise NotAnExpression(place, f"{name}(…) with its operands alone is expected")
    if name in _CLOCKS:
        raise NotAnExpression(place, f"{name} {_DIFFERS}")
    similar = get_close_matches(name, _FUNCTIONS, 1)
    hint = f" (did you mean {similar[0]}?)" if similar else ""
    raise NotAnExpression(
        place, f"{name} is none of the functions{hint}; they are {', '.join(sorted(_FUNCTIONS))}"
    )


def _check_column(text: str, node: Mapping[str, Any], place: int) -> None:
    names = node["column_names"]
    if len(names) != 1:
        name = ".".join(names)
        raise NotAnExpression(
            place,
            f"fields of structs can't be read here, so the source has to have {names[-1]} as a column; a "
            f'column whose name is {name}, with the dot, is written "{name}"',
        )
    if names[0].lower() in _CLOCKS and text[place : place + 1] != '"':
        raise NotAnExpression(place, f"{names[0]} {_DIFFERS}")


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")+\"|\w+(?:\.\w+)?|[^\s\w]")
_EXPECTING_MORE = frozenset(
    ("and", "or", "not", "in", "like", "ilike", "between", "is", "case", "when", "then", "else", "escape")
)


# Words that SQL reserves and an expression may hold.
_WORDS_OF_EXPRESSIONS = _EXPECTING_MORE | {"null", "true", "false", "cast", "try_cast", "interval", "end"}


def _word_of_sql(text: str, place: int) -> str | None:
    """The word at or before a syntax error, if SQL reserves it: as a column it needs quotes."""
    words = [word for word in re.finditer(r"\w+", text) if word.start() <= place]
    if not words or text[words[-1].end() : place].strip():
        return None
    word = words[-1][0]
    return word if word.lower() in _words_of_sql() - _WORDS_OF_EXPRESSIONS else None


def column_as_written(name: str) -> str:
    """The name of a column as an expression has it: in double quotes unless it is a plain name."""
    is_plain = _NAME.fullmatch(name) and name.lower() not in _words_of_sql() | _CLOCKS
    return name if is_plain else '"' + name.replace('"', '""') + '"'


@cache
def _words_of_sql() -> frozenset[str]:
    with _parser().cursor() as cursor:
        answer = cursor.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        )
        return frozenset(name for (name,) in answer.fetchall())


def _expected(text: str, place: int, reason: str) -> tuple[int, str]:
    """(the place of a syntax error, what is expected there)."""
    if "unterminated" in reason:
        return place, f"{reason}: a closing quote is expected"
    tokens = [token for token in _TOKEN.findall(text[:place]) if token.strip()]
    last = tokens[-1].lower() if tokens else ""
    is_operand = bool(re.fullmatch(r"\w.*|'.*|\".*|\)", last, re.DOTALL)) and last not in _EXPECTING_MORE
    word = _word_of_sql(text, place)
    if word is not None:
        return place, f'{word} is a word of SQL; a column of that name is written "{word}"'
    what = "an operator, or the end" if is_operand else "a column, a literal, a function or a parenthesis"
    if tokens.count("(") > tokens.count(")") and is_operand:
        what = "an operator, a comma or a closing parenthesis"
    reading = "the text ends" if place >= len(text.rstrip()) else f"{reason}"
    return min(place, len(text.rstrip())), f"{reading}; {what} is expected"
