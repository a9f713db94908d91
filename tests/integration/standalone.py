"""The standalone Spark cluster of `infra/cluster`: a real master and two real workers, each a process of its
own in a folder of its own.

The interpreter of its executors finds no package of ours and no file of a user, unless a driver ships them.
No assertions here.
"""

import shlex
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.integration.command import environment
from tests.integration.stored import ROOT

# This interpreter, but blind to .pth files, through which an editable install is found, and to what its
# parent has on its path.
_PYTHON = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}" exec {python} -S "$@"
"""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        home: its folder.
        driver: the environment of a driver.
    """

    home: Path
    driver: dict[str, str]

    def kill_executor(self, worker: str) -> None:
        """SIGKILL for the executor of a worker, once it runs a task."""
        _await(lambda: self._busy_executor(worker), f"an executor of {worker} with a task").kill()

    def kill_worker(self, worker: str) -> None:
        """SIGKILL for a worker and its executor, once that runs a task, as when their machine is lost."""
        executor = _await(lambda: self._busy_executor(worker), f"an executor of {worker} with a task")
        self._worker(worker).kill()
        executor.kill()

    def log(self, worker: str) -> str:
        """What the worker has logged."""
        return (self.home / "run" / f"{worker}.log").read_text(errors="replace")

    def _worker(self, worker: str) -> psutil.Process:
        return psutil.Process(int((self.home / "run" / f"{worker}.pid").read_text()))

    def _busy_executor(self, worker: str) -> psutil.Process | None:
        """The executor of a worker that has started Python for tasks, which the first of them does."""
        with suppress(psutil.NoSuchProcess):
            for process in self._worker(worker).children():
                if process.status() != psutil.STATUS_ZOMBIE and _EXECUTOR in process.cmdline():
                    has_tasks = any("pyspark.daemon" in child.cmdline() for child in process.children())
                    return process if has_tasks else None
        return None


@contextmanager
def cluster(folder: Path, **variables: str) -> Iterator[Cluster]:
    """The cluster of `infra/cluster` in `folder`, up and registered, and stopped in the end. `variables` are
    those of its processes.
    """
    script = str(ROOT / "infra" / "cluster")
    own = {
        "SLACKWATER_CLUSTER_HOME": str(folder),
        "SLACKWATER_CLUSTER_PORT": str(_free_port()),
        "SLACKWATER_CLUSTER_MEMORY": "1g",
    }
    variables = environment(**own, **variables)
    log = folder / "cluster.log"
    with log.open("wb") as file:  # what it starts must hold no pipe of ours
        up = subprocess.run([script, "up"], env=variables, stdout=file, stderr=file, check=False)
    if up.returncode:
        raise RuntimeError(f"infra/cluster up ended with {up.returncode}:\n{log.read_text()}")
    try:
        lines = subprocess.run([script, "env"], env=variables, capture_output=True, text=True, check=True)
        exported = dict(word.split("=", 1) for word in shlex.split(lines.stdout) if "=" in word)
        yield Cluster(folder, environment(**exported, PYSPARK_PYTHON=str(blind_python(folder))))
    finally:
        subprocess.run([script, "down"], env=variables, check=True, timeout=120)


def blind_python(folder: Path) -> Path:
    """An interpreter for executors, made in `folder`, that finds no package of ours."""
    python = folder / "python"
    python.write_text(_PYTHON.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
    python.chmod(0o755)
    return python


def _await(look: Callable[[], psutil.Process | None], what: str) -> psutil.Process:
    for _ in range(2_000):
        if (process := look()) is not None:
            return process
        time.sleep(0.05)
    raise TimeoutError(f"there was never {what}")


def _free_port() -> int:
    """A port that is free, and so is the next one."""
    while True:
        with socket.socket() as probe, socket.socket() as next_probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
            with suppress(OSError, OverflowError):
                next_probe.bind(("127.0.0.1", port + 1))
                return port
