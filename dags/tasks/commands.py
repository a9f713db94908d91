"""Runs `slackwater` commands that need no Spark, and turns their exit codes into the success, the failure or
the retry of a task.

Knows exit codes, not verbs.
"""

import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from slackwater.dags.settings import Settings

# Exit codes after which a retry would end the same way, and what they mean. Exit code 3 and a killed process
# are retried.
FINAL = {
    1: "failed for good",
    2: "was asked for something that cannot be",
    4: "was rejected by validation",
    5: "lost the race to another run; clear the task `replay` to go on from what that one published",
}


class CommandOperator(BaseOperator):
    """A task that runs `slackwater` commands, their output in its log, and ends them when it is stopped."""

    def __init__(self, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    @cached_property
    def hook(self) -> SubprocessHook:
        """One per task process, so that `on_kill` finds the command that `execute` started."""
        return SubprocessHook()

    def run_command(self, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Run `slackwater` with these arguments. Raises as `require_success` does."""
        command = [str(self.settings.spark_bin / "slackwater"), *arguments]
        result = self.hook.run_command(command, env=None if env is None else dict(env))
        require_success(command, result.exit_code, result.output)

    def on_kill(self) -> None:
        """Airflow calls this when the task is stopped from outside."""
        self.hook.send_sigterm()


def require_success(command: Sequence[str], exit_code: int, output: str) -> None:
    """Raises unless the command succeeded: AirflowFailException when a retry is useless, else
    AirflowException. Both messages end with `output`.
    """
    if exit_code == 0:
        return
    name = " ".join(command[1:3])
    if exit_code in FINAL:
        raise AirflowFailException(f"`{name}` {FINAL[exit_code]} (exit {exit_code}): {output}")
    raise AirflowException(f"`{name}` must be tried again (exit {exit_code}): {output}")


def output_of(command: Sequence[str]) -> str:
    """The standard output of a command that changes nothing. Raises as `require_success` does."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    require_success(command, process.returncode, process.stderr.strip())
    return process.stdout
