"""Packs our package and the user's modules into archives for executors, pickles the user's pipeline files by
value for tasks elsewhere, and gives the arguments that spark-submit needs.

Light: a DAG file computes its operator's arguments here, in a process that may have no Spark at all. The
caller, which has loaded the user's code, says which modules and files it consists of.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from slackwater.runtime.jars import declared_jars
from slackwater.runtime.java import launcher_home
from slackwater.runtime.settings import SETTINGS, cache, driver_options
from slackwater.runtime.versions import NOT_ON_EXECUTORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time of the zip format; files' own times would change the bytes


@dataclass(frozen=True, kw_only=True)
class SubmitSettings:
    """Arguments for a SparkSubmitOperator, by its names; paths are of this machine."""

    jars: str
    conf: dict[str, str]
    env_vars: dict[str, str]
    spark_binary: str


def package_zip(folder: Path) -> Path:
    """Writes the installed `slackwater` (without DAGs) to `folder/slackwater-<digest>.zip`, if missing."""
    return archive("slackwater", sorted(_entries()), folder)


def archive(title: str, entries: Sequence[tuple[str, Path]], folder: Path) -> Path:
    """Writes `entries` (name in the archive, file) into `folder` as `<title>-<digest>.zip`, unless that file
    exists; returns its path.

    Equal files give equal bytes. The name must end in .zip: Spark puts a .whl on no executor's path.
    """
    digest = hashlib.sha256()
    for name, file in entries:
        digest.update(f"{name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    target = folder / f"{title}-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process may be writing the same archive.
        draft = folder / f"{target.name}.{os.getpid()}"
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as members:
            for name, file in entries:
                members.writestr(_member(name), file.read_bytes())
        draft.replace(target)
    return target


def submit_settings() -> SubmitSettings:
    """The arguments with which spark-submit runs a job of ours from this environment. Starts and fetches
    nothing: DAG files call it at each parse. The jars that it names exist once set-up, `doctor` or any
    session has run.
    """
    binaries = Path(sys.executable).parent
    launcher = launcher_home()
    return SubmitSettings(
        jars=",".join(declared_jars()),
        conf={**SETTINGS, "spark.driver.extraJavaOptions": driver_options()},
        env_vars={
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **({"JAVA_HOME": str(launcher)} if (launcher / "bin" / "java").exists() else {}),
        },
        spark_binary=str(binaries / "spark-submit"),
    )


def _entries() -> Iterator[tuple[str, Path]]:
    """Name in the archive and file, for every file that is not compiled code."""
    package = Path(__file__).parents[1]
    for file in package.rglob("*"):
        name = file.relative_to(package)
        if file.is_file() and "__pycache__" not in name.parts and name.parts[0] not in NOT_ON_EXECUTORS:
            yield f"{package.name}/{name.as_posix()}", file


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=_EPOCH)
    member.external_attr = 0o644 << 16
    return member


def ship(spark: SparkSession, by_value: Iterable[ModuleType], files: Mapping[str, Path]) -> None:
    """Make the user's code known to all tasks that are sent from now on. May be called again.

    Args:
        by_value: modules whose classes and functions are pickled by value, as executors can't import them.
        files: path in an archive → Python file; put on every executor's path.
    """
    _register(by_value)
    if files:
        spark.sparkContext.addPyFile(str(archive("pipelines", sorted(files.items()), cache() / "packages")))


def pickled(value: object, by_value: Iterable[ModuleType]) -> bytes:
    """Pickle `value`, such as a task that calls user code, for a process of this machine that looks for
    modules where this one does; `by_value` as for `ship`.
    """
    from pyspark import cloudpickle

    _register(by_value)
    return bytes(cloudpickle.dumps(value))


def _register(by_value: Iterable[ModuleType]) -> None:
    from pyspark import cloudpickle

    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
