"""The Python of the executors beside the driver's: what differs, and what to install where."""

import platform
from collections.abc import Mapping

import pytest

from slackwater.runtime.executors import ExecutorPython, refuse_others
from slackwater.runtime.versions import PACKAGES, DifferentVersions, versions

HERE = platform.python_version()
OF_DRIVER = {name: versions()[name] for name in PACKAGES}


def python_with(
    packages: Mapping[str, str], python: str = HERE, executable: str = "/nodes/python"
) -> ExecutorPython:
    return ExecutorPython(
        host="node-7", executable=executable, python=python, packages=tuple(sorted(packages.items()))
    )


def test_the_drivers_versions_are_no_fault_whatever_the_last_digit_of_python() -> None:
    major, minor, _ = HERE.split(".")
    pythons = [python_with(OF_DRIVER), python_with(OF_DRIVER, f"{major}.{minor}.99")]
    assert [python.fault() for python in pythons] == [None, None]
    refuse_others(pythons)
    assert f"Python {HERE} (/nodes/python), deltalake {OF_DRIVER['deltalake']}, numpy" in pythons[0].summary


def test_missing_and_other_packages_are_named_with_the_command_that_installs_the_drivers() -> None:
    packages = {**OF_DRIVER, "numpy": "1.26.4"}
    del packages["rocksdict"]
    numpy, rocksdict = OF_DRIVER["numpy"], OF_DRIVER["rocksdict"]
    assert python_with(packages, executable="/opt/with space/python").fault() == (
        f"/opt/with space/python has numpy 1.26.4 where the driver has {numpy}, no rocksdict. Install there: "
        f"'/opt/with space/python' -m pip install numpy=={numpy} rocksdict=={rocksdict}"
    )


@pytest.mark.parametrize("python", ["3.9.2", "2.7.18", "4.0.0"])
def test_another_python_is_named_before_its_packages(python: str) -> None:
    fault = python_with({}, python).fault()
    assert fault is not None
    assert fault.startswith(
        f"/nodes/python is Python {python} where the driver has {HERE}. Install Python 3.1"
    )
    assert "PYSPARK_PYTHON" in fault


def test_a_python_that_does_not_run_there_is_named() -> None:
    fault = python_with({}, "", "/nowhere/python").fault()
    assert fault == "/nowhere/python does not run there. PYSPARK_PYTHON names the Python of the executors."


def test_the_refusal_names_the_hosts_that_differ_alone() -> None:
    other = ExecutorPython(
        host="node-9", executable="/nodes/python", python=HERE, packages=tuple(OF_DRIVER.items())[1:]
    )
    missing = next(iter(OF_DRIVER))
    with pytest.raises(DifferentVersions, match=rf"on node-9 /nodes/python has no {missing}\.") as error:
        refuse_others([python_with(OF_DRIVER), other])
    assert "node-7" not in str(error.value)
    assert error.value.differing == {missing: (OF_DRIVER[missing], None)}
