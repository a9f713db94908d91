"""Makes a folder that all processes of a test run read.

Knows nothing of what lies in it.
"""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name`, empty at first, after `make` of it: the first process that asks makes it, the
    others wait. Nobody writes to it afterwards.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, mark = root / name, root / f"{name}-is-made"
    with (root / f"{name}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            mark.touch()
    return folder
