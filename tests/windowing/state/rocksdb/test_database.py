"""A RocksDB of one task attempt: its own directory, nothing left behind, whatever becomes of the task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.errors import StateStorageError
from slackwater.windowing.state.rocksdb import database as database_module
from slackwater.windowing.state.rocksdb.database import ColumnFamily, RocksDBDatabase

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # many small databases would wait for the disk
ROOT = Path(__file__).parents[4]


def open_files() -> list[str]:
    """What the file descriptors of this process point at."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            pass  # the one that listed the folder
    return sorted(targets)


def rocksdb_threads() -> list[str]:
    """Names of RocksDB's threads among this process's."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            names.append((Path("/proc/self/task") / task / "comm").read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    return sorted(name for name in names if name.startswith("rocksdb"))


def assert_no_rocksdb_thread() -> None:
    """They end on their own after the last database: within ten seconds."""
    deadline = time.monotonic() + 10
    while rocksdb_threads() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert rocksdb_threads() == []


def run(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process with the project on its path."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_rows_are_read_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    with RocksDBDatabase(tmp_path, 8) as database:
        rows = database.column_family("rows")
        for key in (b"b", b"\xff", b"a", b"", b"ab", b"\x00\x00", b"\x00"):
            rows.put(key, key.hex().encode())
        expected = [b"", b"\x00", b"\x00\x00", b"a", b"ab", b"b"]
        assert [key for key, _ in rows.scan(b"", b"\xff")] == expected
        assert [key for key, _ in rows.first(b"\x00\x00", b"b", 2)] == [b"\x00\x00", b"a"]
        assert rows.get(b"\xff") == b"ff"


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "delete", "flush"]), st.binary(max_size=2), st.binary(max_size=3)),
        max_size=60,
    ),
    st.integers(1, 5),
)
def test_waiting_writes_and_written_ones_are_one(
    operations: list[tuple[str, bytes, bytes]], at_once: int
) -> None:
    model: dict[bytes, bytes] = {}
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory(dir=IN_MEMORY) as folder,
        RocksDBDatabase(Path(folder), 8) as database,
    ):
        patch.setattr(database_module, "PENDING_ROWS", 7)
        patch.setattr(database_module, "ROWS_AT_ONCE", at_once)
        rows = database.column_family("rows")
        for kind, key, value in operations:
            if kind == "put":
                rows.put(key, value)
                model[key] = value
            elif kind == "delete":
                rows.delete(key)
                model.pop(key, None)
            else:
                rows.flush()
            assert rows.get(key) == model.get(key)
        assert list(rows.scan(b"", b"\xff\xff\xff")) == sorted(model.items())


def test_column_families_share_no_rows_and_no_names(tmp_path: Path) -> None:
    with RocksDBDatabase(tmp_path, 8) as database:
        a, b = database.column_family("a"), database.column_family("b")
        a.put(b"x", b"1")
        a.flush()
        assert (a.get(b"x"), b.get(b"x"), b.first(b"", b"z", 5)) == (b"1", None, [])
        with pytest.raises(StateStorageError, match=r"column family 'a'.*in use"):
            database.column_family("a")


def fill(rows: ColumnFamily, count: int = 50_000) -> None:
    for number in range(count):
        rows.put(number.to_bytes(4, "big"), b"value")
    rows.flush()


def test_closing_leaves_no_file_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    before = open_files()
    assert_no_rocksdb_thread()
    for _ in range(3):  # as in a worker that Spark uses again
        database = RocksDBDatabase(tmp_path, 8)
        fill(database.column_family("rows"))
        half_read = database.column_family("more")
        fill(half_read)
        scan = half_read.scan(b"", b"\xff")
        next(scan)
        assert len(open_files()) > len(before)
        database.close()
        assert (open_files(), list(tmp_path.iterdir())) == (before, [])
        assert_no_rocksdb_thread()


def test_closing_twice_is_fine_and_a_closed_database_is_of_no_use(tmp_path: Path) -> None:
    database = RocksDBDatabase(tmp_path, 8)
    rows = database.column_family("rows")
    fill(rows, 10)
    database.close()
    database.close()
    with pytest.raises(Exception, match="closed"):
        rows.get(b"x")


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(ZeroDivisionError), RocksDBDatabase(tmp_path, 8) as database:
        fill(database.column_family("rows"), 10)
        raise ZeroDivisionError
    assert (open_files(), list(tmp_path.iterdir())) == (before, [])


def test_two_tasks_never_share_a_directory(tmp_path: Path) -> None:
    with RocksDBDatabase(tmp_path, 8) as a, RocksDBDatabase(tmp_path, 8) as b:
        assert a.path != b.path
        a.column_family("rows").put(b"x", b"a")
        assert b.column_family("rows").get(b"x") is None
        b.close()
        assert a.path.is_dir()
        assert rocksdb_threads()  # those of a


FILL_AND_TELL = """
import sys, os, signal
from pathlib import Path
from slackwater.windowing.state.rocksdb.database import RocksDBDatabase
database = RocksDBDatabase(Path(sys.argv[1]), 8)
rows = database.column_family("rows")
rows.put(b"x", b"theirs")
rows.flush()
print(database.path, flush=True)
"""


def test_what_a_killed_process_left_is_deleted_and_disturbs_nobody(tmp_path: Path) -> None:
    with run(FILL_AND_TELL + "os.kill(os.getpid(), signal.SIGKILL)", tmp_path) as process:
        directory = Path(process.stdout.readline().strip())
    assert process.returncode == -signal.SIGKILL
    assert (directory / "db" / "CURRENT").exists()
    with RocksDBDatabase(tmp_path, 8) as database:
        assert database.column_family("rows").get(b"x") is None
        assert list(tmp_path.iterdir()) == [database.path]


def test_the_directory_of_a_living_process_stays(tmp_path: Path) -> None:
    with run(
        FILL_AND_TELL + "sys.stdin.readline(); print(rows.get(b'x'), flush=True); database.close()", tmp_path
    ) as living:
        theirs = Path(living.stdout.readline().strip())
        with RocksDBDatabase(tmp_path, 8) as database:
            database.column_family("rows").put(b"x", b"ours")
            assert theirs.is_dir()
        assert living.communicate("\n")[0].strip() == "b'theirs'"
    assert living.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_being_made_or_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "slackwater-rocksdb-1-new").mkdir()
    (tmp_path / "somebody-elses").mkdir()
    RocksDBDatabase(tmp_path, 8).close()
    assert {path.name for path in tmp_path.iterdir()} == {"slackwater-rocksdb-1-new", "somebody-elses"}


def test_a_forked_child_closes_nothing(tmp_path: Path) -> None:
    script = FILL_AND_TELL + (
        "child = os.fork()\n"
        "if child == 0:\n"
        "    database.close()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(database.path.is_dir(), rows.get(b'x'), flush=True)\n"
        "database.close()\n"
        "print(database.path.is_dir(), flush=True)"
    )
    with run(script, tmp_path) as forking:
        lines = forking.stdout.read().splitlines()
    assert forking.returncode == 0
    assert lines[1:] == ["True b'theirs'", "False"]


@pytest.mark.parametrize(
    "make_useless", [lambda path: path.write_text("a file"), lambda path: path.symlink_to("/proc/nowhere")]
)
def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, make_useless: Callable[[Path], None]) -> None:
    make_useless(tmp_path / "parent")
    before = open_files()
    with pytest.raises(
        StateStorageError, match=r"No directory for RocksDB can be made in .*parent"
    ) as caught:
        RocksDBDatabase(tmp_path / "parent", 8)
    assert (caught.value.path, caught.value.fault, caught.value.retryable) == (
        tmp_path / "parent",
        "environment",
        True,
    )
    assert open_files() == before


def test_a_database_that_does_not_open_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(database_module.rocksdict, "Rdict", fail)
    before = open_files()
    with pytest.raises(StateStorageError, match=r"cannot be opened in .*no space left"):
        RocksDBDatabase(tmp_path, 8)
    assert (open_files(), list(tmp_path.iterdir())) == (before, [])


def test_a_write_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_rocksdb = database_module.rocksdict.Rdict

    class FullDisk:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self.database = open_rocksdb(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.database, name)

        def write(self, *arguments: object) -> None:
            raise OSError("no space left on device")

    monkeypatch.setattr(database_module.rocksdict, "Rdict", FullDisk)
    with RocksDBDatabase(tmp_path, 8) as database:
        rows = database.column_family("rows")
        rows.put(b"x", b"y")
        with pytest.raises(StateStorageError, match="could not write 1 rows: no space left"):
            rows.flush()


def test_without_rocksdict_the_error_says_what_to_install() -> None:
    script = (
        "import sys\nsys.modules['rocksdict'] = None\nfrom pathlib import Path\nfrom "
        "slackwater.windowing.runtime.operator_storage import OperatorStorage\nOperatorStorage()\ntry:\n    "
        "OperatorStorage(state='rocksdb', parent=Path('unused'))\nexcept Exception as error:\n    "
        "print(type(error).__name__, error)\n"
    )
    with run(script) as process:
        message = process.stdout.read()
    assert message.startswith("ConfigurationError ")
    assert "install slackwater[spark]" in message
