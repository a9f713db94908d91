"""Ends a process for which nobody waits any more, or which itself waits for ever.

A command ends with the process that started it. A process also ends when its address space is used up: where
Arrow or delta-rs can start no thread, another of their threads may wait for what that one was to do. That is
not watched where the address space has no limit (`ulimit -v`), or there is no /proc.
"""

import os
import resource
import signal
import threading
import time
from pathlib import Path

from slackwater.errors import out_of_memory

# The id of the process that started this one, set by whoever wants it to end with that.
PARENT = "SLACKWATER_PARENT"


def end_with_parent() -> None:
    """Watch the process that PARENT names, and end this one when it is no longer our parent; under
    spark-submit, whose JVM is our parent, when either of the two has ended. What was not committed until then
    does not count, as after any kill. A JVM of ours ends with us.
    """
    ancestor = os.environ.pop(PARENT, None)
    if ancestor is not None:
        is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        parent = os.getppid() if is_submitted else int(ancestor)
        threading.Thread(
            target=_watch_parent, args=(parent, int(ancestor)), name="parent", daemon=True
        ).start()


def _watch_parent(parent: int, ancestor: int) -> None:
    while os.getppid() == parent and is_running(ancestor):
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def is_running(process: int) -> bool:
    """Whether there is a process of this id, whosever it is."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        return True
    return True


STALLED_S = 120.0
_IDLE_SHARE = 0.02  # of a core; the lease of a run is renewed meanwhile
_ROOM_BYTES = 64 << 20  # as much as glibc reserves for the heap of one more thread
_STATM = Path("/proc/self/statm")


def end_if_stalled(stalled_s: float = STALLED_S) -> None:
    """From now on end the process with exit code 3 if it does nothing for so many seconds and has no room for
    another thread. Called once, before a command.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and _STATM.exists():
        threading.Thread(target=_watch, args=(limit, stalled_s), name="stalls", daemon=True).start()


def _watch(limit: int, stalled_s: float) -> None:
    failure = out_of_memory(
        MemoryError("all of the address space that `ulimit -v` allows is taken, and a library waits for more")
    )
    text = f"slackwater: {failure}\n".encode()
    while True:
        cpu_s = time.process_time()
        time.sleep(stalled_s)
        room = limit - int(_STATM.read_text().split()[0]) * resource.getpagesize()
        if time.process_time() - cpu_s < _IDLE_SHARE * stalled_s and room < _ROOM_BYTES:
            os.write(2, text)
            os._exit(3)
