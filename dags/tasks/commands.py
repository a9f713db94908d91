"""Starts a `slackwater` command that needs no Spark and turns its exit code into the way in which a task
ends.

Knows exit codes, not verbs.
"""

import subprocess
from collections.abc import Sequence

from airflow.sdk.exceptions import AirflowException, AirflowFailException

# Permanent failure, usage, rejected, lost race: trying again would end the same way. 3 and a killed process
# are worth another try.
FINAL = {
    1: "failed for good",
    2: "was asked for something that cannot be",
    4: "was rejected by validation",
    5: "lost the race to another run; clear the task `replay` to go on from what that one published",
}


def end(command: Sequence[str], exit_code: int, said: str) -> None:
    """Returns when the command succeeded. Raises AirflowFailException when a retry is useless, else
    AirflowException.
    """
    if exit_code == 0:
        return
    name = " ".join(command[1:3])
    if exit_code in FINAL:
        raise AirflowFailException(f"`{name}` {FINAL[exit_code]} (exit {exit_code}): {said}")
    raise AirflowException(f"`{name}` must be tried again (exit {exit_code}): {said}")


def answer(command: Sequence[str]) -> str:
    """The standard output of a command that only looks. Raises as `end` does."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    end(command, done.returncode, done.stderr.strip())
    return done.stdout
