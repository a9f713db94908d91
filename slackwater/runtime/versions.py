"""Compares the versions of packages and of our code on driver and executors, which runs this file before it
imports anything that a task needs. Standard library only.
"""

import hashlib
import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from slackwater.errors import PermanentError

PACKAGES = ("pyarrow", "numpy", "deltalake", "rocksdict")
# What starts commands: DAGs, and the PySpark applications.
NOT_ON_EXECUTORS = frozenset({"airflow", "jobs"})

Work = Callable[[Iterator[Any]], Iterator[Any]]


class DifferentVersions(PermanentError):
    """An executor has other versions than the driver. Facts: differing, name → (driver's, executor's)."""


@cache
def versions() -> Mapping[str, str]:
    """Name → version of the packages that tasks compute with, and our code; Spark itself compares Python."""
    package_versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            package_versions[name] = version(name)
        except PackageNotFoundError:  # if a task needs it, its import names it
            continue
    return {**package_versions, "slackwater": _digest_of_our_code()}


def check_versions(driver_versions: Mapping[str, str]) -> None:
    """Compare the driver's versions with this executor's, on the executor; raises DifferentVersions."""
    executor_versions = versions()
    differing = {
        name: (driver_version, executor_versions[name])
        for name, driver_version in driver_versions.items()
        if executor_versions.get(name, driver_version) != driver_version
    }
    if differing:
        differences = ", ".join(
            f"{name} {executor_version} where the driver has {driver_version}"
            for name, (driver_version, executor_version) in differing.items()
        )
        raise DifferentVersions(
            f"the executor on {socket.gethostname()} has {differences}. Give the Python of the executors "
            f"({sys.executable}, chosen by "
            "PYSPARK_PYTHON) the driver's versions.",
            differing=differing,
        )


def with_version_check(work: bytes) -> Work:
    """The pickled `work` as executors run it: versions are compared before any of it is unpickled."""
    driver_versions = versions()

    def run(items: Iterator[Any]) -> Iterator[Any]:
        check_versions(driver_versions)
        yield from pickle.loads(work)(items)

    return run


def _digest_of_our_code() -> str:
    """A digest of our sources, which shows when an executor imports another installation than ours."""
    digest = hashlib.sha256()
    folder = files("slackwater")
    entries = [entry for entry in folder.iterdir() if entry.name not in NOT_ON_EXECUTORS]
    for name, file in sorted(_modules("slackwater", entries)):
        digest.update(f"{name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _modules(name: str, entries: Iterable[Traversable]) -> Iterator[tuple[str, Traversable]]:
    for entry in entries:
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _modules(f"{name}/{entry.name}", entry.iterdir())
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry
