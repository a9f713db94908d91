"""A command runs the user's file once, however often it uses the pipeline (`OpenedPipeline.registry`)."""

from pathlib import Path

import pytest

from tests.cli.conftest import Hourly
from tests.integration.command import here

COUNTED = """
with open({path!r}, "a") as _file:
    _file.write("x")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("without_spark")
def test_a_users_file_is_executed_once_in_each_command(hourly: Hourly, tmp_path: Path) -> None:
    executions = tmp_path / "executions"
    hourly.file.write_text(hourly.file.read_text() + COUNTED.format(path=str(executions)))
    commands = [
        ("plan", "hourly"),
        ("run", "hourly", "--to", "2013-01-02"),
        ("run", "hourly", "--to", "2013-01-03", "--no-publish"),
        ("publish", "hourly"),
        ("backfill", "hourly", "--from", "2013-01-01", "--to", "2013-01-02", "--dry-run"),
        ("backfill", "hourly", "--from", "2013-01-01", "--to", "2013-01-02"),
        ("verify", "hourly", "1"),
        ("verify", "hourly", "--tables"),
        ("maintain", "hourly", "--dry-run"),
        ("state", "fork", "hourly", "trial"),
        ("branches", "drop", "hourly", "trial"),
    ]
    counts = {}
    for command in commands:
        executions.write_text("")
        assert here(*command, *hourly.where) == 0, command
        counts[" ".join(command)] = len(executions.read_text())
    assert counts == {" ".join(command): 1 for command in commands}
