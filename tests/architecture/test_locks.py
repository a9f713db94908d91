"""The locks name no place to fetch from, pin everything by digest, and are what is installed."""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.tracked import ROOT

LOCKS = ["requirements.lock", "requirements-jre.lock", "requirements-redis-server.lock"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def entries(lock: str) -> list[str]:
    """The lock's requirements, each joined to one line; comments left out."""
    lines = [
        line
        for line in (ROOT / lock).read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    return "\n".join(lines).replace("\\\n", "").splitlines()


def pins(lock: str) -> list[Requirement]:
    return [Requirement(entry.split("--hash")[0].strip()) for entry in entries(lock)]


def direct(extras: Iterable[str]) -> list[Requirement]:
    project = PROJECT["project"]
    named = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    return [Requirement(line) for line in [*named, *PROJECT["dependency-groups"]["dev"]]]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place_to_fetch_from(lock: str) -> None:
    content = (ROOT / lock).read_text()
    assert "://" not in content
    assert (
        re.findall(r"(?m)^\s*(?:-i|-f|--[a-z-]*(?:index|links|host)[a-z-]*)\b.*", "\n".join(entries(lock)))
        == []
    )


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_one_version_and_digests(lock: str) -> None:
    shape = re.compile(r"[a-z0-9-]+==[^ ;]+( ; [^\\]+?)?\s+(--hash=sha256:[0-9a-f]{64}\s*)+")
    assert entries(lock)
    assert [entry[:80] for entry in entries(lock) if not shape.fullmatch(entry)] == []


def test_the_lock_satisfies_what_the_project_asks_for() -> None:
    locked = {
        canonicalize_name(pin.name): pin
        for pin in pins("requirements.lock")
        if pin.marker is None or pin.marker.evaluate()
    }
    extras = set(PROJECT["project"]["optional-dependencies"]) - {"jre"}
    unmet = []
    for requirement in direct(extras):
        pin = locked.get(canonicalize_name(requirement.name))
        if pin is None or not requirement.specifier.contains(next(iter(pin.specifier)).version):
            unmet.append(str(requirement))
    assert unmet == []


def test_the_build_back_end_is_locked_too() -> None:
    locked = {pin.name for pin in pins("requirements.lock")}
    assert {Requirement(line).name for line in PROJECT["build-system"]["requires"]} <= locked


def test_the_packaged_java_is_the_same_everywhere() -> None:
    requested_lines = (ROOT / "requirements-jre.in").read_text().split()
    assert requested_lines == PROJECT["project"]["optional-dependencies"]["jre"]
    assert [str(pin) for pin in pins("requirements-jre.lock")] == requested_lines


def test_the_redis_server_of_an_example_is_no_part_of_what_everybody_installs() -> None:
    [server] = pins("requirements-redis-server.lock")
    [requested] = map(Requirement, (ROOT / "requirements-redis-server.in").read_text().splitlines())
    assert (server.name, server.specifier) == (requested.name, requested.specifier)
    named = direct(PROJECT["project"]["optional-dependencies"])
    assert server.name not in {entry.name for entry in [*named, *pins("requirements.lock")]}


def test_what_is_installed_is_what_is_locked() -> None:
    different = {}
    for pin in pins("requirements.lock"):
        if pin.marker is not None and not pin.marker.evaluate():
            continue
        try:
            installed = version(pin.name)
        except PackageNotFoundError:
            installed = "nothing"
        if not pin.specifier.contains(installed if installed != "nothing" else "0", prereleases=True):
            different[str(pin)] = installed
    assert different == {}


def test_the_second_owner_of_pysparks_files_is_not_installed() -> None:
    with pytest.raises(PackageNotFoundError):
        version("pyspark-client")
    import pyspark

    assert (Path(pyspark.__file__).parent / "jars").is_dir()
