"""An owner of a claim counts as dead only if it was a process of this place, where it can be looked up, and
runs no more.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.tables.ledger import attempts
from slackwater.tables.ledger.attempts import is_dead, owner_of, this_process


def start_ticks(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_this_process_lives() -> None:
    assert not is_dead(this_process())
    assert this_process() == owner_of(os.getpid(), start_ticks(os.getpid()))


def test_a_process_that_ended_is_dead() -> None:
    assert is_dead(owner_of(ended_process(), "1"))


def test_a_process_that_was_killed_and_not_reaped_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = owner_of(child.pid, start_ticks(child.pid))
        assert not is_dead(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(owner)


def test_another_process_with_its_number_does_not_stand_in_for_it() -> None:
    assert is_dead(owner_of(os.getpid(), str(int(start_ticks(os.getpid())) - 1)))


def test_of_another_host_nothing_is_known() -> None:
    assert (
        not is_dead("elsewhere.example/1/1")
        and not is_dead("elsewhere.example/boot.1/1/1")
        and not is_dead("")
    )


def test_of_an_owner_that_names_no_place_nothing_is_known() -> None:
    """As earlier versions wrote it: it may have been of another container with this host name."""
    assert not is_dead(f"{socket.gethostname()}/{ended_process()}/1")


def test_where_the_kernel_names_no_place_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "process_place", lambda: "")
    assert not is_dead(owner_of(ended_process(), "1"))


def test_a_process_of_another_container_with_this_host_name_lives() -> None:
    """It is process 1 of its own namespace, as here another one is."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a pid namespace")
    script = f"from {this_process.__module__} import this_process; print(this_process(), flush=True); input()"
    with subprocess.Popen(
        [*unshare, sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        owner = other.stdout.readline().strip()
        assert owner.startswith(f"{socket.gethostname()}/") and "/1/" in owner
        assert not is_dead(owner)
        other.stdin.write("\n")
