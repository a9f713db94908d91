"""Memory that a batch has freed stays with the process, for the next one, until it is given back."""

import ctypes
import json
import subprocess
import sys

import pytest

PROBE = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from slackwater.jobs.runtime.heap import give_back, keep_heap
if sys.argv[1] == "kept":
    keep_heap()
import numpy as np, psutil, pyarrow as pa
from slackwater.jobs.tables.sql import query

def resident_mb():
    return psutil.Process().memory_info().rss >> 20

def batch():
    return sum(block.nbytes for block in [np.ones(mb << 17) for mb in (60, 30, 30, 120, 360)]) >> 20

def stays(after=lambda: None):
    before = resident_mb()
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(batch).result()
    after()
    assert taken == 600
    return resident_mb() - before

def ask():
    found = query("SELECT count(*) AS n FROM a JOIN b USING (x)", a=rows, b=rows)["n"].to_pylist()
    assert found == [300_000]
    time.sleep(1)  # DuckDB's threads, if there are others, have rested

rows = pa.table({"x": np.arange(300_000)})
ask()
told = {"backend": pa.default_memory_pool().backend_name, "stays": stays()}
give_back()
print(json.dumps({**told, "stays_behind_a_query": stays(ask), "given_back": stays(give_back)}))
"""


def probe(how: str) -> dict[str, int | str]:
    process = subprocess.run([sys.executable, "-c", PROBE, how], capture_output=True, text=True, check=True)
    found: dict[str, int | str] = json.loads(process.stdout)
    return found


def test_what_a_thread_has_freed_stays_for_the_next_where_the_heap_can_be_told() -> None:
    kept, usual = probe("kept"), probe("usual")
    assert kept["backend"] == "system"
    assert int(usual["stays"]) < 100
    can_be_told = hasattr(ctypes.CDLL(None), "mallopt")
    assert (int(kept["stays"]) > 500) is can_be_told
    assert (int(kept["stays_behind_a_query"]) > 500) is can_be_told
    assert int(kept["given_back"]) < 100


def test_it_is_harmless_where_the_library_has_no_such_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    from slackwater.jobs.runtime import heap

    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    heap.keep_heap()
    assert heap.os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
    heap.give_back()
