"""Starts the command line as a user does: in a process of its own, with an environment of its own. Or in this
one, for one Spark session.

Knows no verb.
"""

import atexit
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from slackwater.cli import command_line
from tests.integration.driver import Plan
from tests.integration.fork_server import ForkedDriver, ForkServer
from tests.integration.stored import ROOT

SCRIPT = Path(sys.executable).parent / "slackwater"
CommandResult = subprocess.CompletedProcess[str]


def environment(**variables: str) -> dict[str, str]:
    """What a user's shell has, with options for each JVM, and no setting of ours but where downloads are
    kept.
    """
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "SLACKWATER_CACHE", "LANG", "TMPDIR")
        if name in os.environ
    }
    return {**kept, **variables}


def slackwater(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 120
) -> CommandResult:
    """Run `slackwater ARGUMENTS` in a process of its own, to its end."""
    return _run([str(SCRIPT), *map(str, arguments)], cwd, env, timeout)


def driver(
    plan: Plan, *arguments: object, env: Mapping[str, str] | None = None, timeout: float = 180
) -> CommandResult:
    """Run `slackwater ARGUMENTS` in a process of its own with `plan` built in, to its end or its death.

    Forked from one that has imported the product, unless it is to have a JVM or an environment of its own.
    """
    has_own_jvm = plan.spark and "PYSPARK_GATEWAY_PORT" not in plan.variables
    if has_own_jvm or env is not None:
        command = [sys.executable, "-m", "tests.integration.driver", plan.text(), *map(str, arguments)]
        return _run(command, ROOT, env, timeout)
    process = start_driver(plan, *arguments)
    stdout, stderr = process.communicate(timeout)
    return subprocess.CompletedProcess(process.args, process.poll(), stdout, stderr)


def start_driver(plan: Plan, *arguments: object) -> ForkedDriver:
    """As `driver`, without waiting and without Spark."""
    return _fork_server().start(plan.text(), *map(str, arguments))


@cache
def _fork_server() -> ForkServer:
    server = ForkServer(environment(), ROOT)
    atexit.register(server.close)
    return server


def _run(
    command: list[str], cwd: Path | None, env: Mapping[str, str] | None, timeout: float
) -> CommandResult:
    variables = environment() if env is None else dict(env)
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=timeout, check=False
    )


def here(*arguments: object) -> int:
    """Run `slackwater ARGUMENTS` in this process, in its Spark session if it has one. Gives the exit code."""
    with _logging_kept():
        return command_line.run(
            lambda: command_line.slackwater.main(
                [str(argument) for argument in arguments], prog_name="slackwater", standalone_mode=False
            )
        )


@contextmanager
def _logging_kept() -> Iterator[None]:
    """The command line sets up logging for its process; here that is pytest's."""
    logger = logging.getLogger("slackwater")
    before = logger.handlers, logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers, logger.level, logger.propagate = before
