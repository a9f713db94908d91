"""Memory that was freed is there for the next batch, also for threads, without the kernel's help."""

import json
import platform
import subprocess
import sys

import pytest

PROBE = """
import json, resource, sys
from concurrent.futures import ThreadPoolExecutor
from jobs.runtime.heap import keep_heap
if sys.argv[1] == "kept":
    keep_heap()
import numpy as np, pyarrow as pa

def batch():
    blocks = [np.ones(2 << 20) for _ in range(8)]  # 16 MB each
    return len(blocks), pa.array(blocks[0]).cast("int64").nbytes

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    with ThreadPoolExecutor(2) as threads:  # new ones for each batch
        list(threads.map(lambda _: batch(), range(2)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(json.dumps({"backend": pa.default_memory_pool().backend_name, "faults": [faults() for _ in range(4)]}))
"""


def probe(how: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", PROBE, how], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's heap can be told")
def test_what_one_batch_has_freed_serves_the_next() -> None:
    kept, usual = probe("kept"), probe("usual")
    assert kept["backend"] == "system"
    assert kept["faults"][-1] < usual["faults"][-1] / 4  # type: ignore[index]


def test_it_is_harmless_where_the_library_has_no_such_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.runtime import heap

    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    heap.keep_heap()
    assert heap.os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
