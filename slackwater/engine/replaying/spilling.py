"""Where a range keeps its state: in memory and, once that outgrows a bound, in RocksDB, in a directory of the
task's own that is deleted with it.

Decides, and moves state; results are the same in either place. The bound is a setting of the machine, not of
a pipeline.
"""

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.errors import PermanentError
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.slice_runner import SliceRunner

BYTES_PER_MB: Final = 1 << 20
# A look counts all entries of the state. The first one comes after so many elements, each later one after at
# least as many elements as there are entries, and after as many as could fill an eighth of the room, entries
# and items of lists being what elements add: one element may have several windows.
FIRST_LOOK: Final = 10_000
_SHARE_OF_ROOM: Final = 8
_PARTS: Final = 16
# A part of a key group takes a pass over all of the group.
_PARTS_OF_FEW_GROUPS: Final = 4
_OTHER_FOLDER: Final = "SPARK_LOCAL_DIRS names the folder to make it in, else TMPDIR does."
_LEAST_SHARE: Final = 4  # of the limit is left to state at least, whatever else is in memory
ROCKSDB_MB: Final = 256
_GROWTH: Final = 12  # times their columns is what restored rows take in memory


class StateFolderError(PermanentError):
    """The folder for state can't be made, or others than this user may write to it. Facts: folder."""


class Spilling:
    """The storage of one range's state and timers. `close` it after the runner, also after a failure.

    Args:
        limit_mb: how much memory it may take.
        parked_bytes: size of the columns that will be restored.
        element_bytes: size of the elements' columns, which stay in memory beside the state.
    """

    def __init__(self, limit_mb: int, parked_bytes: int, element_bytes: int = 0) -> None:
        limit = limit_mb * BYTES_PER_MB
        # While state moves it is in both places.
        self._limit = max(limit - element_bytes - ROCKSDB_MB * BYTES_PER_MB, limit // _LEAST_SHARE)
        self.is_spilled = parked_bytes * _GROWTH > self._limit or not limit_mb
        self._storages = [_on_disk() if self.is_spilled else OperatorStorage()]
        self._next_look = FIRST_LOOK

    @property
    def storage(self) -> OperatorStorage:
        return self._storages[-1]

    def look(self, runner: SliceRunner) -> None:
        """Move the state if it has outgrown its bound; called between two elements."""
        processed_count = runner.elements_processed
        if processed_count < self._next_look or self.is_spilled:
            return
        size = runner.state_size()
        room = max(self._limit - size.bytes, 0) * (size.entries + size.items) // max(size.bytes, 1)
        self._next_look = processed_count + max(FIRST_LOOK, size.entries, room // _SHARE_OF_ROOM)
        if size.bytes > self._limit:
            self._storages.append(_on_disk())
            self.is_spilled = True
            runner.move_storage(self.storage)

    def parts(self, key_range: KeyRange) -> list[KeyRange]:
        """The parts in which state is restored and parked: one in memory, several on disk."""
        if not self.is_spilled:
            return [key_range]
        return key_range.parts(min(_PARTS, max(_PARTS_OF_FEW_GROUPS, len(key_range.key_groups))))

    def close(self) -> None:
        for storage in self._storages:
            storage.close()


def _on_disk() -> OperatorStorage:
    # Pickles never leave the task's own directory, to which nobody else may write.
    return OperatorStorage(
        state="rocksdb", timers="rocksdb", parent=_own_folder(), memory_mb=ROCKSDB_MB, pickles=True
    )


def _own_folder() -> Path:
    """The folder of this user's databases, where Spark puts its own working files on this machine, else among
    the temporary files.

    Raises:
        StateFolderError: it can't be made, or another user could write to it, and the pickles in it are code.
    """
    spark_folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    folder = Path(spark_folder or tempfile.gettempdir()) / f"slackwater-state-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise StateFolderError(
            f"the folder for state that leaves memory can't be made: {error}. {_OTHER_FOLDER}", folder=folder
        ) from error
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or stat.S_IMODE(status.st_mode) & 0o077
    ):
        raise StateFolderError(
            f"{folder}, the folder for state that leaves memory, must be a directory of user {os.geteuid()} "
            "that nobody else may enter; it "
            f"is {stat.filemode(status.st_mode)} of user {status.st_uid}. Delete it if it is yours. "
            f"{_OTHER_FOLDER}",
            folder=folder,
        )
    return folder
