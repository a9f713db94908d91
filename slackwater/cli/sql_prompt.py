"""The prompt of `slackwater sql`: reads statements line by line until a semicolon, with history, colours, and
completion of keywords, views and columns. Each statement goes to the function that the verb gives.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from slackwater.cli import printing
from slackwater.errors import SlackwaterError
from slackwater.inspection.sql.sql_answers import TABLE_FUNCTIONS
from slackwater.inspection.sql.views import LineageViews
from slackwater.runtime.settings import cache

FUNCTIONS = """
    arg_max avg coalesce count count_if date_diff date_trunc first greatest last least list max median min
    quantile_cont round row_number sum
"""
_LEAVING = frozenset({"exit", "quit", "exit;", "quit;", r"\q"})
_WORD = re.compile(r"[A-Za-z_0-9.]+")
_TABLE_BEFORE = re.compile(r"\b(from|join|describe|summarize)\s+[A-Za-z_0-9]*$", re.IGNORECASE)


class SqlCompleter(Completer):
    """Completes views where a table is expected, else columns of the views that the statement names, views,
    keywords and functions.
    """

    def __init__(self, views: LineageViews) -> None:
        self._views = views

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        word = document.get_word_before_cursor(pattern=_WORD)
        if not word and not complete_event.completion_requested:
            return
        prefix, _, part = word.rpartition(".")
        for candidate, kind in self._candidates(text, document.text, has_prefix=bool(prefix)):
            if candidate.lower().startswith(part.lower()) and candidate.lower() != part.lower():
                yield Completion(candidate, -len(part), display_meta=kind)

    def _candidates(self, before: str, statement: str, *, has_prefix: bool) -> Iterator[tuple[str, str]]:
        tables = [(name, "view") for name in self._views.names]
        tables += [(f"{name}(", "as of a run") for name in self._views.names_at]
        if _TABLE_BEFORE.search(before):
            yield from tables
            yield from ((f"{name}(", "function") for name in TABLE_FUNCTIONS)
            return
        yield from ((name, "column") for name in self._columns(statement))
        if not has_prefix:
            yield from ((keyword, "") for keyword in self._keywords)
            yield from ((f"{name}(", "function") for name in FUNCTIONS.split())
            yield from tables

    @cached_property
    def _keywords(self) -> list[str]:
        sql = "SELECT upper(keyword_name) AS keyword FROM duckdb_keywords() ORDER BY keyword"
        return list(self._views.query(sql)["keyword"].to_pylist())

    def _columns(self, statement: str) -> list[str]:
        """The columns of the views that the statement names; of all of them where it names none yet."""
        words = {word.lower() for word in re.findall(r"\w+", statement)}
        named_views = [view for view in self._columns_of_views if view in words]
        chosen_views = named_views or list(self._columns_of_views)
        return list(dict.fromkeys(name for view in chosen_views for name in self._columns_of_views[view]))

    @cached_property
    def _columns_of_views(self) -> dict[str, list[str]]:
        names = (*self._views.names, *self._views.names_at)
        return {name: list(self._views.schema(name).names) for name in names}


def prompt(views: LineageViews, print_answer: Callable[[str], None]) -> None:
    """Read statements until the user leaves, and hand each to `print_answer`. An error of a statement is
    printed, and the next one is read.
    """
    place = views.inspection.place_text(views.row)
    click.echo(f"{views.inspection.pipeline} as of {place}. Times are UTC.")
    click.echo("SHOW TABLES; lists the views. A statement ends with a semicolon; Ctrl-D leaves.")
    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=SqlCompleter(views),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation=lambda width, line, wraps: "…> ".rjust(width),
        key_bindings=_enter_bindings(),
    )
    while True:
        try:
            text = session.prompt(f"{views.inspection.pipeline}> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.lower() in _LEAVING:
            return
        if text.strip("; \n"):
            _print_answer(text, print_answer)


def _print_answer(text: str, print_answer: Callable[[str], None]) -> None:
    try:
        print_answer(text)
    except SlackwaterError as error:
        printing.say(error.message, err=True)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


def _history() -> History:
    """Statements of earlier prompts, in the user's cache; in memory where that can't be written."""
    file = cache() / "sql_history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def _enter_bindings() -> KeyBindings:
    """Enter ends a statement where it has its semicolon, or is a word that leaves; else it begins a line."""
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        if text.endswith(";") or not text or text.lower() in _LEAVING:
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
