"""Ends a command with the process that started it, so that no command goes on for which nobody waits."""

import os
import signal
import threading
import time

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
        threading.Thread(target=_watch, args=(parent, int(ancestor)), name="parent", daemon=True).start()


def _watch(parent: int, ancestor: int) -> None:
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
