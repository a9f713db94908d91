"""Runs `slackwater` commands that need no Spark, and turns their exit codes into success, failure or retry.
Hands a task's OpenLineage run to its command as the parent of the command's own run, where Airflow's provider
for OpenLineage is installed.

Knows exit codes, not verbs.
"""

import logging
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from slackwater.airflow.connections import SlackwaterHook, UnusableConnection
from slackwater.airflow.settings import Settings

# Exit codes after which a retry would end the same way, and what they mean. Exit code 3 and a killed process
# are retried.
FINAL = {
    1: "failed for good",
    2: "was asked for something that cannot be",
    4: "was rejected by validation",
    5: "lost the race to another run; clear the task `replay` to go on from what that one published",
}

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class CommandOperator(BaseOperator):
    """A task that runs `slackwater` commands, their output in its log, and ends them when it is stopped."""

    def __init__(self, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    @cached_property
    def hook(self) -> SubprocessHook:
        """One per task process, so that `on_kill` finds the command that `execute` started."""
        return SubprocessHook()

    def run_command(self, arguments: Sequence[str], variables: Mapping[str, str] = NO_VARIABLES) -> None:
        """Run `slackwater`, with `variables` beside those for storage. Raises as `require_success`."""
        command = command_of(self.settings, arguments)
        result = self.hook.run_command(command, env={**environment_of(self.settings), **variables})
        require_success(self.settings, command, result.exit_code, result.output)

    def on_kill(self) -> None:
        self.hook.send_sigterm()


def require_success(settings: Settings, command: Sequence[str], exit_code: int, output: str) -> None:
    """Raise unless the command succeeded: AirflowFailException when a retry is useless, else
    AirflowException. Both messages end with `output`, with commands as they work in any shell.
    """
    if exit_code == 0:
        return
    name = " ".join(command[1:3])
    output = settings.with_places(output)
    if exit_code in FINAL:
        raise AirflowFailException(f"`{name}` {FINAL[exit_code]} (exit {exit_code}): {output}")
    raise AirflowException(f"`{name}` must be tried again (exit {exit_code}): {output}")


def answer_of(
    settings: Settings, arguments: Sequence[str], *, answers: Collection[int] = (0,)
) -> subprocess.CompletedProcess[str]:
    """The output of a read-only command; raises as `require_success` for exit codes not in `answers`."""
    command = command_of(settings, arguments)
    process = subprocess.run(
        command, env=environment_of(settings), capture_output=True, text=True, check=False
    )
    if process.returncode not in answers or not process.stdout:
        require_success(settings, command, process.returncode, process.stderr.strip())
    return process


def command_of(settings: Settings, arguments: Sequence[str]) -> list[str]:
    """`slackwater` of the environment that has Spark, with these arguments."""
    return [str(settings.spark_bin / "slackwater"), *arguments]


def environment_of(settings: Settings) -> dict[str, str]:
    """This process's environment and `variables_of_connection`, whose errors it raises."""
    return {**os.environ, **variables_of_connection(settings)}


def variables_of_connection(settings: Settings) -> Mapping[str, str]:
    """Variables for the warehouse's storage, if a connection opens it; may raise AirflowFailException."""
    if settings.connection is None:
        return NO_VARIABLES
    try:
        return SlackwaterHook(settings.connection).environment
    except (AirflowNotFoundException, UnusableConnection) as error:
        raise AirflowFailException(f"the storage can't be opened: {error}") from error


log = logging.getLogger(__name__)


def parent_run_variables(context: Any) -> dict[str, str]:
    """The variables of a process that name the run of the task that starts it, and that of its DAG run."""
    try:
        from airflow.providers.openlineage.plugins import macros
    except ImportError:
        return {}
    try:
        return {
            "OPENLINEAGE_PARENT_ID": macros.lineage_parent_id(context["ti"]),
            "OPENLINEAGE_ROOT_PARENT_ID": macros.lineage_root_parent_id(context["ti"]),
        }
    except Exception as error:  # noqa: BLE001 - no task fails because its run can't be named
        log.warning("OpenLineage: the command's run is told without its parent: %s", error)
        return {}
