"""How much memory a task may take, and what an executor of Spark needs for it beside the heap of its JVM; and
a heap that keeps for the next batch what one batch has freed.

    memory of an executor | the JVM's heap        | 384 MB of the JVM | task | task |
    Spark calls it        | spark.executor.memory | spark.executor.memoryOverhead |

A task runs in a Python process, which the JVM's heap does not hold. Nothing here starts anything.

Fresh pages for each batch would take a quarter of a replay's CPU time and more. `keep_heap` is for processes
that replay on threads; Spark's tasks get the same by their environment (`slackwater.runtime.settings`). Call
it first in a process: Arrow chooses its heap at import, and what was imported before stays with the old one.
"""

import ctypes
import os
from typing import Final

from slackwater.errors import UsageError

VARIABLE: Final = "SLACKWATER_STATE_MEMORY_MB"
DEFAULT_MB: Final = 1024
IDLE_MB: Final = 230  # measured: a Python worker without rows
JVM_MB: Final = 384  # the least that Spark itself adds to a heap


class StateMemoryError(UsageError):
    """SLACKWATER_STATE_MEMORY_MB is no number of megabytes."""


def state_memory_mb() -> int:
    """Memory for one task's rows and state, from SLACKWATER_STATE_MEMORY_MB. Raises StateMemoryError."""
    text = os.environ.get(VARIABLE, str(DEFAULT_MB))
    if not text.isascii() or not text.isdigit():
        raise StateMemoryError(
            f"{VARIABLE} is {text!r}; give the megabytes that the state of one task may take, e.g. "
            f"{DEFAULT_MB}."
        )
    return int(text)


def overhead_mb(task_mb: int, cores: int) -> int:
    """The `spark.executor.memoryOverhead` in MB of an executor that runs a task of `task_mb` on each core."""
    return JVM_MB + cores * task_mb


def cluster_settings(cores: int) -> dict[str, str]:
    """Spark's settings for executors with so many cores: the overhead for tasks, where nobody has set it."""
    return {"spark.executor.minMemoryOverhead": f"{overhead_mb(IDLE_MB + state_memory_mb(), cores)}m"}


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
