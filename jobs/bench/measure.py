"""Seconds, CPU seconds and memory of a piece of work, over this process and all that it has started. Linux:
reads /proc.
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
# Seconds after which we do not wait any more, and the part of a core that is as good as none.
_SETTLED_BY_S = 10.0
_AT_REST = 0.1


@dataclass(frozen=True)
class Measured:
    """What one piece of work took.

    Attributes:
        wall_s: seconds by the clock.
        cpu_s: user and system seconds of the process tree, ended processes included.
        peak_mb: most memory of the tree at any look, two a second; pages that processes share are counted
            once (PSS).
        looks: of each look, the first and the last included, seconds since the start and CPU seconds until
            then.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    looks: tuple[tuple[float, float], ...] = ()

    def cpu_until(self, seconds: float) -> float:
        """CPU seconds until so many seconds after the start, in proportion between two looks."""
        at, used = zip(*self.looks, strict=True)
        return round(float(np.interp(seconds, at, used)), 2)


def measured(work: Callable[[], Result]) -> tuple[Result, Measured]:
    """Do `work` and measure it."""
    peak, done = [_memory_mb()], threading.Event()
    cpu, start = _cpu_seconds(), time.monotonic()
    looks = [(0.0, 0.0)]

    def watch() -> None:
        while not done.wait(_SAMPLED_EVERY_S):
            looks.append((time.monotonic() - start, _cpu_seconds() - cpu))
            peak.append(_memory_mb())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        result = work()
    finally:
        wall, used = time.monotonic() - start, _cpu_seconds() - cpu
        done.set()
        watcher.join()
    looks = [look for look in looks if look[0] < wall]
    return result, Measured(
        round(wall, 3), round(used, 2), round(max(*peak, _memory_mb()), 1), (*looks, (wall, used))
    )


def settle() -> None:
    """Wait until this process and all that it has started rest: what they still do for work that is over, a
    JVM's compilation and garbage collection, would be measured with the next. Not longer than
    `_SETTLED_BY_S`."""
    by, cpu = time.monotonic() + _SETTLED_BY_S, _cpu_seconds()
    while time.monotonic() < by:
        time.sleep(_SAMPLED_EVERY_S)
        before, cpu = cpu, _cpu_seconds()
        if cpu - before < _AT_REST * _SAMPLED_EVERY_S:
            return


def _tree() -> dict[int, list[str]]:
    """The fields of /proc/PID/stat after the command, of this process and its descendants."""
    children, stats = defaultdict(list), {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            stats[int(folder.name)] = fields
            children[int(fields[1])].append(int(folder.name))
    found, todo = {}, [os.getpid()]
    while todo:
        pid = todo.pop()
        if pid in stats:
            found[pid] = stats[pid]
        todo += children[pid]
    return found


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
