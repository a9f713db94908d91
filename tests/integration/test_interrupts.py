"""An interrupt of a command whose tasks run on Spark ends it in one line; neither Java nor the connection to
it says more.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slackwater.engine.transport import on_spark
from tests.integration.command import environment
from tests.integration.stored import ROOT

# Tasks that sleep, behind a shuffle, under the command line's own end; the argument is a file that the first
# of them makes.
SLEEPING = """
import sys

from slackwater.cli import command_line
from slackwater.engine.transport import on_spark
from slackwater.runtime.session import session


def sleeping(batches):
    import pathlib
    import time

    pathlib.Path(sys.argv[1]).touch()
    time.sleep(300)
    yield from batches


def work():
    with on_spark.spark_errors():
        session("sleeping").range(0, 8, 1, 4).repartition(3).mapInArrow(sleeping, "id long").toArrow()


command_line.finish(work)
"""


@pytest.mark.slow
def test_an_interrupt_while_tasks_run_on_spark_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLEEPING.replace("sys.argv[1]", repr(str(tmp_path / "sleeps")))]
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stderr=stderr,
            start_new_session=True,
            # A shell that starts pytest in the background has it ignored, and so would this process.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        for _ in range(1800):
            if (tmp_path / "sleeps").exists():
                break
            assert process.poll() is None, errors.read_text()
            time.sleep(0.1)
        subprocess.run(
            ["kill", "-INT", "--", f"-{process.pid}"], check=True
        )  # as a terminal does, to the whole group
        assert process.wait(60) == 1
    assert errors.read_text() == "interrupted; nothing that was not committed counts\n"


def test_the_errors_of_jobs_that_an_interrupt_has_cancelled_are_that_interrupt() -> None:
    def wait_for_jobs() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            try:
                raise ConnectionError("a job was cancelled")
            except ConnectionError as error:
                raise ValueError("as pyspark says it") from error

    with pytest.raises(KeyboardInterrupt), on_spark.spark_errors():
        wait_for_jobs()
