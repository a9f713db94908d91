"""Where the operators of a case keep state and timers: as the case says, in memory, or swapped."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias, get_args

from slackwater.windowing.runtime.operator_storage import OperatorStorage, Place

BackEnd: TypeAlias = Literal["case", "heap", "swapped"]
BACK_ENDS: tuple[str, ...] = get_args(BackEnd)

# A case's back end → where state and timers live. Timers in the order of a heap can live in memory alone.
_PLACES: dict[str, dict[str, tuple[Place, Place]]] = {
    "case": {
        "hashmap": ("memory", "memory"),
        "rocksdb": ("rocksdb", "rocksdb"),
        "rocksdb_heap_timers": ("rocksdb", "memory"),
    },
    "heap": dict.fromkeys(("hashmap", "rocksdb", "rocksdb_heap_timers"), ("memory", "memory")),
    "swapped": {
        "hashmap": ("rocksdb", "memory"),
        "rocksdb": ("memory", "memory"),
        "rocksdb_heap_timers": ("memory", "memory"),
    },
}
_MEMORY_MB = 16
_IN_MEMORY = Path("/dev/shm")  # thousands of small databases would wait for a disk most of the time


def default_back_end() -> BackEnd:
    return "case" if importlib.util.find_spec("rocksdict") else "heap"


class Storages:
    """The storages of one case, closed together.

    `back_end` "case": as the case says; "heap": all in memory; "swapped": state in RocksDB when the case's is
    in memory, and the other way round. The order of timers and merges is always the case's own.
    """

    def __init__(self, back_end: BackEnd) -> None:
        self._places = _PLACES[back_end]
        self._folder: Path | None = None
        self._storages: list[OperatorStorage] = []

    def open(self, case_back_end: str) -> OperatorStorage:
        """The storage of one operator of a case, or of a part of it after a restore with that back end."""
        state, timers = self._places[case_back_end]
        if self._folder is None and "rocksdb" in (state, timers):
            self._folder = Path(
                tempfile.mkdtemp(
                    prefix="slackwater-conformance-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None
                )
            )
        storage = OperatorStorage(state=state, timers=timers, parent=self._folder, memory_mb=_MEMORY_MB)
        self._storages.append(storage)
        return storage

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for storage in self._storages:
            storage.close()
        if self._folder is not None:
            shutil.rmtree(self._folder)
