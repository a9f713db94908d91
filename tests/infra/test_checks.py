"""The two check scripts fail whenever one of their tools fails: stand-ins for every tool fail in turn, and
the exit code must show it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT

CHECKS = ["ruff", "mypy", "lint-imports"]
TOOLS = ["awk", "bash", "chmod", "dirname", "env", "id", "ls", "mkdir", "mktemp", "rm", "sort", "tar"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The scripts, with a set-up that does nothing and tools that write down their arguments and exit as
    `exits/TOOL` says, else 0.
    """
    for script in ("infra/test", ".ci/run"):
        (tmp_path / script).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / script, tmp_path / script)
    write(tmp_path / "infra" / "setup.sh", "exit 0")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "exits").mkdir()
    for tool in [*CHECKS, "python"]:
        write(
            tmp_path / ".venv" / "bin" / tool,
            f'echo "{tool} $*" >>calls; [ ! -e exits/{tool} ] || exit "$(cat exits/{tool})"',
        )
    return tmp_path


def write(script: Path, body: str) -> None:
    script.write_text(f"#!/usr/bin/env bash\n{body}\n")
    script.chmod(0o755)


def run(repository: Path, script: str, *arguments: str, cwd: str | Path = "/") -> int:
    return subprocess.run(
        [repository / script, *arguments], cwd=cwd, capture_output=True, check=False
    ).returncode


def calls(repository: Path) -> list[str]:
    return (repository / "calls").read_text().splitlines()


def test_all_checks_and_all_quick_tests_run(repository: Path) -> None:
    assert run(repository, "infra/test") == 0
    *checks, pytest_call = calls(repository)
    assert checks == ["ruff check .", "ruff format --check .", "mypy ", "lint-imports --no-logo"]
    assert pytest_call.startswith("python -m pytest -m not slow")


def test_slow_runs_the_slow_tests_alone_and_apart_those_that_need_the_machine(repository: Path) -> None:
    assert run(repository, "infra/test", "--slow", "-x") == 0
    in_pairs, alone = calls(repository)
    assert in_pairs.startswith("python -m pytest -m slow and not alone --numprocesses=2 ")
    assert alone.startswith("python -m pytest -m slow and alone --numprocesses=0 ")
    assert in_pairs.endswith(" -x") and alone.endswith(" -x")


@pytest.mark.parametrize(("in_pairs", "alone", "exit_code"), [(5, 0, 0), (0, 5, 0), (1, 0, 1), (0, 1, 1)])
def test_slow_passes_with_tests_of_either_kind(
    repository: Path, in_pairs: int, alone: int, exit_code: int
) -> None:
    write(
        repository / ".venv" / "bin" / "python",
        f'case "$*" in *"not alone"*) exit {in_pairs} ;; *) exit {alone} ;; esac',
    )
    assert run(repository, "infra/test", "--slow") == exit_code


@pytest.mark.parametrize("tool", CHECKS)
def test_a_failing_check_fails_the_whole_and_hides_no_test(repository: Path, tool: str) -> None:
    (repository / "exits" / tool).write_text("1")
    assert run(repository, "infra/test") == 1
    assert calls(repository)[-1].startswith("python -m pytest")


@pytest.mark.parametrize("status", [1, 2, 5])
def test_failing_tests_and_no_tests_at_all_fail_the_whole(repository: Path, status: int) -> None:
    (repository / "exits" / "python").write_text(str(status))
    assert run(repository, "infra/test") == 1
    assert run(repository, "infra/test", "--slow") == 1


def test_a_path_is_that_of_the_callers_folder(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "test_it.py").write_text("")
    run(repository, "infra/test", "test_it.py::test_one", "-k", "name", cwd=elsewhere)
    assert calls(repository)[-1].endswith(f" {elsewhere}/test_it.py::test_one -k name")


def test_a_failed_set_up_runs_nothing(repository: Path) -> None:
    write(repository / "infra" / "setup.sh", "exit 1")
    assert run(repository, "infra/test") == 1
    assert not (repository / "calls").exists()


@pytest.mark.parametrize(("quick", "slow", "exit_code"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1)])
def test_continuous_integration_runs_both_halves_and_passes_only_with_both(
    repository: Path, machine: Path, quick: int, slow: int, exit_code: int
) -> None:
    write(
        repository / "infra" / "test",
        f'echo "test $*" >>calls; if [ "$1" = --slow ]; then exit {slow}; fi; exit {quick}',
    )
    assert integrate(repository, machine) == exit_code
    fast_run, slow_run = calls(repository)
    assert fast_run == "test "
    _, option, *words = slow_run.split()
    assert option == "--slow"
    paths = [word.rpartition("=")[2] for word in words if word != "--short-search"]
    assert paths and all((ROOT / path.partition("::")[0]).exists() for path in paths)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("failing", [None, "3.11.2", "3.13.0"])
def test_continuous_integration_runs_the_demo_by_every_python_and_the_tests_by_the_oldest(
    repository: Path, machine: Path, failing: str | None
) -> None:
    add_python(machine, "python3", "3.13.0")
    add_python(machine, "python3.12", "3.12.9")
    for installed in ("3.10.13", "3.11.7", "3.11.2", "3.12.11", "3.14.0"):
        add_python(machine.parent / "pyenv" / "versions" / installed / "bin", "python3", installed)
    python = 'echo "$0 $(python3 -V)"'
    write(
        repository / "infra" / "demo",
        f'[ -e .venv ] || [ -n "$(ls -A "$HOME")$SECRET" ] || {python} >>"{repository}/calls"\n'
        f'[ "$(python3 -V)" != "{failing}" ]',
    )
    write(repository / "infra" / "test", f"{python} >>calls")
    assert integrate(repository, machine, SECRET="s") == (0 if failing is None else 1)
    demos = [f"./infra/demo {version}" for version in ("3.11.2", "3.12.9", "3.13.0")]
    assert calls(repository) == [*demos, *["./infra/test 3.11.2"] * 2]


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The only folder on PATH: a few tools and no Python."""
    folder = tmp_path_factory.mktemp("machine") / "bin"
    folder.mkdir()
    for tool in TOOLS:
        tool_path = shutil.which(tool)
        assert tool_path is not None
        (folder / tool).symlink_to(tool_path)
    return folder


def add_python(folder: Path, name: str, version: str) -> None:
    """A stand-in for the Python of that version that knows its version and its place."""
    folder.mkdir(parents=True, exist_ok=True)
    write(
        folder / name,
        f'[ "$1" = -V ] && echo {version} && exit\n'
        f"exec {sys.executable} -c 'import sys; sys.executable = sys.argv[2]\n"
        f'sys.version_info = (*map(int, "{version}".split(".")), "final", 0)\n'
        'exec(sys.argv[1])\' "$2" "$0"',
    )


def integrate(repository: Path, machine: Path, **variables: str) -> int:
    """The exit code of .ci/run on a machine of that PATH."""
    environment = {"PATH": str(machine), "HOME": str(machine.parent), **variables}
    environment["PYENV_ROOT"] = str(machine.parent / "pyenv")
    command = [repository / ".ci" / "run"]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize(("options", "slow_tests"), [((), 6), (("--short-search",), 1)])
def test_long_searches_are_among_the_slow_tests_unless_short_ones_are_asked_for(
    options: tuple[str, ...], slow_tests: int
) -> None:
    file = "tests/properties/test_carried_watermarks.py"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-m",
        "slow",
        "--collect-only",
        *options,
        file,
    ]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.stdout.count("<Function ") == slow_tests
