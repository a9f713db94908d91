"""The peak of this process's memory since its last task began."""

import resource
from contextlib import suppress
from pathlib import Path

PROCESS = Path("/proc/self")


def peak_kb(process: Path = PROCESS) -> int:
    """The most memory since `forget_peak` or the process's start: VmHWM of the folder `process`, as getrusage
    also counts the parent's memory from before the exec.
    """
    status = process / "status"
    usage = (
        [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if status.exists()
        else []
    )
    return int(usage[0]) if usage else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak(process: Path = PROCESS) -> None:
    """Begin a new peak, before a task in a process that has run others, where the kernel supports it."""
    with suppress(OSError):
        (process / "clear_refs").write_text("5")
