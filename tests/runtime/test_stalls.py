"""A process that waits without room for another thread ends; one with room, or at work, goes on."""

import subprocess
import sys

import pytest

PROCESS = """
import mmap, resource, sys, time
from pathlib import Path
from slackwater.runtime.process_end import end_if_stalled

MIB = 1 << 20
bytes_taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (bytes_taken + 256 * MIB, resource.RLIM_INFINITY))
end_if_stalled(0.2)
bytes_taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
bytes_left = resource.getrlimit(resource.RLIMIT_AS)[0] - bytes_taken
memory = mmap.mmap(-1, bytes_left - int(sys.argv[1]) * MIB, prot=mmap.PROT_READ)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    if sys.argv[2] == "waits":
        time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "does", "code"), [("16", "waits", 3), ("128", "waits", 0), ("16", "works", 0)]
)
def test_only_a_process_that_waits_without_room_ends(left: str, does: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, left, does], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("memory ran out" in done.stderr and "repeat the command" in done.stderr) == (code == 3)
