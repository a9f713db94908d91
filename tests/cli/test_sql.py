"""`slackwater sql`: a statement as argument, on stdin and at the prompt, as table, JSON and CSV."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from slackwater.cli.sql_prompt import SqlCompleter, prompt
from slackwater.inspection.sql.select_statements import NotAStatement
from slackwater.inspection.sql.views import LineageViews
from tests.integration.command import here
from tests.integration.stored import StoredTables


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def ask(replayed: StoredTables, new_output: Callable[[], str]) -> Callable[..., str]:
    """A function that runs the verb in this process and returns what it has printed."""

    def ask(*arguments: str, code: int = 0) -> str:
        assert here("sql", "departures", *arguments, "--warehouse", replayed.warehouse) == code
        return new_output()

    return ask


def test_the_same_rows_come_as_table_json_and_csv(ask: Callable[..., str], replayed: StoredTables) -> None:
    sql = "SELECT origin, window_start, elements FROM windows_now ORDER BY ALL"
    wanted = sorted(
        (row["origin"], row["window_start"], row["elements"]) for row in replayed.parked("window_state")
    )
    rows = json.loads(ask(sql, "--output", "json"))
    assert [(row["origin"], row["elements"]) for row in rows] == [(key, count) for key, _, count in wanted]
    records = list(csv.DictReader(io.StringIO(ask(sql, "--output", "csv"))))
    assert [{**row, "elements": str(row["elements"])} for row in rows] == records
    heading, *lines = ask(sql).splitlines()
    assert heading.split() == ["origin", "window_start", "elements"]
    assert [line.split()[0::3] for line in lines] == [[key, str(count)] for key, _, count in wanted]


def test_rows_beyond_the_limit_are_said(ask: Callable[..., str]) -> None:
    count = json.loads(ask("SELECT count(*) AS n FROM panes_live", "--output", "json"))[0]["n"]
    for output in ("table", "json", "csv"):
        assert f"{count - 2} more rows" in ask("FROM panes_live", "--limit", "2", "--output", output)
    assert len(ask("SELECT origin FROM panes_live", "--limit", "0").splitlines()) == count + 1
    assert len(ask("SELECT origin FROM panes_live").splitlines()) == 50 + 2


def test_views_are_as_of_a_run(ask: Callable[..., str], replayed: StoredTables) -> None:
    [first, *_] = replayed.ledger()
    for arguments in (
        ("SELECT count(*) AS n FROM windows_now", "--run", "1"),
        ("SELECT count(*) AS n FROM windows_at(1)",),
    ):
        assert json.loads(ask(*arguments, "--output", "json")) == [{"n": first["windows_open"]}]
    assert "no branch" in ask("FROM runs", "--branch", "nowhere", code=2)
    assert "not both" in ask("FROM runs", "--branch", "main", "--run", "1", code=2)


def test_a_statement_comes_from_stdin(ask: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1\n  AS one;\n"))
    assert json.loads(ask("--output", "json")) == [{"one": 1}]
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert "no statement" in ask(code=2)


def test_errors_are_those_of_usage_and_show_the_place(ask: Callable[..., str]) -> None:
    assert ask("SELECT origi FROM runs", code=2).splitlines()[-1].strip() == "^^^^^"
    assert "COPY is not possible here" in ask("COPY runs TO 'x'", code=2)


def test_a_pipeline_without_a_committed_run_says_so(flights: Path, new_output: Callable[[], str]) -> None:
    assert here("sql", "departures", "FROM runs", "--warehouse", flights) == 2
    assert "departures has never run" in new_output()


@pytest.fixture
def views(replayed: StoredTables) -> Iterator[LineageViews]:
    with LineageViews.of("departures", str(replayed.warehouse)) as views:
        yield views


def test_the_prompt_reads_statements_over_lines_and_remembers_them(
    views: LineageViews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_output: Callable[[], str]
) -> None:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    statements: list[str] = []

    def answer(statement: str) -> None:
        statements.append(statement)
        if "mistake" in statement:
            raise NotAStatement("there is a mistake")

    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("SELECT 1,\r2;\rmistake;\r\rexit\r")
        prompt(views, answer)
    assert statements == ["SELECT 1,\n2;", "mistake;"]
    history = FileHistory(str(tmp_path / "cache" / "sql_history"))
    assert list(history.load_history_strings())[-2:] == ["mistake;", "SELECT 1,\n2;"]
    output = new_output()
    assert "departures as of run 3, up to 2013-01-04 00:00. Times are UTC." in output
    assert "there is a mistake" in output
    assert (tmp_path / "cache" / "sql_history").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("SELECT * FROM win", {"windows_now", "windows_at("}, {"window_start", "WITH"}),
        ("SELECT ori", {"origin"}, {"windows_now"}),
        ("SELECT l.late_b", {"late_by_ms"}, {"late_live"}),
        ("FROM runs ORD", {"ORDER"}, {"origin"}),
        ("SELECT 1 QUA", {"QUALIFY"}, set()),
        ("SELECT 1 POSI", {"POSITIONAL"}, set()),
        ("SELECT co", {"count(", "coalesce(", "code_hash"}, set()),
        ("", set(), {"SELECT"}),
    ],
)
def test_completion_fits_the_place(
    views: LineageViews, text: str, wanted: set[str], unwanted: set[str]
) -> None:
    completions = SqlCompleter(views).get_completions(Document(text), CompleteEvent(text_inserted=True))
    names = {completion.text for completion in completions}
    assert wanted <= names and not unwanted & names
