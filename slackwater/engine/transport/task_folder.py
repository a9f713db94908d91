"""A folder of this machine for the files that one task leaves for another."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from slackwater.runtime.process_end import is_running

_PREFIX: Final = "slackwater-tasks-"
_SECONDS_KEPT: Final = 86_400


@contextmanager
def folder_of_tasks() -> Iterator[str]:
    """A folder that goes with the block. A killed process's folder goes a day later, with the next one:
    younger ones may belong to processes that can't be seen from here.
    """
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, ValueError):
            is_old = time.time() - folder.stat().st_mtime > _SECONDS_KEPT
            if is_old and not is_running(int(folder.name.removeprefix(_PREFIX).partition("-")[0])):
                shutil.rmtree(folder)
    with TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as own_folder:
        yield own_folder
