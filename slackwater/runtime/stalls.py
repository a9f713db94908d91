"""Ends a process that waits for ever because its address space is used up: where Arrow or delta-rs can start
no thread, another of their threads may wait for what that one was to do.

Nothing happens where the address space has no limit (`ulimit -v`), or there is no /proc.
"""

import os
import resource
import threading
import time
from pathlib import Path

from slackwater.errors import out_of_memory

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
