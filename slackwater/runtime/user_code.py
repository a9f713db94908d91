"""Ships the user's own code to tasks elsewhere: pipeline files are pickled by value, and for executors the
modules that they import by name go into an archive.

Knows Spark only; the caller, which has loaded the code, says which modules and files it consists of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from slackwater.runtime.cache import cache
from slackwater.runtime.packaging import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
