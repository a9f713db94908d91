"""Conditions on a row, written as SQL: what `where` takes. The parser makes a tree of plain
values from the text; the engines evaluate it.

Comparisons of columns with literals and columns are read here, a small part of SQL that is evaluated on whole
columns and without loss of a digit. Every other text (functions, arithmetic, LIKE, CASE) is an `Expression`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression, parse_expression

LiteralValue: TypeAlias = int | Decimal | str | bool
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class ColumnReference:
    """A column of the source, by its name."""

    name: str


@dataclass(frozen=True)
class Comparison:
    """`column` `operator` `operand`, with one of `OPERATORS`; unknown where either is null."""

    column: ColumnReference
    operator: str
    operand: ColumnReference | LiteralValue


@dataclass(frozen=True)
class IsNull:
    """Whether a column is null; never unknown."""

    column: ColumnReference


@dataclass(frozen=True)
class Holds:
    """Whether a boolean column is true; unknown where it is null."""

    column: ColumnReference


@dataclass(frozen=True)
class Not:
    """The opposite; unknown stays unknown."""

    term: "Term"


@dataclass(frozen=True)
class And:
    """All terms hold."""

    terms: tuple["Term", ...]


@dataclass(frozen=True)
class Or:
    """One of the terms holds."""

    terms: tuple["Term", ...]


Term: TypeAlias = Comparison | IsNull | Holds | Not | And | Or | Expression


def parse_condition(subject: str, text: object) -> Term:
    """The tree of the condition `text`. Errors name `subject`.

    Terms: ``column OP literal``, ``column OP column``, ``column [NOT] IN (literal, …)``, ``column [NOT]
    BETWEEN literal AND literal``, ``column IS [NOT] NULL``, a boolean ``column``; joined by AND, OR, NOT and
    parentheses. OP is ``= != <> < <= > >=``. Literals: numbers (``3``, ``-2.5``, ``1e3``), ``'text'`` (``''``
    is a quote), TRUE, FALSE; a date or time is text in ISO 8601. A column is a name, or anything in double
    quotes. A text of another form is an expression.

    Raises:
        PipelineError: `text` isn't of this form; the message says where.
    """
    if not isinstance(text, str) or not text.strip():
        raise PipelineError(
            subject,
            f"where is {text!r}; it is a condition as text, e.g. \"dep_delay > 15 AND carrier IN ('AA', "
            "'UA')\"",
        )
    try:
        return _Parser(text).parse()
    except _NoComparison:
        return parse_expression(subject, "where", text)


def columns_of(term: Term) -> tuple[str, ...]:
    """The columns that a condition reads, each once, in the order of the text."""
    return tuple(dict.fromkeys(_columns(term)))


def _columns(term: Term) -> Iterator[str]:
    match term:
        case And(terms) | Or(terms):
            for part in terms:
                yield from _columns(part)
        case Not(part):
            yield from _columns(part)
        case Comparison(column, _, operand):
            yield column.name
            if isinstance(operand, ColumnReference):
                yield operand.name
        case IsNull(column) | Holds(column):
            yield column.name
        case Expression():
            yield from term.columns


class _NoComparison(ValueError):
    """A text is no condition of this form."""


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")+\")"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|<>|!=|=|<|>|\(|\)|,)|(?P<end>$))"
)
_KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})


class _Parser:
    """A recursive descent parser: one method for each level of precedence; OR binds loosest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0

    def parse(self) -> Term:
        term = self._or()
        if self._token.kind != "end":
            raise _NoComparison
        return term

    def _split(self) -> Iterator[_Token]:
        position = 0
        while True:
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise _NoComparison
            kind = str(match.lastgroup)
            token = _Token(kind, match.group(kind), match.start(kind))
            if kind == "word" and token.text.lower() in _KEYWORDS:
                token = token._replace(kind="keyword", text=token.text.lower())
            yield token
            if kind == "end":
                return
            position = match.end()

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, kind: str, *texts: str) -> str | None:
        token = self._token
        if token.kind != kind or (texts and token.text not in texts):
            return None
        self._next += 1
        return token.text

    def _expect(self, kind: str, text: str) -> None:
        if self._take(kind, text) is None:
            raise _NoComparison

    def _or(self) -> Term:
        terms = [self._and()]
        while self._take("keyword", "or"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _and(self) -> Term:
        terms = [self._not()]
        while self._take("keyword", "and"):
            terms.append(self._not())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _not(self) -> Term:
        if self._take("keyword", "not"):
            return Not(self._not())
        if self._take("sign", "("):
            term = self._or()
            self._expect("sign", ")")
            return term
        return self._comparison()

    def _comparison(self) -> Term:
        column = self._column()
        if column is None:
            raise _NoComparison
        if sign := self._take("sign", *OPERATORS, "<>"):
            return Comparison(column, "!=" if sign == "<>" else sign, self._column() or self._literal())
        if self._take("keyword", "is"):
            is_negated = self._take("keyword", "not") is not None
            self._expect("keyword", "null")
            return Not(IsNull(column)) if is_negated else IsNull(column)
        is_negated = self._take("keyword", "not") is not None
        if self._take("keyword", "in"):
            term: Term = Or(tuple(Comparison(column, "=", value) for value in self._list()))
        elif self._take("keyword", "between"):
            least = self._literal()
            self._expect("keyword", "and")
            term = And((Comparison(column, ">=", least), Comparison(column, "<=", self._literal())))
        elif is_negated:
            raise _NoComparison
        else:
            return Holds(column)
        return Not(term) if is_negated else term

    def _column(self) -> ColumnReference | None:
        if name := self._take("word"):
            return ColumnReference(name)
        quoted_name = self._take("quoted")
        return None if quoted_name is None else ColumnReference(quoted_name[1:-1].replace('""', '"'))

    def _list(self) -> list[LiteralValue]:
        self._expect("sign", "(")
        values = [self._literal()]
        while self._take("sign", ","):
            values.append(self._literal())
        self._expect("sign", ")")
        return values

    def _literal(self) -> LiteralValue:
        if (number := self._take("number")) is not None:
            return int(number) if re.fullmatch(r"[+-]?\d+", number) else Decimal(number)
        if (text := self._take("text")) is not None:
            return text[1:-1].replace("''", "'")
        if (word := self._take("keyword", "true", "false")) is not None:
            return word == "true"
        raise _NoComparison
