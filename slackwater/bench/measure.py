"""Measures seconds, CPU seconds and memory of a piece of work, over this process and its descendants. Reads
/proc, so on Linux only.

A process of its own, `python -m slackwater.bench.measure PID`, looks at them meanwhile: a thread would
wait for Python's lock, and have the work wait for it.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

Result = TypeVar("Result")
_PROC = Path("/proc")
_SAMPLED_EVERY_S = 0.5
_SETTLE_AT_MOST_S = 10.0
_IDLE_SHARE = 0.1  # of a core: processes that use less count as idle


@dataclass(frozen=True)
class Measurement:
    """The seconds, CPU seconds and peak of memory of a piece of work, by the process and its descendants."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    samples: tuple[tuple[float, float], ...] = ()

    def cpu_until(self, seconds: float) -> float:
        """CPU seconds in the first `seconds` of the work, interpolated between two samples."""
        times, cpu_seconds = zip(*self.samples, strict=True)
        return round(float(np.interp(seconds, times, cpu_seconds)), 2)


def measure_work(work: Callable[[], Result]) -> tuple[Result, Measurement]:
    pid, watcher = os.getpid(), _Watcher()
    memory_mb = [_memory_mb(pid, watcher.pid)]
    at_start, start = _tree(pid, watcher.pid), time.monotonic()
    try:
        result = work()
    finally:
        end = time.monotonic()
        cpu_s = _cpu_seconds(at_start, _tree(pid, watcher.pid))
        memory_mb.append(_memory_mb(pid, watcher.pid))
        samples_of_work = [sample for sample in watcher.end() if start < sample[0] < end]
    samples = [(moment - start, cpu) for moment, cpu, _ in samples_of_work]
    return result, Measurement(
        wall_s=round(end - start, 3),
        cpu_s=round(cpu_s, 2),
        peak_mb=round(max(*memory_mb, *(memory for *_, memory in samples_of_work)), 1),
        samples=((0.0, 0.0), *samples, (end - start, cpu_s)),
    )


class _Watcher:
    """The process that looks at this one and its descendants, from now on."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "slackwater.bench.measure", str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun

    def end(self) -> list[Any]:
        """Its samples: (moment of the monotonic clock, CPU seconds from the start until then, megabytes)."""
        lines, _ = self._process.communicate()
        return [json.loads(line) for line in lines.splitlines()]


def _watch(pid: int) -> None:
    """Print samples of a process and its descendants until standard input ends."""
    at_start = _tree(pid, os.getpid())
    print(flush=True)
    while not select.select([sys.stdin], [], [], _SAMPLED_EVERY_S)[0]:
        moment, cpu_s = time.monotonic(), _cpu_seconds(at_start, _tree(pid, os.getpid()))
        print(json.dumps((moment, cpu_s, _memory_mb(pid, os.getpid()))), flush=True)


def settle(at_most_s: float = _SETTLE_AT_MOST_S) -> None:
    """Wait until this process and its descendants are idle, `at_most_s` seconds at most: the rest of earlier
    work, such as a JVM's garbage collection, would count for the next.
    """
    deadline, processes = time.monotonic() + at_most_s, _tree(os.getpid())
    while time.monotonic() < deadline:
        time.sleep(_SAMPLED_EVERY_S)
        before, processes = processes, _tree(os.getpid())
        if _cpu_seconds(before, processes) < _IDLE_SHARE * _SAMPLED_EVERY_S:
            return


class _Process(NamedTuple):
    """CPU time of a process in clock ticks: its own, and that of descendants that were waited for."""

    parent: int
    own_ticks: int
    ticks_waited_for: int


def _tree(root: int, besides: int | None = None) -> dict[int, _Process]:
    children, processes = defaultdict(list), dict[int, _Process]()
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parent, times = int(fields[1]), [int(field) for field in fields[11:15]]
            processes[int(folder.name)] = _Process(parent, sum(times[:2]), sum(times[2:]))
            children[parent].append(int(folder.name))
    tree, todo = {}, [root]
    while todo:
        pid = todo.pop()
        if pid in processes and pid != besides:
            tree[pid] = processes[pid]
        todo += children[pid]
    return tree


def _cpu_seconds(before: Mapping[int, _Process], after: Mapping[int, _Process]) -> float:
    """CPU seconds between two looks at a tree. A process that has ended meanwhile counts in its parent, which
    has waited for it. Spark's daemon for Python waits for none: what its workers took before is left out.
    """
    ticks = sum(one.own_ticks + one.ticks_waited_for for one in after.values())
    ticks -= sum(one.own_ticks + one.ticks_waited_for for one in before.values())
    ended_ticks = defaultdict[int, int](int)
    for pid in before.keys() - after.keys():
        ended_ticks[before[pid].parent] += before[pid].own_ticks + before[pid].ticks_waited_for
    for parent, cpu_ticks in ended_ticks.items():
        waited_for = after[parent].ticks_waited_for if parent in after else 0
        if waited_for - before[parent].ticks_waited_for < cpu_ticks:
            ticks += cpu_ticks
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory_mb(root: int, besides: int | None) -> float:
    kilobytes = 0
    for pid in _tree(root, besides):
        try:
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
