"""Who holds a claim: a process, named so that another process can tell whether it still runs, or that it
can't tell.

Knows no table. A process can be looked up by its id only from its own pid namespace on its own machine.
"""

import os
import socket
from pathlib import Path


def this_process() -> str:
    """This process as the owner of a claim."""
    return owner_of(os.getpid(), _started(os.getpid()) or "")


def owner_of(pid: int, started: str) -> str:
    """``host/place/pid/started`` of a process of this place.

    Args:
        pid: its id.
        started: when it started, in the kernel's ticks: a process id is used again.
    """
    return f"{socket.gethostname()}/{_place()}/{pid}/{started}"


def is_dead(owner: str) -> bool:
    """Whether `owner` was a process of this place that runs no more. False when that can't be known: also of
    an owner that names no place, as earlier versions wrote it."""
    parts = owner.split("/")
    here = [socket.gethostname(), _place()]
    if len(parts) != 4 or parts[:2] != here or not here[1]:
        return False
    pid, started = int(parts[2]), parts[3]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    now = _started(pid)
    return now is not None and bool(started) and now != started


def _place() -> str:
    """Where process ids mean the same process: boot and pid namespace. Containers may share a host name, and
    machines too. "" where the kernel doesn't say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process started; "" where there is none, or it only waits to be reaped; None where that can't be
    known.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else None
    except OSError:
        return None
    facts = stat.rsplit(")", 1)[1].split()
    return "" if facts[0] in "ZX" else facts[19]
