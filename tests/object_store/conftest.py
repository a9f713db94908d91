"""An object store of this machine behind a proxy, and warehouses on it.

Its objects are plain files, so that tests read by the local file system what the product wrote by S3.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs import opened_pipeline
from tests.integration.command import CommandResult, driver, environment, here
from tests.integration.driver import Plan
from tests.integration.stored import ROOT, StoredTables
from tests.object_store.proxy import Proxy, proxy_of
from tests.object_store.server import BUCKET, credentials, server_on

PIPELINES = ROOT / "tests" / "integration" / "hourly.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "store" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)  # the server takes minutes to build, the first time


@dataclass(frozen=True)
class Store:
    """An object store.

    Attributes:
        folder: the folder that is its bucket.
        proxy: what stands before it.
    """

    folder: Path
    proxy: Proxy

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a process that uses the store."""
        return credentials(self.proxy.port)


@dataclass(frozen=True)
class HourlyOnS3:
    """The pipeline `hourly` in a warehouse of the object store."""

    store: Store
    name: str

    @property
    def where(self) -> tuple[str, ...]:
        return ("--warehouse", f"s3://{BUCKET}/{self.name}", "--pipelines", str(PIPELINES))

    @property
    def stored(self) -> StoredTables:
        """What the store holds, read as files."""
        return StoredTables(self.store.folder / self.name, "hourly")

    def here(self, verb: str, *arguments: str) -> int:
        """Run a verb in this process; gives its exit code."""
        return here(*verb.split(), "hourly", *arguments, *self.where)

    def driver(
        self, plan: Plan, verb: str, *arguments: str, variables: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a verb in a process of its own with `plan` built in."""
        own = environment(**self.store.variables, **(variables or {}))
        return driver(plan, *verb.split(), "hourly", *arguments, *self.where, env=own)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The server, which is started once. Where it can't be had its tests are skipped."""
    script = subprocess.run([ROOT / "infra" / "s3-server.sh"], capture_output=True, text=True, check=False)
    if script.returncode:
        pytest.skip(script.stderr.strip())
    folder = tmp_path_factory.mktemp("s3")
    with server_on(Path(script.stdout.strip()), folder) as port, proxy_of(port) as proxy:
        yield Store(folder / BUCKET, proxy)


@pytest.fixture
def in_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store as this process's environment has it; small slices and large ones run without Spark."""
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    store.proxy.forget()
    return store


@pytest.fixture(scope="session")
def after_two_days(store: Store) -> Path:
    """A warehouse in the bucket in which the first two of eight days have been run. Not to be written."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in store.variables.items():
            patched.setenv(name, value)
        patched.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
        hourly = HourlyOnS3(store, "two_days")
        days = ("--from", "2013-01-01", "--to", "2013-01-09")
        assert here("examples", "load", "departures", *days, *hourly.where[:2]) == 0
        assert hourly.here("run", "--to", "2013-01-03") == 0
    return store.folder / "two_days"


@pytest.fixture
def hourly(in_store: Store, after_two_days: Path, request: pytest.FixtureRequest) -> HourlyOnS3:
    """A warehouse of the test's own, in which the first two days have been run."""
    name = f"of_{abs(hash(request.node.nodeid))}"
    shutil.copytree(after_two_days, in_store.folder / name)
    in_store.proxy.forget()
    return HourlyOnS3(in_store, name)
