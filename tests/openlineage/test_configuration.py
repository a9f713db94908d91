"""The client's own configuration switches events on, and without it nothing of the client is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.openlineage.reporting import is_configured
from tests.cli.own_source import OwnPipeline, every_hour
from tests.integration.command import environment
from tests.integration.stored import ROOT

URL = {"OPENLINEAGE_URL": "http://127.0.0.1:9"}
# Runs a verb, and prints what of the client it has imported.
PROBE = """
import sys
from tests.integration.command import here

assert here(*sys.argv[1:]) == 0
print("imported:", sorted(name for name in sys.modules if name.partition(".")[0] == "openlineage"))
"""


@pytest.fixture
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the client's, an empty home and an empty current folder."""
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("no_configuration")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OPENLINEAGE_NAMESPACE": "team-a"}, False),
        ({"OPENLINEAGE__FACETS__ENVIRONMENT_VARIABLES": '["PATH"]'}, False),
        (URL, True),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({**URL, "OPENLINEAGE_DISABLED": "True"}, False),
        ({**URL, "OPENLINEAGE_DISABLED": "false"}, True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else str(value),
)
def test_variables_of_the_client_switch_events_on(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_configured() is expected


@pytest.mark.usefixtures("no_configuration")
@pytest.mark.parametrize("folder", [".", ".openlineage"])
def test_a_file_where_the_client_looks_for_one_switches_events_on(tmp_path: Path, folder: str) -> None:
    assert not is_configured()
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "openlineage.yml").write_text("transport: {type: console}\n")
    assert is_configured()


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, False),
        pytest.param({**URL, "OPENLINEAGE_DISABLED": "true"}, False, marks=pytest.mark.slow),
        pytest.param({"OPENLINEAGE__TRANSPORT__TYPE": "noop"}, True, marks=pytest.mark.slow),
    ],
    ids=["not configured", "disabled", "configured"],
)
def test_a_run_imports_the_client_only_where_it_is_configured(
    tmp_path: Path, variables: dict[str, str], is_on: bool
) -> None:
    own = OwnPipeline(tmp_path)
    own.append(every_hour(0, 4))
    verb = ["run", "own", "--to", "2013-01-02", "--warehouse", own.warehouse, "--pipelines", own.file]
    process = subprocess.run(
        [sys.executable, "-c", PROBE, *map(str, verb)],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT), HOME=str(tmp_path), **variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    [line] = [line for line in process.stdout.splitlines() if line.startswith("imported:")]
    assert (line != "imported: []") is is_on, line
