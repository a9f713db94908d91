"""How this process keeps memory: what a batch has freed stays for the next one. Where threads of the driver
replay, as where Spark's tasks do (`slackwater.jobs.runtime.settings`), fresh pages for each batch take a
quarter of the CPU time and more.

Called first by what starts a process. Which heap Arrow takes is settled when it is imported: where that came
before, by the environment.
"""

import ctypes
import os

# Parameters of glibc's mallopt(3), and what they are set to: how many large blocks are pages of their own,
# which go back when freed; the unused bytes above which memory goes back, -1 for never; and the number of
# heaps. Threads' own would hold no large blocks.
_SET = {-4: 0, -1: -1, -8: 1}  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_ARENA_MAX


def keep_heap() -> None:
    """One heap for numpy and Arrow, for all threads, of which unused memory is kept until `give_back`. A
    no-op where there is no glibc.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _SET.items():
            mallopt(parameter, value)


def give_back() -> None:
    """Let others have the memory that this process does not use, as before Spark's tasks need some. A no-op
    where there is no glibc.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
