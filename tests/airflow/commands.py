"""A `slackwater` of a test's own for the operators that start one."""

import stat
from pathlib import Path

from slackwater.airflow.settings import Settings


def install(settings: Settings, script: str) -> Path:
    """A `slackwater` that notes its arguments, one call a line, and then does what `script` says; gives the
    file of notes.
    """
    command = settings.spark_bin / "slackwater"
    command.parent.mkdir()
    calls = settings.spark_bin / "calls"
    command.write_text(f'#!/bin/sh\necho "$@" >>{calls}\n{script}\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return calls
