"""The command line: its verbs and their help, exit codes of errors, and packages of the user that have our
names.
"""

import gc
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import pyarrow as pa
import pytest

from slackwater import errors
from slackwater.cli import command_line
from slackwater.windowing.errors import ConfigurationError, WindowingError
from tests.integration.command import SCRIPT, environment, here, slackwater
from tests.integration.stored import ROOT

HEAVY = {"pyarrow", "deltalake", "pyspark"}
COMMANDS = ROOT / "slackwater" / "cli"
NO_VERBS = {
    "changed_rows",
    "__init__",
    "command_line",
    "demo",
    "tollgates_demo",
    "options",
    "printing",
    "progress",
    "recorded_cases",
    "recorded_functions",
    "recorded_slices",
    "sql_prompt",
    "table_layout",
}


def leaves() -> dict[tuple[str, ...], click.Command]:
    """Every command that does something, by the words that name it."""
    found: dict[tuple[str, ...], click.Command] = {}
    context = click.Context(command_line.slackwater)
    for verb in command_line.VERBS:
        command = command_line.slackwater.get_command(context, verb)
        assert command is not None
        parts = command.commands if isinstance(command, click.Group) else {"": command}
        found |= {(verb, name) if name else (verb,): part for name, part in parts.items()}
    context.close()
    return found


LEAVES = leaves()


def options_of(command: click.Command) -> set[str]:
    return {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }


def test_every_verb_has_its_file_and_every_file_its_verb() -> None:
    assert set(command_line.VERBS) == {file.stem for file in COMMANDS.glob("*.py")} - NO_VERBS


def test_the_group_lists_every_verb_and_what_it_does() -> None:
    process = slackwater("--help")
    assert process.returncode == 0
    words = " ".join(process.stdout.split())
    assert [verb for verb, what in command_line.VERBS.items() if f"{verb} {what}" not in words] == []


def test_an_unknown_verb_is_refused() -> None:
    process = slackwater("explode")
    assert process.returncode == 2 and "No such verb 'explode'." in process.stderr


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("rnus",), "'runs'"),
        (("state", "windws"), "'windows'"),
        (("run", "departures", "--too", "2013-01-02"), "'--to'"),
        (("late", "report", "departures", "--latenes", "5h"), "'--lateness'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_what_is_mistyped_suggests_the_nearest(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], suggestion: str
) -> None:
    assert here(*words) == 2
    assert suggestion in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert here("--version") == 0
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert capsys.readouterr().out == f"slackwater {declared}\n"


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_has_an_example_that_the_verb_takes(words: tuple[str, ...]) -> None:
    command = LEAVES[words]
    lines = re.findall(r"^\s*(?:Examples?: )?\s*(slackwater .*)$", command.help or "", re.MULTILINE)
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line.partition(" > ")[0])
        assert (name, *arguments[: len(words)]) == ("slackwater", *words)
        if "*" not in line:  # files that are asked for must be there
            command.make_context(" ".join(words), arguments[len(words) :])


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_of_every_verb_says_what_each_option_is_for(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert here(*words, "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    command = LEAVES[words]
    assert command.help and " ".join(command.help.split()).split(". ")[0] in shown
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert all(option.help and option.opts[0] in shown for option in options)


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_options_that_verbs_share_are_accepted_after_each_verb(words: tuple[str, ...]) -> None:
    """What reads or writes a pipeline's tables takes --warehouse and --pipelines, and every verb --output."""
    command = LEAVES[words]
    options = options_of(command)
    takes_pipeline = any(parameter.name == "pipeline" for parameter in command.params)
    if takes_pipeline:
        assert {"--warehouse", "--pipelines"} <= options
    moves = {
        ("branches", "drop"),
        ("state", "fork"),
        ("state", "restore"),
        ("state", "close"),
        ("sinks", "deliver"),
        ("sinks", "reset"),
    }
    assert ("--output" in options) == (words != ("serve",))  # its answer is a site
    if words[0] in ("run", "backfill", "publish") or words in moves:
        assert "--log-format" in options


def test_no_option_stands_before_the_verb() -> None:
    assert options_of(command_line.slackwater) == {"--version"}


# --- errors and exit codes


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PermanentError("why"), 1),
        (errors.UsageError("why"), 2),
        (errors.RetryableError("why"), 3),
        (errors.RejectedError("why"), 4),
        (errors.LostRaceError("why"), 5),
        (ConfigurationError("why"), 2),
        (WindowingError("why"), 1),
        (click.UsageError("why"), 2),
        (click.BadParameter("why"), 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_error_is_said_in_one_piece_and_becomes_its_exit_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    def work() -> None:
        raise error

    assert command_line.run(work) == code
    captured = capsys.readouterr()
    assert "why" in captured.err and captured.out == "" and "Traceback" not in captured.err


def test_an_error_of_the_core_that_may_pass_is_to_be_tried_again() -> None:
    def work() -> None:
        error = WindowingError("why")
        error.retryable = True
        raise error

    assert command_line.run(work) == 3


def test_an_interrupt_says_that_nothing_counts(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise KeyboardInterrupt

    assert command_line.run(work) == 1
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (7, 7), ("text", 0)])
def test_an_integer_that_a_verb_returns_is_its_exit_code(result: object, code: int) -> None:
    assert command_line.run(lambda: result) == code


def test_a_fault_of_ours_shows_its_traceback_and_exits_1() -> None:
    program = "from slackwater.cli import command_line\ncommand_line.finish(lambda: 1 / 0)"
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    assert process.returncode == 1
    assert "ZeroDivisionError" in process.stderr and "a fault of slackwater" in process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verb", [("pipelines",), ("pipelines", "--output", "json")], ids=["table", "json"])
def test_a_reader_that_has_gone_is_no_fault_of_ours(verb: tuple[str, ...]) -> None:
    """As in `slackwater pipelines | true`."""
    read, write = os.pipe()
    os.close(read)
    try:
        process = subprocess.run(
            [SCRIPT, *verb], stdout=write, stderr=subprocess.PIPE, text=True, check=False, env=environment()
        )
    finally:
        os.close(write)
    assert (process.returncode, process.stderr) == (1, "")


def test_the_exit_code_stands_whatever_the_end_of_the_process_meets() -> None:
    program = """
from slackwater.cli import command_line
def stop():
    raise OSError("the JVM is gone")
command_line.stop_spark = stop
command_line.finish(lambda: 4)
"""
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    assert process.returncode == 4


def test_the_command_line_imports_no_verb_before_it_is_asked_for() -> None:
    program = "import sys, slackwater.cli.command_line; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment(),
    )
    loaded = set(process.stdout.split())
    assert "slackwater.cli.command_line" in loaded
    verbs = {f"slackwater.cli.{verb}" for verb in command_line.VERBS}
    assert not {name for name in loaded if name in verbs or name.split(".")[0] in HEAVY}


def test_pandas_is_kept_out_only_as_long_as_a_verb_looks() -> None:
    program = """
import sys
from slackwater.cli import command_line
before = list(sys.meta_path)
with command_line.without_pandas():
    import pyarrow
    pyarrow.scalar(1)
    assert "pandas" not in sys.modules
assert sys.meta_path == before
import pandas
assert pyarrow.table({"a": [1]}).to_pandas().a.tolist() == [1]
"""
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    assert process.returncode == 0, process.stderr


def test_a_verb_that_looks_collects_garbage_seldom_and_leaves_the_process_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thresholds, in_verbs = gc.get_threshold(), list[int]()
    for verb in ("examples", "run", "serve"):
        command = click.Command(verb, callback=lambda: in_verbs.append(gc.get_threshold()[0]))
        module = SimpleNamespace(command=command)
        monkeypatch.setitem(sys.modules, f"slackwater.cli.{verb}", module)
        assert here(verb) == 0
        assert gc.get_threshold() == thresholds
    assert in_verbs[0] > in_verbs[1] == in_verbs[2] == thresholds[0], "a server lives long"


# --- somebody else's package


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jobs", "tables", "windowing", "dags"])
def test_a_package_of_the_user_that_has_a_folders_name_is_no_matter(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one')")
    process = slackwater("pipelines", env=environment(PYTHONPATH=str(tmp_path)))
    assert process.returncode == 0, process.stderr
    assert "departures" in process.stdout


def test_a_jobs_file_beside_a_pipelines_file_takes_no_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("raise SystemExit('the wrong jobs')\n")
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom slackwater.examples.departures import departures\nmine = "
        "replace(departures, name='mine')\n"
    )
    process = slackwater("pipelines", "--pipelines", "mine.py", "--output", "json", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert '"name": "mine"' in process.stdout


def test_the_command_works_from_any_folder_without_variables(tmp_path: Path) -> None:
    process = slackwater("pipelines", cwd=tmp_path, env={})
    assert process.returncode == 0, process.stderr
    assert "departures" in process.stdout


def test_a_function_that_exits_is_named_and_ends_with_a_documented_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command_line.run(lambda: sys.exit(7)) == 1
    assert "sys.exit(7) was called by a function of the pipeline" in capsys.readouterr().err


class PanicException(BaseException):
    """As Rust code raises it; each package has a class of this name."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "memory ran out (no more could be taken)"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "memory ran out (malloc of size 64 failed)"),
        (RuntimeError("can't start new thread"), "memory ran out (can't start new thread)"),
        (
            pa.ArrowException("Unknown error: Failed to launch worker thread: Resource unavailable"),
            "memory ran out (Unknown error: Failed to launch worker thread",
        ),
        (OSError(12, "Cannot allocate memory"), "memory ran out ([Errno 12] Cannot allocate memory)"),
        (
            ImportError("/lib/_duckdb.so: failed to map segment from shared object"),
            "memory ran out (/lib/_duckdb.so: failed to map segment",
        ),
        (
            ImportError("/lib/_duckdb.so: cannot open shared object file: Too many open files"),
            "too many files are open",
        ),
        (
            PanicException(
                'Failed to create a tokio runtime.: Os { code: 24, kind: Uncategorized, message: "Too many '
                'open files" }'
            ),
            "too many files are open",
        ),
    ],
)
def test_a_process_that_may_take_no_more_says_so_and_can_be_repeated(
    error: BaseException, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise error

    assert command_line.run(work) == 3
    text = capsys.readouterr().err
    assert words in text and "epeat the command" in text


@pytest.mark.parametrize("error", [PanicException("index out of bounds"), RuntimeError("of another kind")])
def test_other_errors_of_native_code_and_of_python_are_faults(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)):
        command_line.run(work)
