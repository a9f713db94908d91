"""Runs `slackwater` commands that need no Spark, and turns their exit codes into the success, the failure or
the retry of a task.

Knows exit codes, not verbs.
"""

import subprocess
from collections.abc import Sequence

from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Exit codes after which a retry would end the same way, and what they mean. Exit code 3 and a killed process
# are retried.
FINAL = {
    1: "failed for good",
    2: "was asked for something that cannot be",
    4: "was rejected by validation",
    5: "lost the race to another run; clear the task `replay` to go on from what that one published",
}


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
