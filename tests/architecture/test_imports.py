"""Who may import whom: dags start jobs by argv, jobs start windowing, and what only looks stays light.

Read from the source (every import statement, wherever it stands) and from fresh interpreters (what an import really brings in).
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT, tracked

HEAVY = {"pyspark", "py4j", "delta", "pandas", "great_expectations", "airflow"}


def python_files(package: str) -> list[Path]:
    files = [file.relative_to(ROOT) for file in tracked(".py") if file.is_relative_to(ROOT / package)]
    assert files, f"{package}/ holds no Python file: nothing would be checked"
    return files


def imported(file: Path) -> Iterator[str]:
    """The full names that a file imports; relative imports as the absolute ones that they stand for."""
    package = file.parent.parts
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def foreign(file: Path, *own: str) -> set[str]:
    """The top-level packages that a file imports beyond the standard library and `own`."""
    return {name.partition(".")[0] for name in imported(file)} - sys.stdlib_module_names - set(own)


def top_levels_after(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after `statement`, less those that it starts with."""
    probe = (
        "import sys, json; before = {name.partition('.')[0] for name in sys.modules}\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules} - before - sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"`{statement}` fails in a fresh interpreter:\n{done.stderr}"
    return set(json.loads(done.stdout))


def may_use_columns(file: Path) -> bool:
    return file.is_relative_to("windowing/columnar") or file.is_relative_to("windowing/state/snapshot")


def test_windowing_imports_the_standard_library_alone() -> None:
    strangers = {}
    for file in python_files("windowing"):
        allowed = {"numpy", "pyarrow"} if may_use_columns(file) else set()
        if file.parent == Path("windowing/state"):
            allowed = allowed | {"rocksdict"}
        if found := foreign(file, "windowing") - allowed:
            strangers[str(file)] = found
    assert strangers == {}


def test_rocksdb_is_known_to_one_file_at_most() -> None:
    assert len([file for file in python_files("windowing") if "rocksdict" in foreign(file, "windowing")]) <= 1


def test_jobs_know_neither_airflow_nor_dags() -> None:
    assert {str(file) for file in python_files("jobs") if {"airflow", "dags"} & foreign(file)} == set()


def test_dags_start_jobs_by_argv_alone() -> None:
    light = ("jobs.args", "jobs.pipelines")
    strangers = {}
    for file in python_files("dags"):
        found = foreign(file, "airflow", "dags", "jobs")
        found |= {name for name in imported(file) if name.startswith("jobs.") and not name.startswith(light)}
        if found:
            strangers[str(file)] = found
    assert strangers == {}


def test_importing_windowing_brings_in_nothing_else() -> None:
    assert top_levels_after("import windowing") == {"windowing"}


def test_jobs_args_needs_the_standard_library_alone() -> None:
    assert top_levels_after("import jobs.args") == {"jobs"}


@pytest.mark.parametrize(
    "module", ["jobs.pipelines", "jobs.runtime.session", "jobs.runtime.packaging", "jobs.runtime.jars", "jobs.command_line"]
)
def test_what_every_command_imports_stays_light(module: str) -> None:
    assert top_levels_after(f"import {module}") & HEAVY == set()
