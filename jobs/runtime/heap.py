"""How this process keeps memory: blocks that are freed stay for the next batch. Where threads of the driver replay, as where Spark's tasks
do (`jobs.runtime.settings`), fresh pages for each batch take a quarter of the CPU time and more.

Called first by what starts a process. Which heap Arrow takes is settled when it is imported: where that came before, by the environment.
"""

import ctypes
import os

# Parameters of glibc's mallopt(3), and what they are set to: bytes, and the number of heaps. Threads' own would hold no large blocks.
_SET = {-3: 32 << 20, -1: 1 << 30, -8: 1}  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_ARENA_MAX


def keep_heap() -> None:
    """One heap for numpy and Arrow, for all threads, of which up to 1 GB of unused memory is kept. A no-op where there is no glibc."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _SET.items():
            mallopt(parameter, value)
