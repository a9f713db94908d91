"""A standalone Spark cluster on this machine: a real master and a real worker, each a process of its own, as
an operator would start them.

The interpreter of its executors finds no package of ours and no file of a user, unless a driver ships them.
No assertions here.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slackwater.jobs.runtime.jars import spark_home
from slackwater.jobs.runtime.java import java_home
from tests.integration.command import environment

# This interpreter, but blind to .pth files, through which an editable install is found, and to what its
# parent has on its path.
_PYTHON = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}" exec {python} -S "$@"
"""


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Master and worker in `folder`, up and registered; gives the environment of a driver. Both are stopped
    in the end.
    """
    python = blind_python(folder)
    port, ui = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    started = []
    try:
        started.append(
            _start(
                folder,
                "master",
                "org.apache.spark.deploy.master.Master",
                "--port",
                str(port),
                "--webui-port",
                str(ui),
            )
        )
        _wait_for(folder / "master.log", "I have been elected leader")
        options = (
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            str(folder / "work"),
            "--webui-port",
            str(_free_port()),
        )
        started.append(_start(folder, "worker", "org.apache.spark.deploy.worker.Worker", *options, master))
        _wait_for(folder / "worker.log", "Successfully registered with master")
        yield environment(SLACKWATER_MASTER=master, PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)


def blind_python(folder: Path) -> Path:
    """An interpreter for executors, made in `folder`, that finds no package of ours."""
    python = folder / "python"
    python.write_text(_PYTHON.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
    python.chmod(0o755)
    return python


def _start(folder: Path, name: str, main: str, *options: str) -> "subprocess.Popen[bytes]":
    """A daemon of Spark in the foreground, in a process group of its own, in a folder without anything of
    ours.
    """
    home = folder / name
    home.mkdir()
    variables = environment(
        SPARK_HOME=str(spark_home()),
        JAVA_HOME=str(java_home()),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_NO_DAEMONIZE="1",
    )
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), main, "--host", "127.0.0.1", *options],
            cwd=home,
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(log: Path, said: str) -> None:
    for _ in range(600):
        if re.search(said, log.read_text(errors="replace")):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{log.name} never said {said!r}:\n{log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
