"""Makes the process keep memory that one batch has freed for the next batch.

Fresh pages for each batch would take a quarter of a replay's CPU time and more. `keep_heap` is for processes
that replay on threads; Spark's tasks get the same by their environment (`slackwater.runtime.settings`).
Call it first in a process: Arrow chooses its heap at import, and what was imported before stays with the old
one.
"""

import ctypes
import os

# Parameter → value for glibc's mallopt(3).
_MALLOPT_VALUES = {
    -4: 0,  # M_MMAP_MAX: no large block gets pages of its own, which would go back to the system when freed
    -1: -1,  # M_TRIM_THRESHOLD: unused memory never goes back by itself
    -8: 1,  # M_ARENA_MAX: one heap, since a thread's own heap holds no large blocks
}


def keep_heap() -> None:
    """Give numpy and Arrow one heap for all threads; it keeps unused memory until `give_back`. For glibc."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _MALLOPT_VALUES.items():
            mallopt(parameter, value)


def give_back() -> None:
    """Return unused memory of this process to the system, for example to Spark's tasks; for glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
