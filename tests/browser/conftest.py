"""A browser, and the pages of a month of flights that it opens: `departures`, with a restatement and a
branch, and `turnarounds`.

The browser is the Chromium of the distribution. Where there is none the tests are skipped, or fail if
SLACKWATER_REQUIRE_BROWSER is set.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright

from slackwater.jobs.engines.transport.in_process import InProcess
from slackwater.jobs.pages.app import create_app
from slackwater.jobs.protocol import opened_pipeline
from tests.integration.command import here
from tests.integration.conftest import great_expectations as great_expectations

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        if os.environ.get("SLACKWATER_REQUIRE_BROWSER"):
            pytest.fail("no Chromium on the PATH, and SLACKWATER_REQUIRE_BROWSER asks for one")
        pytest.skip("no Chromium on the PATH: no page was opened in a browser")
    with launched() as browser:
        yield browser


def chromium() -> str | None:
    """The path of the distribution's Chromium, or that in SLACKWATER_CHROMIUM; None where there is none."""
    paths = [os.environ.get("SLACKWATER_CHROMIUM"), *map(shutil.which, NAMES)]
    return next((path for path in paths if path), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """That Chromium."""
    with sync_playwright() as playwright:
        # Its sandbox does not start as root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


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
def month(tmp_path_factory: pytest.TempPathFactory, great_expectations: None) -> Path:
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
