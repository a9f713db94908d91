"""All that a driver in a cluster is given by URI: the warehouse, the pipelines, and where it leaves its
outcome.
"""

import shutil
from pathlib import Path

import pytest

from slackwater.args import read_manifest
from tests.integration.command import here
from tests.integration.stored import StoredTables

FILE = """
from dataclasses import replace

from rules_of_mine import NAME
from slackwater.examples.departures import departures

hourly = replace(departures, name=NAME, expect=[])
"""
OF_RUN = ("code_hash", "config_hash", "state_hash", "output_hash", "rows_read", "windows_fired")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "rules_of_mine.py").write_text('NAME = "hourly"\n')
    (folder / "pipelines.py").write_text(FILE)
    return folder / "pipelines.py"


@pytest.mark.slow
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_run_by_uri_is_the_run_by_path(
    flights: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    by_path, by_uri = (shutil.copytree(flights, tmp_path / name) for name in ("path", "uri"))
    command = ("run", "hourly", "--to", "2013-01-03")
    manifests = tmp_path / "outcomes"
    assert (
        here(*command, "--warehouse", by_path, "--pipelines", file, "--manifest", manifests / "path.json")
        == 0
    )
    shutil.move(file.parent, tmp_path / "store")
    uri = (tmp_path / "store" / file.name).as_uri()
    own = () if by_variable else ("--pipelines", uri)
    if by_variable:
        monkeypatch.setenv("SLACKWATER_PIPELINES", uri)
    outcome = (manifests / "uri.json").as_uri()
    assert here(*command, "--warehouse", by_uri.as_uri(), *own, "--manifest", outcome) == 0
    assert read_manifest(manifests / "uri.json").counts == read_manifest(manifests / "path.json").counts
    rows = [
        [[row[name] for name in OF_RUN] for row in StoredTables(place, "hourly").ledger()]
        for place in (by_path, by_uri)
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 2


def test_a_uri_without_pipelines_is_refused_by_name(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = (tmp_path / "nowhere" / "pipelines.py").as_uri()
    assert here("pipelines", "--pipelines", uri) == 2
    assert f"{uri}: there is no Python file here" in capsys.readouterr().err
