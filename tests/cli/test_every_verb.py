"""What every verb that looks prints on a terminal of 80 columns, and as JSON."""

import json
import re
import sys
import unicodedata

import pytest

from tests.cli.test_command_line import LEAVES
from tests.integration.command import here
from tests.integration.stored import StoredTables

WINDOW = ("--key", "EWR", "--window", "2013-01-02T18:00")
LOOKS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("sources", "look"): ("sources/departures",),
    ("pipelines",): (),
    ("plan",): ("departures", "--to", "2013-01-05"),
    ("runs",): ("departures",),
    ("verify",): ("departures", "2"),
    ("branches", "list"): ("departures",),
    ("state", "windows"): ("departures", "--limit", "5"),
    ("state", "timers"): ("departures", "--limit", "5"),
    ("state", "keyed"): ("departures",),
    ("state", "watermarks"): ("departures",),
    ("state", "diff"): ("departures", "2", "3", "--limit", "5"),
    ("health",): ("departures",),
    ("diff",): ("departures", "departures"),
    ("history",): ("departures", *WINDOW),
    ("explain",): ("departures", *WINDOW, "--elements"),
    ("late", "list"): ("departures",),
    ("late", "report"): ("departures",),
    ("late", "advise"): ("departures",),
    ("late", "redrive"): ("departures", "--reason", "seen", "--dry-run"),
    ("quarantine", "list"): ("departures",),
    ("sql",): ("departures", "SELECT origin, window_start, flights FROM published ORDER BY ALL LIMIT 5"),
    ("sinks", "list"): ("departures",),
    ("sinks", "set-aside"): ("departures",),
    ("maintain",): ("departures", "--dry-run"),
    ("erase",): ("departures", "--key", "EWR", "--reason", "asked", "--dry-run"),
    ("examples", "list"): (),
    ("doctor",): (),
}
# These write, serve or measure; their own tests look at what they print.
WORKS = {
    *(("run",), ("backfill",), ("publish",), ("branches", "drop"), ("serve",), ("bench",), ("conformance",)),
    *(("state", name) for name in ("fork", "restore", "close")),
    *(("sinks", name) for name in ("deliver", "retry", "reset")),
    ("examples", "load"),
}
RUN_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{16}")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def arguments_of(words: tuple[str, ...], replayed: StoredTables) -> tuple[str, ...]:
    takes_warehouse = any("--warehouse" in option.opts for option in LEAVES[words].params)
    where = ("--warehouse", str(replayed.warehouse)) if takes_warehouse else ()
    return (*words, *LOOKS[words], *where)


def test_every_verb_is_looked_at() -> None:
    assert LOOKS.keys() | WORKS == LEAVES.keys()
    assert not LOOKS.keys() & WORKS


@pytest.mark.slow
@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_it_fits_a_terminal_and_is_for_people(
    words: tuple[str, ...],
    replayed: StoredTables,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert here(*arguments_of(words, replayed)) == 0
    lines = COLOUR.sub("", capsys.readouterr().out).splitlines()
    assert lines
    for line in lines:
        # A command in backticks is for copying, and is not broken.
        assert len(line) <= 80 or "`" in line or str(replayed.warehouse) in line, line
        assert not [sign for sign in line if unicodedata.category(sign) == "Cc"], line
        assert not RUN_ID.search(line), line
        assert not re.search(r"\d{13}\b|_ms\b|\d\.\d{5,}", line), line


@pytest.mark.slow
@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_its_json_is_json(
    words: tuple[str, ...], replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*arguments_of(words, replayed), "--output", "json") == 0
    assert isinstance(json.loads(capsys.readouterr().out), list | dict)
