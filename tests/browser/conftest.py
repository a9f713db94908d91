"""The pages of a month of flights that a browser opens: `departures`, with a restatement and a branch, and
`turnarounds`.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from slackwater.engine.transport.in_process import InProcess
from slackwater.pages.app import create_app
from slackwater.runs import opened_pipeline
from tests.integration.command import here


@contextmanager
def served(warehouse: Path) -> Iterator[str]:
    """The pages of a warehouse on a free port of this machine; gives their address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(create_app(str(warehouse), None), log_level="error", lifespan="off")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=30)


@pytest.fixture(scope="session")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of `write_month`. Not to be written."""
    return write_month(tmp_path_factory.mktemp("month") / "warehouse")


def write_month(warehouse: Path) -> Path:
    """A month of runs a day each, of which two days were restated (35 publishes that), and an open branch."""
    where = ("--warehouse", warehouse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
        days = ("--from", "2013-01-01", "--to", "2013-02-01")
        assert here("examples", "load", "departures", *days, *where) == 0
        assert here("run", "departures", "--to", "2013-02-01", *where) == 0
        assert here("run", "turnarounds", "--to", "2013-02-01", *where) == 0
        two_days = ("--from", "2013-01-15", "--to", "2013-01-17")
        assert here("backfill", "departures", *two_days, "--reason", "again", *where) == 0
        assert here("state", "fork", "departures", "trial", "--run", 24, *where) == 0
        assert here("run", "departures", "--branch", "trial", "--to", "2013-01-27", *where) == 0
    return warehouse


@pytest.fixture(scope="session")
def address(month: Path) -> Iterator[str]:
    """Where the pages of the month are served."""
    with served(month) as address:
        yield address
