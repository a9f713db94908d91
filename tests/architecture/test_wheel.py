"""What a user gets from `pip install`: the package, the PySpark applications inside it, and nothing else of
the repository.
"""

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


def test_the_wheel_holds_one_top_level_name_and_every_file_of_ours(wheel: zipfile.ZipFile) -> None:
    names = [str(file.relative_to(ROOT)) for file in tracked()]
    expected = {f"slackwater/{name}" for name in names if name.startswith("jobs/")}
    expected |= {name for name in names if name.startswith("slackwater/")}
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in shipped} == {"slackwater"}
    assert shipped == expected
    runtime = {"ivy.xml", "ivysettings.xml", "log4j2.properties", "log4j2-file.properties"}
    assert {f"slackwater/runtime/{name}" for name in runtime} <= shipped


def test_the_wheel_carries_its_licence_and_its_command(wheel: zipfile.ZipFile) -> None:
    (licence,) = [name for name in wheel.namelist() if Path(name).name == "LICENSE"]
    assert wheel.read(licence).decode() == (ROOT / "LICENSE").read_text()
    (scripts,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "slackwater = slackwater.cli.command_line:application" in wheel.read(scripts).decode().splitlines()


def test_the_command_that_the_wheel_names_exists() -> None:
    from slackwater.cli.command_line import application

    assert callable(application)
