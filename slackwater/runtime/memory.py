"""How much memory a task may take, and what an executor of Spark needs for it beside the heap of its JVM.

    memory of an executor | the JVM's heap        | 384 MB of the JVM | task | task |
    Spark calls it        | spark.executor.memory | spark.executor.memoryOverhead |

A task runs in a Python process, which the JVM's heap does not hold. Names and numbers only; nothing here
starts anything.
"""

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
