"""Memory that a batch has freed stays with the process, for the next one."""

import ctypes
import json
import subprocess
import sys

import pytest

PROBE = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from jobs.runtime.heap import keep_heap
if sys.argv[1] == "kept":
    keep_heap()
import numpy as np, psutil, pyarrow as pa

def resident_mb():
    return psutil.Process().memory_info().rss >> 20

def batch():
    return sum(block.nbytes for block in [np.ones(30 << 17) for _ in range(8)]) >> 20  # blocks of 30 MB

before = resident_mb()
with ThreadPoolExecutor(1) as threads:
    taken = threads.submit(batch).result()
print(json.dumps({"backend": pa.default_memory_pool().backend_name, "taken": taken, "stays": resident_mb() - before}))
"""


def probe(how: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", PROBE, how], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_what_a_thread_has_freed_stays_for_the_next_where_the_heap_can_be_told() -> None:
    kept, usual = probe("kept"), probe("usual")
    assert kept["backend"] == "system"
    assert kept["taken"] == usual["taken"] == 240
    assert usual["stays"] < 100  # type: ignore[operator]
    assert (kept["stays"] > 200) is hasattr(ctypes.CDLL(None), "mallopt")  # type: ignore[operator]


def test_it_is_harmless_where_the_library_has_no_such_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.runtime import heap

    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    heap.keep_heap()
    assert heap.os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
