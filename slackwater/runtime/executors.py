"""Asks a cluster's executors for their Python and packages before the first task goes to them.

The executor's JVM runs the question as any program, so that an executor answers even when its Python is
missing or too old, or lacks what Spark's own Python tasks need.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.errors import RetryableError
from slackwater.runtime.versions import PACKAGES, DifferentVersions, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any Python runs it. Its argument is the process id of the executor's JVM, by which answers are told apart.
_QUESTION = f"""
import json, platform, sys
answer = {{"host": platform.node(), "jvm": sys.argv[1], "executable": sys.executable,
          "python": platform.python_version(), "packages": {{}}}}
try:
    from importlib.metadata import PackageNotFoundError, version
except ImportError:
    pass
else:
    for name in {list(PACKAGES)!r}:
        try:
            answer["packages"][name] = version(name)
        except PackageNotFoundError:
            pass
print(json.dumps(answer))
"""
# $0 is the executors' Python, $1 the question. Its input is read, because Spark writes it.
_SHELL = """
cat >/dev/null
"$0" -c "$1" "$PPID" || printf '{"host": "%s", "jvm": "%s"}\\n' "$(uname -n)" "$PPID"
"""
_ROUNDS = 3
_SETTLED_S = 2


class ClusterUnavailable(RetryableError):
    """The cluster gives no answer or no executor, or has ended the application. Facts: master."""


@dataclass(frozen=True, order=True, kw_only=True)
class ExecutorPython:
    """The Python of the executors on one host: the interpreter's path there, and (name, version) of the
    packages that tasks compute with.
    """

    host: str
    executable: str
    python: str
    packages: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> str:
        packages = ", ".join(f"{name} {version}" for name, version in self.packages)
        return f"Python {self.python} ({self.executable}), {packages}"

    def fault(self) -> str | None:
        """How it differs from the driver and what to install, in a sentence or two; None where it doesn't."""
        if not self.python:
            return f"{self.executable} does not run there. {_OTHER_PYTHON}"
        if _minor(self.python) != _minor(_python_of_driver()):
            driver_python = _python_of_driver()
            return (
                f"{self.executable} is Python {self.python} where the driver has {driver_python}. Install "
                f"Python {_minor(driver_python)} there. {_OTHER_PYTHON}"
            )
        differing = _differing(self.packages)
        if not differing:
            return None
        differences = ", ".join(
            f"no {name}"
            if executor_version is None
            else f"{name} {executor_version} where the driver has {driver_version}"
            for name, (driver_version, executor_version) in differing.items()
        )
        pins = " ".join(f"{name}=={driver_version}" for name, (driver_version, _) in differing.items())
        command = f"{shlex.quote(self.executable)} -m pip install {pins}"
        return f"{self.executable} has {differences}. Install there: {command}"


_OTHER_PYTHON = "PYSPARK_PYTHON names the Python of the executors."


def pythons_of_executors(spark: SparkSession) -> list[ExecutorPython]:
    """The Pythons of the application's executors, one per host; waits for the first executors as any job
    does. Raises ClusterUnavailable when the cluster has ended the application.
    """
    context: Any = spark.sparkContext
    answers: dict[tuple[str, str], ExecutorPython] = {}
    with cluster_errors(context.master):
        for _ in range(_ROUNDS):
            slots = context.defaultParallelism
            command = ["sh", "-c", _SHELL, context.pythonExec, _QUESTION]
            lines = context._jsc.parallelize(list(range(slots)), slots).pipe(command).collect()
            answers |= _answers(lines, context.pythonExec)
            if len(answers) >= _executor_count(context):
                break
    return sorted(set(answers.values()))


@contextmanager
def cluster_errors(master: str) -> Iterator[None]:
    """An error of the JVM in the block becomes ClusterUnavailable."""
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        lines = [line.removeprefix(": ") for line in str(error).splitlines()]
        reason = next((line for line in lines if not line.startswith("An error occurred")), "no answer")
        raise ClusterUnavailable(
            f"Spark's cluster, {master}, does not answer, or has refused or ended the application: {reason} "
            "Look whether it is up, and repeat the command.",
            master=master,
        ) from error


def _executor_count(context: Any) -> int:
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def await_executors(spark: SparkSession, seconds: float) -> None:
    """Wait until executors have come, and no more of them come; raises ClusterUnavailable."""
    context: Any = spark.sparkContext
    end, count, since = time.monotonic() + seconds, 0, time.monotonic()
    while time.monotonic() < end:
        with cluster_errors(context.master):
            now = _executor_count(context)
        if now != count:
            count, since = now, time.monotonic()
        elif count and time.monotonic() - since >= _SETTLED_S:
            return
        time.sleep(0.2)
    if not count:
        master = context.master
        raise ClusterUnavailable(
            f"no executor of {master} within {seconds:.0f} s. Either no cluster is there, or none of its "
            "workers has as many cores and as much memory free as spark.executor.cores and "
            "spark.executor.memory ask for.",
            master=master,
        )


def check_executors(spark: SparkSession) -> None:
    """Compare the executors' Python and packages with the driver's, once for each Spark application.

    Called by each command that sends tasks to a cluster; executors that come later are compared by their
    first task.

    Raises:
        DifferentVersions: they differ; the message says on which host, and what to install.
        ClusterUnavailable: the cluster has ended the application.
    """
    application = spark.sparkContext.applicationId
    if application not in _checked_applications:
        refuse_others(pythons_of_executors(spark))
        _checked_applications.add(application)


_checked_applications: set[str] = set()


def refuse_others(pythons: Iterable[ExecutorPython]) -> None:
    faults = [(python, fault) for python in pythons if (fault := python.fault()) is not None]
    if faults:
        hosts = "; ".join(f"on {python.host} {fault}" for python, fault in faults)
        raise DifferentVersions(
            f"executors would compute with other versions than the driver: {hosts}",
            differing={
                name: pair for python, _ in faults for name, pair in _differing(python.packages).items()
            },
        )


def _answers(lines: Sequence[str], command: str) -> dict[tuple[str, str], ExecutorPython]:
    pythons = {}
    for line in lines:
        if line.startswith('{"host": '):
            answer = json.loads(line)
            pythons[answer["host"], answer["jvm"]] = ExecutorPython(
                host=answer["host"],
                executable=answer.get("executable") or command,
                python=answer.get("python", ""),
                packages=tuple(sorted(answer.get("packages", {}).items())),
            )
    return pythons


def _differing(packages: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str | None]]:
    """Package → (the driver's version, the executor's), of those in which they differ."""
    executor_versions = dict(packages)
    return {
        name: (version, executor_versions.get(name))
        for name, version in versions().items()
        if name in PACKAGES and executor_versions.get(name) != version
    }


def _python_of_driver() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _minor(python: str) -> str:
    """Major and minor of a version of Python, in which driver and executors must agree."""
    return ".".join(python.split(".")[:2])
