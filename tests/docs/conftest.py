"""A warehouse that the pages but README begin with: a month of flights, of which `departures` has replayed
ten days.

No assertions on what pages say live here.
"""

import shutil
from pathlib import Path

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs import opened_pipeline
from tests.integration.command import here


@pytest.fixture(scope="session")
def ten_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse. Not to be written."""
    warehouse = tmp_path_factory.mktemp("pages") / "warehouse"
    where = ("--warehouse", warehouse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
        assert (
            here("examples", "load", "departures", "--from", "2013-01-01", "--to", "2013-02-01", *where) == 0
        )
        assert here("run", "departures", "--to", "2013-01-11", *where) == 0
    return warehouse


@pytest.fixture
def warehouse(ten_days: Path, empty_warehouse: Path) -> Path:
    """A copy of the warehouse, of this test's own, which commands without --warehouse find."""
    shutil.copytree(ten_days, empty_warehouse, dirs_exist_ok=True)
    return empty_warehouse


@pytest.fixture
def empty_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse without tables, of this test's own, which commands without --warehouse find. Runs need no
    Spark.
    """
    folder = tmp_path / "warehouse"
    folder.mkdir()
    monkeypatch.setenv("SLACKWATER_WAREHOUSE", str(folder))
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    return folder
