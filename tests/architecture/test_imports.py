"""Who may import whom: dags start jobs by argv, jobs start windowing, and what only looks stays light.

Read from the source (every import statement, wherever it stands) and from fresh interpreters (what an import
really brings in).
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT, syntax_tree, tracked

HEAVY = {"pyspark", "py4j", "delta", "pandas", "great_expectations", "airflow"}


def python_files(package: str) -> list[Path]:
    files = [file.relative_to(ROOT) for file in tracked(".py") if file.is_relative_to(ROOT / package)]
    assert files, f"{package}/ holds no Python file: nothing would be checked"
    return files


def imported(file: Path) -> Iterator[str]:
    """The full names that a file imports; relative imports as the absolute ones that they stand for."""
    package = file.parent.parts
    for node in ast.walk(syntax_tree(ROOT / file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def foreign(file: Path, *allowed_packages: str) -> set[str]:
    """The packages that a file imports beyond the standard library and `own`; ours as their folders."""
    packages = {name.removeprefix("slackwater.").partition(".")[0] for name in imported(file)}
    return packages - sys.stdlib_module_names - set(allowed_packages)


def top_levels_after(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after `statement`, less those that it starts
    with.
    """
    probe = (
        "import sys, json; before = {name.partition('.')[0] for name in sys.modules}\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules} - before - "
        "sys.stdlib_module_names)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, f"`{statement}` fails in a fresh interpreter:\n{process.stderr}"
    return set(json.loads(process.stdout))


def may_use_columns(file: Path) -> bool:
    return file.is_relative_to("windowing/columnar") or file.is_relative_to("windowing/snapshot")


def test_windowing_imports_the_standard_library_alone() -> None:
    strangers = {}
    for file in python_files("windowing"):
        allowed_modules = {"numpy", "pyarrow"} if may_use_columns(file) else set()
        if file.parent == Path("windowing/state/rocksdb"):
            allowed_modules = allowed_modules | {"rocksdict"}
        if foreign_modules := foreign(file, "windowing") - allowed_modules:
            strangers[str(file)] = foreign_modules
    assert strangers == {}


def test_rocksdb_is_known_to_one_file_at_most() -> None:
    assert len([file for file in python_files("windowing") if "rocksdict" in foreign(file, "windowing")]) <= 1


def test_jobs_know_neither_airflow_nor_dags() -> None:
    assert {str(file) for file in python_files("jobs") if {"airflow", "dags"} & foreign(file)} == set()


def test_dags_start_jobs_by_argv_alone() -> None:
    strangers = {}
    for file in python_files("dags"):
        light = ["slackwater.jobs.args", "slackwater.jobs.pipelines"]
        packages = ["airflow", "dags", "jobs", "anyio"]
        if file.name == "pages.py":  # the one file for which Airflow's API server shows the pages
            light.append("slackwater.jobs.pages")
            packages.append("fastapi")
        foreign_modules = foreign(file, *packages)
        foreign_modules |= {
            name
            for name in imported(file)
            if name.startswith("slackwater.jobs.") and not name.startswith(tuple(light))
        }
        if foreign_modules:
            strangers[str(file)] = foreign_modules
    assert strangers == {}


def test_importing_windowing_brings_in_nothing_else() -> None:
    assert top_levels_after("import slackwater.windowing") == {"slackwater"}


def test_jobs_args_needs_the_standard_library_alone() -> None:
    assert top_levels_after("import slackwater.jobs.args") == {"slackwater"}


@pytest.mark.parametrize("folder", ["jobs", "windowing", "dags"])
def test_a_folder_of_ours_is_not_imported_by_its_own_name(folder: str) -> None:
    """In a checkout it lies on the path: a second copy of every class would come in with it."""
    probe = f"try:\n    import {folder}\nexcept ImportError as error:\n    print(error)"
    process = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"this folder is the package slackwater.{folder}" in process.stdout


def test_no_file_imports_a_folder_of_ours_by_its_own_name() -> None:
    short = {"jobs", "windowing", "dags"}
    files = [
        file
        for folder in ("jobs", "windowing", "dags", "slackwater", "tests")
        for file in python_files(folder)
    ]
    offenders = {str(file) for file in files if short & {name.partition(".")[0] for name in imported(file)}}
    assert offenders == set()


def test_the_front_door_has_every_name_that_a_pipelines_file_needs() -> None:
    import slackwater
    from slackwater import windowing
    from slackwater.jobs import pipelines, sinks
    from slackwater.jobs.inspection.sql import engine_views

    rooms = [pipelines.__all__, sinks.__all__, windowing.__all__, engine_views.__all__]
    names = {name for room in rooms for name in room}
    assert set(dir(slackwater)) == names
    assert all(getattr(slackwater, name) is not None for name in names)
    assert len(names) == sum(map(len, rooms)), "a name that stands in two rooms hides one of them"
    with pytest.raises(
        AttributeError, match=r"no attribute 'Pipelin'; it has Aggregate, AggregateFunction, "
    ):
        slackwater.Pipelin  # noqa: B018


def test_the_front_door_opens_no_room_before_it_is_asked() -> None:
    probe = (
        "import sys, slackwater.jobs.args; "
        "print(*sorted(name for name in sys.modules if name.startswith('slackwater')))"
    )
    process = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == [
        "slackwater",
        "slackwater.jobs",
        "slackwater.jobs.args",
        "slackwater.jobs.errors",
    ]


@pytest.mark.parametrize(
    "module",
    [
        "slackwater.jobs.pipelines",
        "slackwater.jobs.runtime.session",
        "slackwater.jobs.runtime.packaging",
        "slackwater.jobs.runtime.jars",
        "slackwater.jobs.command_line",
    ],
)
def test_what_every_command_imports_stays_light(module: str) -> None:
    assert top_levels_after(f"import {module}") & HEAVY == set()
