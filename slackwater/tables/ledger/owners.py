"""Names the process that holds a claim, so that another process can find out whether it still runs.

Knows no table. A process can be looked up by its id only from its own pid namespace on its own machine; from
elsewhere nothing is known of it.
"""

import os
import socket
from pathlib import Path


def this_process() -> str:
    return owner_of(os.getpid(), _start_ticks(os.getpid()) or "")


def owner_of(pid: int, start_ticks: str) -> str:
    """The name of a process of this place: ``host/place/pid/start ticks``; process ids are used again, so it
    has the kernel's start ticks.
    """
    return f"{socket.gethostname()}/{process_place()}/{pid}/{start_ticks}"


def process_place() -> str:
    """The place in which a process id names one process: the boot and the pid namespace. A host name is not
    enough: containers may share one, and machines too. "" where the kernel doesn't say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def is_dead(owner: str) -> bool:
    """Whether `owner` was a process of this place that runs no more. False where that can't be known."""
    parts = owner.split("/")
    this_place = [socket.gethostname(), process_place()]
    if len(parts) != 4 or parts[:2] != this_place or not this_place[1]:
        return False
    pid, start_ticks = int(parts[2]), parts[3]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    ticks_now = _start_ticks(pid)
    return ticks_now is not None and bool(start_ticks) and ticks_now != start_ticks


def _start_ticks(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; "" where there is no such process, or it only waits to
    be reaped; None where that can't be known.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else None
    except OSError:
        return None
    facts = stat.rsplit(")", 1)[1].split()
    return "" if facts[0] in "ZX" else facts[19]
