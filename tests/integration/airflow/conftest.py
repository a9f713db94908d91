"""Airflow as a user runs it: the real processes, started and stopped by `infra/airflow`, asked through its
own API.

Knows nothing of what the DAGs do.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 300
# The server's binary, where this machine has one. Its folder must be open to the user postgres.
POSTGRES = shutil.which("pg_ctl") or next(
    iter(sorted(Path("/").glob("usr/lib/postgresql/*/bin/pg_ctl"))), None
)
BROKEN_OFF = pytest.StashKey[str]()

Found = TypeVar("Found")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.airflow)
            item.add_marker(pytest.mark.timeout(1200))


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if (
        call.excinfo is not None
        and not call.excinfo.errisinstance(pytest.skip.Exception)
        and item.parent is not None
    ):
        item.parent.stash.setdefault(BROKEN_OFF, item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each module tells one story: what comes after a failure would only wait for what never happens."""
    if item.parent is not None and BROKEN_OFF in item.parent.stash:
        pytest.fail(f"the story broke off at {item.parent.stash[BROKEN_OFF]}", pytrace=False)


@dataclass(frozen=True)
class Task:
    """A task instance as Airflow shows it."""

    state: str | None
    tries: int


@dataclass(frozen=True)
class Airflow:
    """The running processes: their environment, their folder and their API, which is asked with `token` where
    it wants one.
    """

    environment: dict[str, str]
    home: Path
    port: int
    token: str | None = None
    leaders: set[int] = field(default_factory=set)

    def script(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `infra/airflow ARGUMENTS` to its end."""
        # Output goes to files: the processes that `up` starts must not hold a pipe of ours.
        said = self.home / "said.log"
        with said.open("w") as output:
            done = subprocess.run(
                [str(ROOT / "infra" / "airflow"), *arguments],
                env=self.environment,
                cwd=self.home,
                stdout=output,
                stderr=output,
                check=False,
            )
        text = said.read_text()
        assert not check or done.returncode == 0, (
            f"infra/airflow {' '.join(arguments)} ended with {done.returncode}:\n{text}"
        )
        return subprocess.CompletedProcess(done.args, done.returncode, text)

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """The answer of Airflow's API; a body makes it a POST."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v2/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                **({} if self.token is None else {"Authorization": f"Bearer {self.token}"}),
            },
            method=method,
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def runs(self, dag: str) -> dict[str, str]:
        """State by run id, in order of the time from which each may run."""
        found = self.ask(f"dags/{dag}/dagRuns?order_by=run_after")["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in found}

    def tasks(self, dag: str, run: str) -> dict[str, Task]:
        found = self.ask(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: Task(task["state"], task["try_number"]) for task in found}

    def log(self, dag: str, run: str, task: str) -> str:
        """The newest try's log of a task."""
        folder = self.home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        return max(folder.glob("attempt=*.log"), key=lambda file: file.stat().st_mtime).read_text()

    def ended(self, dag: str, run: str) -> str:
        """Waits until the run has ended; gives its state."""

        def state() -> str | None:
            found: str = self.ask(f"dags/{dag}/dagRuns/{run}")["state"]
            return found if found in ("success", "failed") else None

        return await_(state, f"{run} to end")

    def events(self) -> list[tuple[str, int]]:
        """(day, seq) of each asset event, oldest first."""
        found = self.ask("assets/events?order_by=timestamp&limit=100")["asset_events"]
        return [(event["partition_key"], event["extra"]["seq"]) for event in found]


def await_(look: Callable[[], Found | None], what: str) -> Found:
    """Looks again and again until there is something to be seen."""
    for _ in range(PATIENCE_S):
        try:
            found = look()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            found = None
        if found is not None:
            return found
        time.sleep(1)
    raise AssertionError(f"waited {PATIENCE_S} s for {what}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(home: Path, *options: str, **variables: str) -> Iterator[Airflow]:
    """Starts the processes; stops them when the test is over, and fails when one of them, or of their
    children, is left.
    """
    home.mkdir()
    port = free_port()
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "JAVA_HOME", "SLACKWATER_CACHE", "LANG")
        if name in os.environ
    }
    environment = {
        **kept,
        "AIRFLOW_HOME": str(home),
        "SLACKWATER_AIRFLOW_PORT": str(port),
        "SLACKWATER_MASTER": "local[2]",
        "SLACKWATER_SPARK_BIN": str(Path(sys.executable).parent),
        **variables,
    }
    airflow = Airflow(environment, home, port)
    try:
        airflow.script("up", *options)
        airflow.leaders.update(int(file.read_text()) for file in (home / "run").glob("*.pid"))
        yield airflow
    finally:
        airflow.script("down")
    assert processes_of(airflow) == []


def processes_of(airflow: Airflow) -> list[str]:
    """The living processes that were started with this AIRFLOW_HOME or belong to a session that one of the
    three leads.

    Both, because a process that gives itself a title overwrites its environment, and one that a task starts
    may lead a session of its own.
    """
    marker = f"AIRFLOW_HOME={airflow.home}\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title, _, rest = (process / "stat").read_text().rpartition(") ")
            state, _, _, session = rest.split()[:4]
            if state != "Z" and (
                int(session) in airflow.leaders or marker in (process / "environ").read_bytes()
            ):
                found.append(f"{title}) {state}")
        except OSError:  # it has ended, or is another user's
            continue
    return found
