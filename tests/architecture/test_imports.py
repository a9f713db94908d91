"""Who may import whom: DAGs start commands by argv, nothing else knows Airflow, and what only looks stays
light.

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
    """The packages that a file imports beyond the standard library and `allowed_packages`; ours with their
    rooms, such as `slackwater.tables`.
    """
    names = [name.split(".") for name in imported(file)]
    packages = {".".join(parts[:2]) if parts[0] == "slackwater" else parts[0] for parts in names}
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
    return file.is_relative_to("slackwater/windowing/columnar") or file.is_relative_to(
        "slackwater/windowing/snapshot"
    )


def test_windowing_imports_the_standard_library_alone() -> None:
    strangers = {}
    for file in python_files("slackwater/windowing"):
        allowed_modules = {"numpy", "pyarrow"} if may_use_columns(file) else set()
        if file.parent == Path("slackwater/windowing/state/rocksdb"):
            allowed_modules = allowed_modules | {"rocksdict"}
        if foreign_modules := foreign(file, "slackwater.windowing") - allowed_modules:
            strangers[str(file)] = foreign_modules
    assert strangers == {}


def test_rocksdb_is_known_to_one_file_at_most() -> None:
    files = python_files("slackwater/windowing")
    assert len([file for file in files if "rocksdict" in foreign(file, "slackwater.windowing")]) <= 1


def test_nothing_but_dags_knows_airflow() -> None:
    rooms = [file for file in python_files("slackwater") if not file.is_relative_to("slackwater/airflow")]
    strangers = {"airflow", "slackwater.airflow"}
    assert {str(file) for file in [*rooms, *python_files("jobs")] if strangers & foreign(file)} == set()


def test_dags_start_commands_by_argv_alone() -> None:
    strangers = {}
    light = ["airflow", "anyio", "slackwater.airflow", "slackwater.args", "slackwater.pipelines"]
    for file in python_files("slackwater/airflow"):
        # The one file for which Airflow's API server shows the pages.
        allowed = [*light, "slackwater.pages", "fastapi"] if file.name == "pages.py" else light
        if foreign_modules := foreign(file, *allowed):
            strangers[str(file)] = foreign_modules
    assert strangers == {}


def test_a_dag_file_and_an_application_know_one_door() -> None:
    assert {name for file in python_files("dags") for name in foreign(file)} == {"slackwater.airflow"}
    assert {name for file in python_files("jobs") for name in foreign(file)} == {"slackwater.cli"}


def test_importing_windowing_brings_in_nothing_else() -> None:
    assert top_levels_after("import slackwater.windowing") == {"slackwater"}


def test_the_arguments_of_commands_need_the_standard_library_alone() -> None:
    assert top_levels_after("import slackwater.args") == {"slackwater"}


def test_the_front_door_has_every_name_that_a_pipelines_file_needs() -> None:
    import slackwater
    from slackwater import pipelines, sinks, windowing
    from slackwater.inspection.sql import engine_views

    rooms = [pipelines.__all__, sinks.__all__, windowing.__all__, engine_views.__all__]
    names = {name for room in rooms for name in room}
    assert set(dir(slackwater)) == names
    assert all(getattr(slackwater, name) is not None for name in names)
    assert len(names) == sum(map(len, rooms)), "a name that stands in two rooms hides one of them"
    with pytest.raises(AttributeError, match=r"no attribute 'qqq'; it has Aggregate, AggregateFunction, "):
        slackwater.qqq  # noqa: B018


def test_a_star_brings_the_names_without_arrow() -> None:
    names = "Pipeline, agg, CountWindows, SqlSink"
    assert not top_levels_after(f"from slackwater import *; {names}") & {*HEAVY, "pyarrow"}


def test_the_front_door_opens_no_room_before_it_is_asked() -> None:
    probe = (
        "import sys, slackwater.args; "
        "print(*sorted(name for name in sys.modules if name.startswith('slackwater')))"
    )
    process = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == [
        "slackwater",
        "slackwater.args",
        "slackwater.errors",
    ]


@pytest.mark.parametrize(
    "module",
    [
        "slackwater.pipelines",
        "slackwater.runtime.session",
        "slackwater.runtime.packaging",
        "slackwater.runtime.jars",
        "slackwater.cli.command_line",
    ],
)
def test_what_every_command_imports_stays_light(module: str) -> None:
    assert top_levels_after(f"import {module}") & HEAVY == set()
