"""A warehouse that the tests of pages share: flights of a few days, replayed by `departures`, and
the reader of its pages. No test writes it.
"""

from pathlib import Path

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.pages.app import create_app
from slackwater.runs import opened_pipeline
from tests.integration.command import here
from tests.made_once import made_once
from tests.pages.page_reader import PageReader


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five runs of a day each, and a branch `try` from the third. Not to be written."""

    def make(warehouse: Path) -> None:
        where = ("--warehouse", warehouse)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
            days = ("--from", "2013-01-01", "--to", "2013-01-07")
            assert here("examples", "load", "departures", *days, *where) == 0
            assert here("run", "departures", "--to", "2013-01-06", *where) == 0
            assert here("state", "fork", "departures", "try", "--run", "3", *where) == 0

    return made_once(tmp_path_factory, "warehouse-of-pages", make)


@pytest.fixture(scope="session")
def pages(replayed: Path) -> PageReader:
    """The pages of that warehouse."""
    return PageReader(create_app(str(replayed), None))
