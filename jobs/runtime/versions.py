"""The versions that tasks compute with, on the driver and on executors: where they differ, results may
differ, and pickles may not load.

Standard library only: an executor asks this file before anything else of ours, or of what a task needs, is
imported there.
"""

import hashlib
import pickle
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from slackwater.jobs.errors import PermanentError

_PACKAGES = ("pyarrow", "numpy", "deltalake", "rocksdict")
_OURS = ("slackwater.jobs", "slackwater.windowing")

Work = Callable[[Iterator[Any]], Iterator[Any]]


class DifferentVersions(PermanentError):
    """An executor computes with other versions than the driver. Facts: differing, name → (the driver's, the
    executor's).
    """


@cache
def versions() -> Mapping[str, str]:
    """Name → version of the packages that tasks compute with, as far as they are installed, and of our own
    code. Spark compares Pythons.
    """
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # one that a task needs and lacks is named when it is imported
            continue
    return {**found, "slackwater": _digest_of_our_code()}


def check_versions(of_driver: Mapping[str, str]) -> None:
    """Called on an executor.

    Raises:
        DifferentVersions: something has another version here than on the driver.
    """
    here = versions()
    differing = {
        name: (wanted, here[name]) for name, wanted in of_driver.items() if here.get(name, wanted) != wanted
    }
    if differing:
        listed = ", ".join(
            f"{name} {found} where the driver has {wanted}" for name, (wanted, found) in differing.items()
        )
        raise DifferentVersions(
            f"the executor on {socket.gethostname()} has {listed}. Give the Python of the executors "
            f"({sys.executable}, chosen by "
            "PYSPARK_PYTHON) the driver's versions.",
            differing=differing,
        )


def checked(work: bytes) -> Work:
    """The pickled function of an iterator as tasks on executors run it: versions are compared before anything
    of it is unpickled.
    """
    of_driver = versions()

    def run(items: Iterator[Any]) -> Iterator[Any]:
        check_versions(of_driver)
        yield from pickle.loads(work)(items)

    return run


def _digest_of_our_code() -> str:
    """Ours is shipped to executors; another that is installed there must not come before it."""
    digest = hashlib.sha256()
    for name, file in sorted(
        (name, file) for package in _OURS for name, file in _modules(package, files(package))
    ):
        digest.update(f"{name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _modules(name: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _modules(f"{name}/{entry.name}", entry)
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry
