"""What a user gets from `pip install`: both packages whole, the module that starts the command, and nothing else of the repository."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT, tracked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-c", f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("slackwater-*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_every_file_of_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    packages = {"windowing", "jobs", "slackwater.py"}
    expected = {str(file.relative_to(ROOT)) for file in tracked() if file.relative_to(ROOT).parts[0] in packages}
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == expected
    assert {"jobs/runtime/ivy.xml", "jobs/runtime/ivysettings.xml", "jobs/runtime/log4j2.properties"} <= shipped


def test_the_wheel_carries_its_licence_and_its_command(wheel: zipfile.ZipFile) -> None:
    (licence,) = [name for name in wheel.namelist() if Path(name).name == "LICENSE"]
    assert wheel.read(licence).decode() == (ROOT / "LICENSE").read_text()
    (scripts,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "slackwater = slackwater:main" in wheel.read(scripts).decode().splitlines()


def test_the_command_that_the_wheel_names_exists() -> None:
    from jobs.command_line import main

    assert callable(main)
