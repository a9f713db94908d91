"""An S3 server of this machine: Versity's gateway, which keeps objects as plain files of a folder and puts
objects under conditions as S3 does. infra/s3-server.sh builds it.

Knows no table.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

BUCKET = "lake"
_KEY_ID, _SECRET = "tester", "geheimnis"


def credentials(port: int) -> dict[str, str]:
    """The variables by which a process finds the server, or a proxy of it, at `port`."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": _KEY_ID,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@contextmanager
def server_on(binary: Path, folder: Path) -> Iterator[int]:
    """The port of a server while the block runs. Its one bucket is the folder BUCKET of `folder`."""
    (folder / BUCKET).mkdir()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "ROOT_ACCESS_KEY": _KEY_ID,
        "ROOT_SECRET_KEY": _SECRET,
    }
    command = [str(binary), "--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log) as server,
    ):
        try:
            _wait_until_it_answers(server, port)
            yield port
        finally:
            server.terminate()


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(600):
        assert server.poll() is None, "the S3 server has ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                return
        except urllib.error.HTTPError:
            return  # it refuses a request without a signature
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the S3 server does not answer")
