"""What verbs print: a table or JSON, how many rows, and what is said of those that are not shown."""

import json
from datetime import UTC, datetime

import click
import pytest
from click.testing import CliRunner

from slackwater.cli import printing
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column

ROWS = [{"key": f"k{number}", "size": 10**number} for number in range(60)]
COLUMNS = [Column("key", "key"), Column("size", "size")]


@click.command()
@printing.output
def verb(output: Output) -> None:
    printing.show(ROWS, COLUMNS, output, empty="nothing is there")


def test_a_table_shows_fifty_rows_and_says_how_many_more_there_are() -> None:
    result = CliRunner().invoke(verb, [])
    assert len(result.stdout.splitlines()) == 51
    assert result.stderr == "10 more rows; --limit 0 shows all\n"
    result = CliRunner().invoke(verb, ["--limit", "59"])
    assert len(result.stdout.splitlines()) == 60
    assert result.stderr == "1 more row; --limit 0 shows all\n"
    result = CliRunner().invoke(verb, ["--limit", "0"])
    assert len(result.stdout.splitlines()) == 61
    assert result.stderr == ""


def test_json_has_all_rows_unless_a_limit_is_given() -> None:
    assert json.loads(CliRunner().invoke(verb, ["--output", "json"]).stdout) == ROWS
    result = CliRunner().invoke(verb, ["--output", "json", "--limit", "2"])
    assert json.loads(result.stdout) == ROWS[:2]
    assert result.stderr == "58 more rows; --limit 0 shows all\n"


def test_rows_that_were_not_read_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    printing.show(ROWS[:2], COLUMNS, Output(row_limit=2), empty="", total=365, others="earlier")
    assert capsys.readouterr().err == "363 earlier rows; --limit 0 shows all\n"


def test_no_rows_are_a_sentence_or_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    printing.show([], COLUMNS, Output(), empty="nothing is there")
    printing.show([], COLUMNS, Output("json"), empty="nothing is there")
    assert capsys.readouterr().out == "nothing is there\n[]\n"


def test_what_is_printed_has_no_credentials_and_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing.show([{"key": "a\x1b[2J", "to": "redis://me:secret@host"}], ["key", "to"], Output(), empty="")
    printing.show_facts([("to\n", "redis://me:secret@host"), ("late", 90_000, "duration")], Output())
    printing.say("a\x1b[2J of redis://me:secret@host")
    out = capsys.readouterr().out
    assert out == (
        "key       to\n"
        r"a\x1b[2J  redis://me:***@host"
        "\n"
        r"to\n  redis://me:***@host"
        "\n"
        "late  1 min 30 s\n"
        r"a\x1b[2J of redis://me:***@host"
        "\n"
    )


def test_json_has_times_in_utc_and_bytes_as_hex(capsys: pytest.CaptureFixture[str]) -> None:
    printing.show_object({"at": datetime(2013, 1, 2, 3, 4, 5, 678_000, UTC), "key": "a\x1b", "raw": b"\x01"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"at": "2013-01-02T03:04:05.678Z", "key": "a\x1b", "raw": "01"}
    assert "\x1b" not in out
