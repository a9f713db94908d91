"""A fork server: each driver is a process of its own, forked from one that has imported the product.

    tests ──(socket: arguments; stdout, stderr, answer)──▶ server ──fork──▶ keeper ──fork──▶ driver
      ▲                                                                       │ ▲               │
      └──(answer: the driver's process id, then its exit code and CPU time)───┘ └──────wait─────┘

As in `multiprocessing`, the server itself runs nothing, so that no fork inherits a lock that another thread
holds. The keeper waits for its driver, because a dead driver must be gone and no zombie: the lease asks
whether it lives.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

_LARGEST_REQUEST = 1 << 16


class ForkServer:
    """The side of the tests: starts the server, and processes through it."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=dict(env),
                cwd=cwd,
                pass_fds=[theirs.fileno()],
            )

    def start(self, *arguments: str) -> "ForkedDriver":
        """Start `python -m tests.integration.driver ARGUMENTS`."""
        stdout, stderr = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115 - the driver's
        answer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            descriptors = [stdout.fileno(), stderr.fileno(), theirs.fileno()]
            socket.send_fds(self._channel, [json.dumps(arguments).encode()], descriptors)
        return ForkedDriver(arguments, stdout, stderr, answer)

    def close(self) -> None:
        """End the server. Drivers that run go on."""
        self._channel.close()
        self._server.wait()


class ForkedDriver:
    """A driver that has been started, with as much of `subprocess.Popen` as the tests use.

    Attributes:
        cpu_s: CPU seconds that it took; 0 while it runs.
    """

    def __init__(
        self, arguments: tuple[str, ...], stdout: IO[str], stderr: IO[str], answer: socket.socket
    ) -> None:
        self.args = arguments
        self.pid = _number(answer.recv(8))
        self.cpu_s = 0.0
        self._exit_code: int | None = None
        self._stdout, self._stderr, self._answer = stdout, stderr, answer

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._wait(timeout=0)

    def communicate(self, timeout: float = 180) -> tuple[str, str]:
        """Wait for its end. Gives its output and its errors, once."""
        with self._stdout, self._stderr, self._answer:
            if self._wait(timeout) is None:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._stdout.seek(0)
            self._stderr.seek(0)
            return self._stdout.read(), self._stderr.read()

    def _wait(self, timeout: float) -> int | None:
        if self._exit_code is None:
            self._answer.settimeout(timeout)
            try:
                self._exit_code = _number(self._answer.recv(8))
            except (TimeoutError, BlockingIOError):
                return None
            self._answer.settimeout(None)
            self.cpu_s = _number(self._answer.recv(8)) / 1e6
        return self._exit_code


def _number(message: bytes) -> int:
    assert message, "the fork server has died; what it said stands in the tests' own errors"
    return int.from_bytes(message, "big", signed=True)


def _become_the_next_driver(channel: socket.socket) -> list[str]:
    """Serve requests until there are none. Returns in each driver, with its arguments; not in the server."""
    signal.signal(signal.SIGCHLD, _bury_keepers)
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, _LARGEST_REQUEST, 3)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel.close()
            _become_a_driver_with_a_keeper(*descriptors)
            return list(json.loads(request))
        for descriptor in descriptors:
            os.close(descriptor)


def _bury_keepers(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _become_a_driver_with_a_keeper(stdout: int, stderr: int, answer: int) -> None:
    """Fork once more. Returns in the child; this process reports the child's end and ends with it."""
    driver = os.fork()
    if driver == 0:
        os.close(answer)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        return
    with socket.socket(fileno=answer) as tests:
        tests.send(driver.to_bytes(8, "big", signed=True))
        _, status, usage = os.wait4(driver, 0)
        for number in (os.waitstatus_to_exitcode(status), int((usage.ru_utime + usage.ru_stime) * 1e6)):
            tests.send(number.to_bytes(8, "big", signed=True))
    os._exit(0)


def main() -> None:
    from slackwater.runs import opened_pipeline  # noqa: F401 - the import is the work
    from tests.integration import driver

    sys.argv[1:] = _become_the_next_driver(socket.socket(fileno=int(sys.argv[1])))
    driver.main()


if __name__ == "__main__":
    main()
