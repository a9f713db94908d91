"""Measures seconds, CPU seconds and memory of a piece of work, over this process and its descendants. Reads
/proc, so on Linux only.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")
_PROC = Path("/proc")
_SAMPLED_EVERY_S = 0.5
_SETTLE_AT_MOST_S = 10.0
_IDLE_SHARE = 0.1  # of a core: processes that use less count as idle


@dataclass(frozen=True)
class Measurement:
    """What one piece of work took.

    Attributes:
        wall_s: seconds by the clock.
        cpu_s: user and system seconds of the process tree, ended processes included.
        peak_mb: greatest memory of the tree in any sample, two a second; pages that processes share are
            counted once (PSS).
        samples: (seconds since the start, CPU seconds until then) of each sample, from the start to the end.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    samples: tuple[tuple[float, float], ...] = ()

    def cpu_until(self, seconds: float) -> float:
        """CPU seconds in the first `seconds` of the work, interpolated between two samples."""
        times, cpu_seconds = zip(*self.samples, strict=True)
        return round(float(np.interp(seconds, times, cpu_seconds)), 2)


def measure_work(work: Callable[[], Result]) -> tuple[Result, Measurement]:
    """Do `work` and measure it."""
    memory_mb, has_ended = [_memory_mb()], threading.Event()
    cpu_at_start, start = _cpu_seconds(), time.monotonic()
    samples = [(0.0, 0.0)]

    def watch() -> None:
        while not has_ended.wait(_SAMPLED_EVERY_S):
            samples.append((time.monotonic() - start, _cpu_seconds() - cpu_at_start))
            memory_mb.append(_memory_mb())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        result = work()
    finally:
        wall_s, cpu_s = time.monotonic() - start, _cpu_seconds() - cpu_at_start
        has_ended.set()
        watcher.join()
    samples = [sample for sample in samples if sample[0] < wall_s]
    return result, Measurement(
        wall_s=round(wall_s, 3),
        cpu_s=round(cpu_s, 2),
        peak_mb=round(max(*memory_mb, _memory_mb()), 1),
        samples=(*samples, (wall_s, cpu_s)),
    )


def settle(at_most_s: float = _SETTLE_AT_MOST_S) -> None:
    """Wait until this process and its descendants are idle, `at_most_s` seconds at most. What they still do
    for work that is over, such as a JVM's compilation and garbage collection, would count for the next.
    """
    deadline, cpu = time.monotonic() + at_most_s, _cpu_seconds()
    while time.monotonic() < deadline:
        time.sleep(_SAMPLED_EVERY_S)
        before, cpu = cpu, _cpu_seconds()
        if cpu - before < _IDLE_SHARE * _SAMPLED_EVERY_S:
            return


def _tree() -> dict[int, list[str]]:
    """Process id → the fields of its /proc/PID/stat that follow the command; of this process and its
    descendants.
    """
    children, stats = defaultdict(list), {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            stats[int(folder.name)] = fields
            children[int(fields[1])].append(int(folder.name))
    tree, todo = {}, [os.getpid()]
    while todo:
        pid = todo.pop()
        if pid in stats:
            tree[pid] = stats[pid]
        todo += children[pid]
    return tree


def _cpu_seconds() -> float:
    return sum(int(field) for fields in _tree().values() for field in fields[11:15]) / os.sysconf(
        "SC_CLK_TCK"
    )


def _memory_mb() -> float:
    kilobytes = 0
    for pid in _tree():
        try:
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024
