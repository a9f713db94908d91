"""RocksDB: one directory of one task attempt, with column families of sorted rows, bytes → bytes. The only
file that imports rocksdict. Working memory: no write-ahead log, and nothing survives `close`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from slackwater.windowing.errors import ConfigurationError, StateStorageError

try:
    import rocksdict
except ImportError as error:  # pragma: no cover - the test environment has it
    raise ConfigurationError(
        "State in RocksDB needs the package rocksdict: install slackwater[spark], or keep state in memory."
    ) from error

Row = tuple[bytes, bytes]

_MB: Final = 1 << 20
_PREFIX: Final = "slackwater-rocksdb-"
_OWNER: Final = "OWNER"
PENDING_ROWS: Final = 16_384  # writes of a column family that wait for a batch
ROWS_AT_ONCE: Final = 4_096  # rows that a scan reads before it hands them out
_ABSENT: Final = object()


class ColumnFamily:
    """Rows in the unsigned order of their keys; see `RocksDBDatabase.column_family`. Writes wait in a
    dictionary, which reads look into first, and go to RocksDB in sorted batches; the first one creates the
    column family.
    """

    def __init__(self, database: Any, name: str, options: Any, write_options: Any) -> None:
        self._database, self._name, self._options, self._write_options = (
            database,
            name,
            options,
            write_options,
        )
        self._rows: Any = None
        self._handle: Any = None
        self._read: Callable[[bytes], Any] = _read_nothing
        self._pending: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        value: Any = self._pending.get(key, _ABSENT)
        return self._read(key) if value is _ABSENT else value  # type: ignore[no-any-return]  # rows hold bytes

    def put(self, key: bytes, value: bytes) -> None:
        self._pending[key] = value
        if len(self._pending) >= PENDING_ROWS:
            self.flush()

    def delete(self, key: bytes) -> None:
        self._pending[key] = None
        if len(self._pending) >= PENDING_ROWS:
            self.flush()

    def first(self, start: bytes, end: bytes, limit: int) -> list[Row]:
        """The first `limit` rows of [start, end). Start at live rows: deleted ones are slow to skip."""
        self.flush()
        if self._rows is None:
            return []
        bounds = rocksdict.ReadOptions()
        bounds.set_iterate_upper_bound(end)
        rows = []
        for row in self._rows.items(from_key=start, read_opt=bounds):
            rows.append(row)
            if len(rows) == limit:
                break
        return rows

    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        """Every row of [start, end). Holds nothing open between rows; concurrent changes may show or not."""
        while True:
            rows = self.first(start, end, ROWS_AT_ONCE)
            yield from rows
            if len(rows) < ROWS_AT_ONCE:
                return
            start = rows[-1][0] + b"\x00"

    def flush(self) -> None:
        pending = self._pending
        if not pending:
            return
        if self._rows is None:
            self._create_rows()
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handle)
        for key in sorted(pending):
            value = pending[key]
            if value is None:
                batch.delete(key)
            else:
                batch[key] = value
        try:
            self._database.write(batch, self._write_options)
        except Exception as error:
            raise StateStorageError(
                f"RocksDB could not write {len(pending)} rows: {error}. Is the disk full?"
            ) from error
        pending.clear()

    def close(self) -> None:
        """Forget the waiting writes and every handle. Called by the database."""
        self._pending.clear()
        if self._rows is not None:
            self._rows.close()
        del self._database, self._handle

    def _create_rows(self) -> None:
        self._rows = self._database.create_column_family(self._name, self._options)
        self._handle = self._database.get_column_family_handle(self._name)
        self._read = self._rows.get


class RocksDBDatabase:
    """One open RocksDB in a directory of its own. Open and close it inside the task: it must not cross a
    fork.

    While any is open, the process's RocksDB threads run; closing the last one ends them, for all users of
    RocksDB in the process. Raises StateStorageError if the directory `path` cannot be created or opened.

    Args:
        parent: folder on a local disk, created if missing. The directory gets a unique name in it;
            directories left by killed processes are deleted first.
        memory_mb: of block cache and write buffers together; indices and filters add about 2 bytes a row.
    """

    _open_databases: ClassVar[set[RocksDBDatabase]] = set()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, parent: Path, memory_mb: int = 256) -> None:
        self._memory_mb = memory_mb
        self._process = os.getpid()
        self._families: dict[str, ColumnFamily] = {}
        self._is_closed = False
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _delete_orphaned_directories(parent)
            self.path, self._owner = _make_directory(parent)
        except OSError as error:
            raise StateStorageError(
                f"No directory for RocksDB can be made in {parent}: {error}. "
                "Name a writable folder on a local disk.",
                path=parent,
            ) from error
        with self._lock:
            self._open_databases.add(self)
        self._cache = rocksdict.Cache(memory_mb * _MB // 2)
        self._write_options = rocksdict.WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, whatever the stub says
        try:
            self._database: Any = rocksdict.Rdict(str(self.path / "db"), options=self._options())
        except Exception as error:
            self._database = None
            self.close()
            raise StateStorageError(
                f"RocksDB cannot be opened in {self.path}: {error}. "
                "Free space there, or name another folder.",
                path=self.path,
            ) from error

    def column_family(self, name: str) -> ColumnFamily:
        """A new, empty column family. Raises StateStorageError when the name is taken."""
        if name in self._families:
            raise StateStorageError(
                f"The column family {name!r} of {self.path} is in use; open a database for each operator."
            )
        self._families[name] = family = ColumnFamily(
            self._database, name, self._options(), self._write_options
        )
        return family

    def close(self) -> None:
        """Close everything and delete the directory; idempotent, and without effect in a forked child."""
        if self._is_closed or os.getpid() != self._process:
            return
        self._is_closed = True
        try:
            for family in self._families.values():
                family.close()
            if self._database is not None:
                self._database.close()
        finally:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._owner)
            with self._lock:
                self._open_databases.discard(self)
                if not self._open_databases:
                    _end_threads()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _options(self) -> Any:
        """Options of the database and each column family; raw mode keeps keys in the order of their bytes."""
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_bloom_filter(10, False)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_db_write_buffer_size(self._memory_mb * _MB // 2)
        options.set_write_buffer_size(self._memory_mb * _MB // 8)
        options.set_memtable_prefix_bloom_ratio(0.1)
        # The first element of a window looks up a row that does not exist: filters answer without a read.
        options.set_memtable_whole_key_filtering(True)
        # Windows that have fired are deleted, and RocksDB is slow to skip deleted rows.
        options.add_compact_on_deletion_collector_factory(4096, 2048, 0.5)
        options.set_max_background_jobs(2)
        options.set_stats_dump_period_sec(0)  # each of the two periods would keep a thread
        options.set_stats_persist_period_sec(0)
        options.set_keep_log_file_num(1)
        return options


def _read_nothing(key: bytes) -> None:
    """The value of every key while the column family has no rows."""


def _make_directory(parent: Path) -> tuple[Path, int]:
    """A new directory, and the descriptor that locks its owner file while the process lives."""
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    # Locked before it has its name: a sweep of another process can never find it unlocked.
    descriptor, temporary_file = tempfile.mkstemp(dir=path)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(temporary_file, path / _OWNER)
    return path, descriptor


def _delete_orphaned_directories(parent: Path) -> None:
    """Delete the directories of dead owners, whose owner file is not locked."""
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(path / _OWNER, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # being made, or being deleted
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _end_threads() -> None:
    """End RocksDB's flush and compaction threads; opening a database starts them again."""
    environment = rocksdict.Env()
    environment.set_low_priority_background_threads(0)
    environment.set_high_priority_background_threads(0)
    environment.set_bottom_priority_background_threads(0)
