"""Memory that a batch has freed stays with the process, for the next one, until it is given back."""

import ctypes
import json
import subprocess
import sys

import pytest

PROBE = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from slackwater.runtime.memory import give_back, keep_heap
if sys.argv[1] == "keep":
    keep_heap()
import numpy as np, psutil, pyarrow as pa
from slackwater.tables.sql import query

def resident_mb():
    return psutil.Process().memory_info().rss >> 20

def batch():
    return sum(block.nbytes for block in [np.ones(mb << 17) for mb in (60, 30, 30, 120, 360)]) >> 20

def stays(after=lambda: None):
    before = resident_mb()
    with ThreadPoolExecutor(1) as threads:
        megabytes = threads.submit(batch).result()
    after()
    assert megabytes == 600
    return resident_mb() - before

def ask():
    counts = query("SELECT count(*) AS n FROM a JOIN b USING (x)", a=rows, b=rows)["n"].to_pylist()
    assert counts == [300_000]
    time.sleep(1)  # DuckDB's threads, if there are others, have rested

rows = pa.table({"x": np.arange(300_000)})
ask()
facts = {"backend": pa.default_memory_pool().backend_name, "stays": stays()}
give_back()
print(json.dumps({**facts, "stays_behind_a_query": stays(ask), "given_back": stays(give_back)}))
"""


def probe(how: str) -> dict[str, int | str]:
    process = subprocess.run([sys.executable, "-c", PROBE, how], capture_output=True, text=True, check=True)
    facts: dict[str, int | str] = json.loads(process.stdout)
    return facts


@pytest.mark.slow
def test_memory_that_a_thread_has_freed_stays_for_the_next_where_there_is_mallopt() -> None:
    with_kept_heap, without = probe("keep"), probe("usual")
    assert with_kept_heap["backend"] == "system"
    assert int(without["stays"]) < 100
    has_mallopt = hasattr(ctypes.CDLL(None), "mallopt")
    assert (int(with_kept_heap["stays"]) > 500) is has_mallopt
    assert (int(with_kept_heap["stays_behind_a_query"]) > 500) is has_mallopt
    assert int(with_kept_heap["given_back"]) < 100


def test_keeping_the_heap_does_nothing_where_there_is_no_mallopt(monkeypatch: pytest.MonkeyPatch) -> None:
    from slackwater.runtime import memory

    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    memory.keep_heap()
    assert memory.os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
    memory.give_back()
