"""Every code block of the README and of docs/ runs, in the order of its page.

A page is one story: what a block leaves, the next one finds. It begins with a warehouse that all pages share;
the README begins with an empty one. A block that is marked slow runs with the slow tests. One that is marked
as parsed is only read: its commands and files exist, and its verbs and options are the command line's.
"""

import glob
import importlib.util
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import click
import pytest

from slackwater.cli.command_line import slackwater
from tests.architecture.tracked import ROOT
from tests.docs.blocks import Block, blocks_of, expected_exit_code, pages
from tests.integration.command import here
from tests.integration.stored import StoredTables

RUNNABLE = ("bash", "python", "sql")
OTHER_LANGUAGES = ("text", "json", "")
# Programs that a page may name besides ours.
PROGRAMS = {"docker", "export", "pip", "python"}


def story(page: str) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in RUNNABLE]


@pytest.mark.parametrize("page", pages())
def test_every_block_has_a_language_that_is_tested_or_none(page: str) -> None:
    assert [block for block in blocks_of(page) if block.language not in (*RUNNABLE, *OTHER_LANGUAGES)] == []


@pytest.mark.parametrize("page", pages())
def test_a_line_of_a_block_is_as_long_as_a_page_shows(page: str) -> None:
    assert [line for block in blocks_of(page) for line in block.text.splitlines() if len(line) > 98] == []


@pytest.mark.parametrize("page", [page for page in pages() if any(b.language == "bash" for b in story(page))])
def test_every_command_is_one(page: str) -> None:
    """Also of blocks that do not run: the command line knows verb and options, files and modules exist."""
    for block in story(page):
        if block.language == "bash":
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
            for command in block.commands:
                check_command(shlex.split(command))


def check_command(words: list[str]) -> None:
    while "=" in words[0]:  # variables of this command
        words = words[1:]
    program = words[0].removeprefix(".venv/bin/")
    if words[:2] == ["infra/airflow", "run"]:
        check_command(words[2:])
    elif program == "slackwater":
        check_verb(words[1:])
    elif program in ("airflow", "mkdocs"):
        assert (ROOT / ".venv" / "bin" / program).exists()
    elif program == "python" and words[1] == "-m":
        assert importlib.util.find_spec(words[2]) is not None, words
    elif program.startswith(("infra/", "./infra/")):
        assert (ROOT / program).stat().st_mode & 0o100, words
    else:
        assert program in PROGRAMS, f"{words}: what would run this?"
    assert [word for word in words if word.endswith((".yaml", ".yml")) and not (ROOT / word).exists()] == []


def check_verb(words: list[str]) -> None:
    """Parse verb and options as the command line does; raises click.ClickException."""
    command: click.Command = slackwater
    context = click.Context(slackwater)
    while isinstance(command, click.Group):
        name, subcommand, words = command.resolve_command(context, files_named(words))
        assert subcommand is not None
        command, context = subcommand, click.Context(subcommand, info_name=name, parent=context)
    command.parse_args(context, files_named(words))


def files_named(words: list[str]) -> list[str]:
    """`words`; those that name or match files of the repository as the shell gives them at its root."""
    named: list[str] = []
    for word in words:
        is_of_files = ("*" in word and " " not in word) or (ROOT / word).is_file()
        named += sorted(glob.glob(str(ROOT / word))) if is_of_files else [word]
    return named


class Story:
    """Runs the blocks of one page: files are written, commands and statements run, Python is executed."""

    def __init__(self, folder: Path, warehouse: Path) -> None:
        self.folder = folder
        self.warehouse = warehouse
        self.names: dict[str, object] = {}

    def run(self, block: Block) -> None:
        where = f"{block.page}:{block.line}"
        if block.title is not None:
            (self.folder / block.title).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, where, "exec"), self.names)
        elif block.language == "sql":
            assert StoredTables(self.warehouse, "departures").ask(block.text), where
        else:
            for line in filter(str.strip, block.lines):
                self._command(line, where)

    def _command(self, line: str, where: str) -> None:
        words = shlex.split(line, comments=True)
        if not words:
            return
        assert words[0] == "slackwater", f"{where}: {line}: mark the block, or let it be run"
        if "$RUN" in words:
            words[words.index("$RUN")] = self._newest_run_id(words[2])
        assert here(*map(self._path, files_named(words[1:]))) == expected_exit_code(line), f"{where}: {line}"

    def _newest_run_id(self, pipeline: str) -> str:
        """Of the last try at a slice, which the command before has printed."""
        attempts = StoredTables(self.warehouse, pipeline).rows("attempts")
        return str(max(attempts, key=lambda row: row["at"])["run_id"])

    def _path(self, word: str) -> str:
        """A file that the page has written by its own path."""
        return str(self.folder / word) if (self.folder / word).is_file() else word


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in pages() if page != "README.md" and any(block.test == "runs" for block in story(page))],
)
def test_the_blocks_of_a_page_run_one_after_the_other(page: str, warehouse: Path, tmp_path: Path) -> None:
    teller = Story(tmp_path, warehouse)
    for block in story(page):
        if block.test == "runs":
            teller.run(block)


def test_the_readmes_blocks_run_from_an_empty_warehouse(empty_warehouse: Path, tmp_path: Path) -> None:
    teller = Story(tmp_path, empty_warehouse)
    [_, *blocks] = story("README.md")  # but for the two commands that set everything up
    for block in blocks:
        if block.test == "runs":
            teller.run(block)
    days = [(row["slice_end"] - row["slice_start"]) // 86_400_000 for row in told_runs(empty_warehouse)]
    assert days == [1] * 12  # ten days, one that was staged, and one that was restated


def told_runs(warehouse: Path) -> list[dict]:
    return [row for row in StoredTables(warehouse, "departures").ledger() if row["kind"] == "run"]


def test_the_readmes_example_is_the_one_that_is_shipped(tmp_path: Path) -> None:
    [block] = [block for block in story("README.md") if block.title == "pipelines.py"]
    names: dict = {}
    exec(compile(block.text, "README.md", "exec"), names)
    from slackwater.examples.departures import departures

    own = [item for item in departures.expect if item not in departures.suites]
    assert len(departures.suites) == 1, "its file lies beside the one that is shipped, and README shows none"
    assert names["departures"].describe() == replace(departures, expect=own).describe()


SLOW = [(page, block) for page in pages() for block in story(page) if block.test == "slow"]


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for _, block in SLOW], ids=[f"{page}:{b.line}" for page, b in SLOW])
def test_a_slow_block_runs(block: Block, warehouse: Path, tmp_path: Path) -> None:
    Story(tmp_path, warehouse).run(block)


def test_a_block_that_is_wrong_would_be_found(empty_warehouse: Path, tmp_path: Path) -> None:
    wrong = Block(
        page="a page", line=1, language="bash", title=None, text="slackwater run nothing\n", test="runs"
    )
    with pytest.raises(AssertionError, match="a page:1"):
        Story(tmp_path, empty_warehouse).run(wrong)
    with pytest.raises(click.ClickException):
        check_command(["slackwater", "run", "departures", "--upto", "2013-01-02"])
    with pytest.raises(AssertionError, match="what would run this"):
        check_command(["spark-shell"])


def test_the_manifest_of_json_blocks_is_json() -> None:
    for page in pages():
        for block in blocks_of(page):
            if block.language == "json":
                json.loads(block.text)
