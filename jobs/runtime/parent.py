"""Ends a command with the process that started it, so that no command goes on for which nobody waits."""

import os
import signal
import threading
import time

# The id of the process that started this one, set by whoever wants it to end with that.
PARENT = "SLACKWATER_PARENT"


def end_with_parent() -> None:
    """Watch the process that PARENT names, and end this one when it is no longer our parent. What was not
    committed until then does not count, as after any kill. A JVM of ours ends with us.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is not None:
        threading.Thread(target=_watch, args=(int(parent),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
