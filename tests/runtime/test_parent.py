"""A command ends with the process that started it."""

import os
import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import sys, time
from slackwater.runtime.process_end import end_with_parent
end_with_parent()
print("runs", flush=True)
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys, time
environment = {**os.environ, "SLACKWATER_PARENT": str(os.getpid())}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment, start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


def lives(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_command_whose_parent_was_killed_ends(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w") as output:
        parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=output)
        patience = time.monotonic() + 60
        while "runs" not in (tmp_path / "output").read_text():
            assert time.monotonic() < patience
            time.sleep(0.05)
    pid = next(int(word) for word in (tmp_path / "output").read_text().split() if word.isdecimal())
    time.sleep(0.7)
    assert lives(pid), "while its parent lives"
    parent.kill()
    parent.wait()
    while lives(pid):
        assert time.monotonic() < patience
        time.sleep(0.05)


def test_a_command_that_nobody_binds_to_a_parent_is_not_watched() -> None:
    assert "SLACKWATER_PARENT" not in os.environ
    watched = "import threading; print([thread.name for thread in threading.enumerate()])"
    code = f"from slackwater.runtime.process_end import end_with_parent; end_with_parent(); {watched}"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "['MainThread']"
