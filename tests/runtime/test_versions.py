"""Executors compute with the versions of the driver, or say which are not."""

import os
import pickle
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from slackwater.runtime import versions as module
from slackwater.runtime.packaging import package_zip
from slackwater.runtime.versions import DifferentVersions, check_versions, versions, with_version_check


def double_each(items: Iterator[int]) -> Iterator[int]:
    return (2 * item for item in items)


def printed_by(program: str, path: Path) -> str:
    """The output of a program in an interpreter that finds our packages in `path` alone, as executors do."""
    variables = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{sysconfig.get_path('purelib')}"}
    command = [sys.executable, "-S", "-c", program]
    return subprocess.run(
        command, cwd="/", env=variables, capture_output=True, text=True, check=True
    ).stdout.strip()


def change(monkeypatch: pytest.MonkeyPatch, **other_versions: str) -> None:
    """Make this process an executor with other versions."""
    of_executor = {**versions(), **other_versions}
    monkeypatch.setattr(module, "versions", lambda: of_executor)


def test_each_package_that_tasks_compute_with_has_a_version() -> None:
    assert {name: versions()[name] for name in ("pyarrow", "numpy")} == {
        name: version(name) for name in ("pyarrow", "numpy")
    }
    assert set(versions()) == {"pyarrow", "numpy", "deltalake", "rocksdict", "slackwater"}


def test_with_equal_versions_the_work_is_done() -> None:
    assert list(with_version_check(pickle.dumps(double_each))(iter([1, 2]))) == [2, 4]


def test_an_executor_with_other_versions_names_its_own_and_the_drivers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_driver = versions()
    change(monkeypatch, pyarrow="9.0.0", slackwater="other")
    with pytest.raises(
        DifferentVersions,
        match=r"pyarrow 9\.0\.0 where the driver has \d+\..*slackwater other where.*PYSPARK_PYTHON",
    ) as error:
        check_versions(of_driver)
    assert error.value.differing == {
        name: (of_driver[name], module.versions()[name]) for name in ("pyarrow", "slackwater")
    }


def test_a_package_that_an_executor_lacks_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    of_driver: Mapping[str, str] = {**versions(), "rocksdict": "1"}
    without = {name: value for name, value in versions().items() if name != "rocksdict"}
    monkeypatch.setattr(module, "versions", lambda: without)
    check_versions(of_driver)


def test_versions_are_compared_before_a_pickle_of_other_versions_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = with_version_check(b"what another numpy has pickled")
    change(monkeypatch, numpy="1.26.4")
    with pytest.raises(DifferentVersions, match="numpy"):
        next(run(iter([])))


def test_the_archive_that_is_shipped_has_the_version_of_its_files(tmp_path: Path) -> None:
    archive = package_zip(tmp_path)
    program = """import sys
from slackwater import tables
from slackwater.runtime.versions import versions
print(tables.__file__, versions()["slackwater"], "numpy" in sys.modules)"""
    file = f"{archive}/slackwater/tables/__init__.py"
    assert printed_by(program, archive) == f"{file} {versions()['slackwater']} False"


def test_code_that_differs_in_one_file_has_another_version(tmp_path: Path) -> None:
    with zipfile.ZipFile(package_zip(tmp_path)) as members:
        members.extractall(tmp_path / "other")
    with (tmp_path / "other" / "slackwater" / "windowing" / "triggers" / "counting.py").open("a") as file:
        file.write("# a word\n")
    program = "from slackwater.runtime.versions import versions; print(versions()['slackwater'])"
    assert printed_by(program, tmp_path / "other") not in ("", versions()["slackwater"])
