"""`python -m tests.benchmarks.state_backends --windows N`: N windows with a timer each, in memory, in
RocksDB, and in plain rocksdict.

Every contender has a process of its own, so that its peak of resident memory is its own. CPU seconds include
RocksDB's threads.
"""

from __future__ import annotations

import argparse
import json
import operator
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from slackwater.windowing import OrderMode, ReducingStateDescriptor, TimeWindow
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import LONG
from slackwater.windowing.runtime.operator_storage import OperatorStorage

ROOT = Path(__file__).parents[2]
GROUPS = 128
WINDOWS_PER_KEY = 5
LENGTH = 100_000
WATERMARKS = 100
STEPS = (
    "first element of each window",
    "second element of each window",
    "register a timer for each",
    "read every entry",
    "fire and clear each",
)

Visit = tuple[int, int]  # key and start of a window


class Summary(NamedTuple):
    """What a contender came to.

    Attributes:
        scanned: entries read before the firing, and their sum.
        fired: windows fired, and their sum.
        order: checksum of the windows in the order in which they fired.
    """

    scanned: tuple[int, int]
    fired: tuple[int, int]
    order: int


class Contender(Protocol):
    def add(self, key: int, start: int, value: int) -> None: ...

    def register(self, key: int, start: int) -> None: ...

    def entries(self) -> Iterator[int]:
        """The values of all windows."""

    def fire(self, watermark: int) -> Iterator[tuple[int, int, int]]:
        """Key, start and value of each window whose timer is due; the window is cleared."""

    def close(self) -> None: ...


class Ours:
    """A state back end and a timer queue, as the window operator drives them."""

    def __init__(self, storage: OperatorStorage) -> None:
        self.close = storage.close
        index = KeyGroupIndex(LONG, KeyGroupRange(0, GROUPS - 1), GROUPS)
        self._backend = storage.make_backend(index, OrderMode.ROCKSDB, None)
        self._timers = storage.make_timer_queue("event_window-timers", index, OrderMode.ROCKSDB)
        self._contents = self._backend.state(
            ReducingStateDescriptor("window-contents", operator.add, sql_type="long")
        )

    def add(self, key: int, start: int, value: int) -> None:
        self._contents.add(key, TimeWindow(start, start + LENGTH), value)

    def register(self, key: int, start: int) -> None:
        self._timers.add(start + LENGTH - 1, key, TimeWindow(start, start + LENGTH))

    def entries(self) -> Iterator[int]:
        return (entry.value for entry in self._backend.entries())

    def fire(self, watermark: int) -> Iterator[tuple[int, int, int]]:
        contents = self._contents
        while (timer := self._timers.poll_due(watermark)) is not None:
            _, key, window = timer
            value = contents.get(key, window)
            contents.clear(key, window)
            yield key, window.start, value


class Plain:
    """rocksdict as one writes it by hand: two column families, packed structs, no key groups, no ties, no
    errors.
    """

    def __init__(self, folder: Path) -> None:
        import rocksdict

        self._rocksdict = rocksdict
        options = rocksdict.Options(raw_mode=True)
        self._database = rocksdict.Rdict(str(folder / "plain"), options=options)
        self._windows = self._database.create_column_family("windows", rocksdict.Options(raw_mode=True))
        self._timers = self._database.create_column_family("timers", rocksdict.Options(raw_mode=True))
        writes: Any = rocksdict.WriteOptions()
        writes.disable_wal = True
        for rows in (self._windows, self._timers):
            rows.set_write_options(writes)
        self._writes = writes
        self._batch = self._new_batch()
        self._done = b""

    def add(self, key: int, start: int, value: int) -> None:
        row = _PLAIN_WINDOW.pack(key, start)
        old = self._windows.get(row)
        self._windows[row] = _PLAIN_VALUE.pack(value if old is None else _PLAIN_VALUE.unpack(old)[0] + value)

    def register(self, key: int, start: int) -> None:
        self._batch[_PLAIN_TIMER.pack(start + LENGTH - 1, key)] = _PLAIN_VALUE.pack(start)
        if len(self._batch) == 10_000:
            self._flush()

    def entries(self) -> Iterator[int]:
        return (_PLAIN_VALUE.unpack(value)[0] for value in self._windows.values())

    def fire(self, watermark: int) -> Iterator[tuple[int, int, int]]:
        """Past the rows deleted last time; passing them would cost more than all the rest."""
        self._flush()
        due = self._rocksdict.ReadOptions()
        due.set_iterate_upper_bound(_PLAIN_TIMER.pack(watermark + 1, 0))
        for row, start_bytes in self._timers.items(from_key=self._done, read_opt=due):
            key, start = _PLAIN_TIMER.unpack(row)[1], _PLAIN_VALUE.unpack(start_bytes)[0]
            window = _PLAIN_WINDOW.pack(key, start)
            value = _PLAIN_VALUE.unpack(self._windows.get(window))[0]
            del self._windows[window]
            self._batch.delete(row)
            self._done = row + b"\x00"
            yield key, start, value

    def close(self) -> None:
        del self._batch
        self._windows.close()
        self._timers.close()
        self._database.close()

    def _flush(self) -> None:
        if len(self._batch):
            self._database.write(self._batch, self._writes)
        self._batch = self._new_batch()

    def _new_batch(self) -> Any:
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._database.get_column_family_handle("timers"))
        return batch


_PLAIN_WINDOW, _PLAIN_TIMER, _PLAIN_VALUE = struct.Struct(">QQ"), struct.Struct(">QQ"), struct.Struct(">Q")


def in_memory(folder: Path, memory_mb: int) -> Contender:
    return Ours(OperatorStorage())


def in_rocksdb(folder: Path, memory_mb: int) -> Contender:
    return Ours(OperatorStorage(state="rocksdb", timers="rocksdb", parent=folder, memory_mb=memory_mb))


def in_plain_rocksdict(folder: Path, memory_mb: int) -> Contender:
    return Plain(folder)


CONTENDERS: dict[str, Callable[[Path, int], Contender]] = {
    "memory": in_memory,
    "RocksDB": in_rocksdb,
    "plain rocksdict": in_plain_rocksdict,
}


def visits(count: int, step: int) -> Iterator[Visit]:
    """Every window once, in an order that jumps about; `step` has no factor in common with `count`."""
    number = 0
    for _ in range(count):
        number = (number + step) % count
        key, of_key = divmod(number, WINDOWS_PER_KEY)
        yield key, of_key * LENGTH + key % 1000 * 10


def run(contender: Contender, count: int, clock: Callable[[str], None]) -> Summary:
    """Take N windows through their lives; `clock` is called with the name of each step that is over."""
    for key, start in visits(count, 7_368_787):
        contender.add(key, start, key)
    clock(STEPS[0])
    for key, start in visits(count, 15_485_863):
        contender.add(key, start, 1)
    clock(STEPS[1])
    for key, start in visits(count, 7_368_787):
        contender.register(key, start)
    clock(STEPS[2])
    entries = total = 0
    for value in contender.entries():
        entries += 1
        total += value
    clock(STEPS[3])
    fired = fired_total = order = 0
    for watermark in range(0, (WINDOWS_PER_KEY + 1) * LENGTH, WINDOWS_PER_KEY * LENGTH // WATERMARKS):
        for key, start, value in contender.fire(watermark):
            fired += 1
            fired_total += value
            order = zlib.crc32(_PLAIN_WINDOW.pack(key, start), order)
    clock(STEPS[4])
    return Summary((entries, total), (fired, fired_total), order)


def measure(name: str, count: int, memory_mb: int, folder: Path) -> dict[str, Any]:
    """Seconds by step, what the contender came to, and the process's peak of resident memory. Called in a
    process of its own.
    """
    contender = CONTENDERS[name](folder, memory_mb)
    seconds: dict[str, tuple[float, float]] = {}
    last = (time.perf_counter(), time.process_time())

    def clock(step: str) -> None:
        nonlocal last
        now = (time.perf_counter(), time.process_time())
        seconds[step] = (now[0] - last[0], now[1] - last[1])
        last = now

    summary = run(contender, count, clock)
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    contender.close()
    return {"seconds": seconds, "summary": summary, "peak_mb": peak_mb(), "disk_mb": disk / 2**20}


def peak_mb() -> float:
    """Greatest resident memory of this process so far, in MiB."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def measure_apart(name: str, count: int, memory_mb: int, parent: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        command = [
            sys.executable,
            "-m",
            __spec__.name,
            "--only",
            name,
            "--windows",
            str(count),
            "--memory-mb",
            str(memory_mb),
            "--folder",
            folder,
        ]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


class DisagreementError(Exception):
    """Two contenders did not do the same work."""


def check_agreement(results: dict[str, dict[str, Any]]) -> None:
    """All have read and fired the same; ours in the same order, too."""
    work = {name: json.dumps(result["summary"][:2]) for name, result in results.items()}
    if len(set(work.values())) > 1:
        raise DisagreementError(str(work))
    orders = {name: result["summary"][2] for name, result in results.items() if name != "plain rocksdict"}
    if len(set(orders.values())) > 1:
        raise DisagreementError(f"fired in different orders: {orders}")


def print_results(results: dict[str, dict[str, Any]], count: int) -> None:
    print(f"{'thousand a second: wall, CPU':32}" + "".join(f"{name:>22}" for name in results))
    for step in STEPS:
        rates = [
            "".join(f"{count / max(seconds, 1e-9) / 1e3:11,.0f}" for seconds in result["seconds"][step])
            for result in results.values()
        ]
        print(f"{step:32}" + "".join(rates))
    print(
        f"{'peak of resident memory, MiB':32}"
        + "".join(f"{result['peak_mb']:22,.0f}" for result in results.values())
    )
    print(
        f"{'on disk in the end, MiB':32}"
        + "".join(f"{result['disk_mb']:22,.0f}" for result in results.values())
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.state_backends",
        description="State and timers in memory and in RocksDB.",
    )
    parser.add_argument(
        "--windows", type=int, default=5_000_000, help="windows, and timers (default: %(default)s)"
    )
    parser.add_argument(
        "--memory-mb",
        type=int,
        default=256,
        help="for RocksDB's cache and write buffers (default: %(default)s)",
    )
    parser.add_argument(
        "--limit-mb",
        type=int,
        default=1024,
        help="exit 1 when RocksDB's peak is above it (default: %(default)s)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where databases go (default: %(default)s)",
    )
    parser.add_argument(
        "--only", choices=CONTENDERS, help="measure one contender, in this process, and print JSON"
    )
    chosen = parser.parse_args(arguments)
    if chosen.only:
        print(json.dumps(measure(chosen.only, chosen.windows, chosen.memory_mb, chosen.folder)))
        return 0
    results = {
        name: measure_apart(name, chosen.windows, chosen.memory_mb, chosen.folder) for name in CONTENDERS
    }
    check_agreement(results)
    print(f"{chosen.windows:,} windows and as many timers, {chosen.memory_mb} MiB for RocksDB")
    print_results(results, chosen.windows)
    return 0 if results["RocksDB"]["peak_mb"] <= chosen.limit_mb else 1


if __name__ == "__main__":
    sys.exit(main())
