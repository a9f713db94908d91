"""A real YARN on this machine: a resource manager and one node manager, loopback only, with this machine's
files as its file system. Maven brings its jars, once.

No assertions here.
"""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from slackwater.runtime.java import find_java
from slackwater.runtime.settings import cache
from tests.integration.command import environment

POM = Path(__file__).with_name("pom.xml")
_JARS = "yarn-3.5.0"
_OPENED = ("java.lang", "java.util", "java.util.concurrent")
_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_STARTED_S = 240
_LOG = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.SimpleLayout
"""


class YarnUnavailable(Exception):
    """Maven is not there, or could not bring the jars."""


@dataclass(frozen=True)
class Yarn:
    """A running YARN.

    Attributes:
        conf: the folder that HADOOP_CONF_DIR names.
        address: host and port of the resource manager's REST interface.
        logs: the folder of the containers' logs.
    """

    conf: Path
    address: str
    logs: Path

    def applications(self) -> list[dict[str, Any]]:
        """The applications that it knows."""
        return (self.ask("apps")["apps"] or {"app": []})["app"]

    def ask(self, question: str) -> Any:
        """The answer of the resource manager's REST interface."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.address}/ws/v1/cluster/{question}", timeout=10) as answer:
            return json.load(answer)

    def all_logs(self) -> str:
        """What all containers have printed."""
        files = sorted(file for file in self.logs.rglob("*") if file.is_file())
        return "\n".join(f"== {file}\n{file.read_text(errors='replace')[-4000:]}" for file in files)


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """YARN in `folder`, with its one node registered. Raises YarnUnavailable."""
    jars = _jars(folder)
    ports = _free_ports(7)
    conf = folder / "conf"
    conf.mkdir()
    (conf / "log4j.properties").write_text(_LOG)
    _write(conf / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(folder / "tmp")})
    _write(conf / "yarn-site.xml", _settings(folder, ports))
    processes = []
    running = Yarn(conf, f"127.0.0.1:{ports[0]}", folder / "logs")
    try:
        for main in (_RESOURCE_MANAGER, _NODE_MANAGER):
            processes.append(_start(main, conf, jars))
        _await_node(running, processes)
        yield running
    finally:
        for process in reversed(processes):
            _stop(process)


def _jars(folder: Path) -> Path:
    """The jars of YARN in the cache; Maven brings them if they are not there."""
    jars = cache() / _JARS
    if jars.exists():
        return jars
    if shutil.which("mvn") is None:
        raise YarnUnavailable("there is no Maven on PATH")
    build = folder / "build"
    build.mkdir()
    shutil.copy(POM, build)
    maven = subprocess.run(
        [
            *("mvn", "-q", "-B", f"-Dmaven.repo.local={build / 'repository'}"),
            *("dependency:copy-dependencies", "-DoutputDirectory=jars"),
        ],
        cwd=build,
        capture_output=True,
        text=True,
        check=False,
    )
    if maven.returncode:
        raise YarnUnavailable(f"Maven could not bring the jars: {maven.stdout[-500:]}")
    jars.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(build / "jars", jars.with_name(f"{_JARS}.draft"), dirs_exist_ok=True).rename(jars)
    shutil.rmtree(build)
    return jars


def _settings(folder: Path, ports: list[int]) -> dict[str, str]:
    webapp, client, scheduler, tracker, admin, localizer, node_webapp = (
        f"127.0.0.1:{port}" for port in ports
    )
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    return {
        f"{manager}.hostname": "127.0.0.1",
        f"{manager}.webapp.address": webapp,
        f"{manager}.address": client,
        f"{manager}.scheduler.address": scheduler,
        f"{manager}.resource-tracker.address": tracker,
        f"{manager}.admin.address": admin,
        f"{manager}.scheduler.class": f"{_RESOURCE_MANAGER.rpartition('.')[0]}.scheduler.fifo.FifoScheduler",
        f"{node}.hostname": "127.0.0.1",
        f"{node}.address": "127.0.0.1:0",
        f"{node}.localizer.address": localizer,
        f"{node}.webapp.address": node_webapp,
        f"{node}.local-dirs": str(folder / "local"),
        f"{node}.log-dirs": str(folder / "logs"),
        f"{node}.resource.memory-mb": "6144",
        f"{node}.resource.cpu-vcores": "4",
        f"{node}.vmem-check-enabled": "false",
        f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.scheduler.minimum-allocation-mb": "256",
    }


def _write(file: Path, settings: dict[str, str]) -> None:
    lines = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{lines}</configuration>\n")


def _start(main: str, conf: Path, jars: Path) -> "subprocess.Popen[bytes]":
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    with (conf.parent / f"{main.rpartition('.')[2]}.log").open("wb") as log:
        return subprocess.Popen(
            [str(find_java()), "-Xmx512m", *opened, "-cp", f"{conf}:{jars}/*", main],
            cwd=conf.parent,
            env=environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:  # a node manager whose resource manager has gone waits for it
        process.kill()
        process.wait()


def _await_node(running: Yarn, processes: list["subprocess.Popen[bytes]"]) -> None:
    end = time.monotonic() + _STARTED_S
    while time.monotonic() < end and all(process.poll() is None for process in processes):
        try:
            if running.ask("metrics")["clusterMetrics"]["activeNodes"] == 1:
                return
        except OSError:
            pass
        time.sleep(0.5)
    logs = [file.read_text(errors="replace")[-2000:] for file in running.conf.parent.glob("*.log")]
    raise TimeoutError("YARN did not come up:\n" + "\n".join(logs))


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
