"""The most memory that this process has had, and since when that counts."""

import resource
from contextlib import suppress
from pathlib import Path

_PROCESS = Path("/proc/self")


def peak_kb() -> int:
    """The most since `forget_peak`, or since the process was started: VmHWM where the kernel tells it, since
    getrusage counts the parent's too, from before the exec."""
    status = _PROCESS / "status"
    usage = (
        [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if status.exists()
        else []
    )
    return int(usage[0]) if usage else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """Called before a task, in a process that has done others. Where the kernel does not forget, nothing
    happens.
    """
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")
