"""The state back ends that every contract runs on.

Whoever writes a back end adds one factory here; no test names one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windowing.runtime.window_operator import MakeBackend, heap_backend


@dataclass(frozen=True)
class BackendFactory:
    """One kind of state back end.

    Attributes:
        name: as test ids show it.
        make: a path of the operator's own, where nothing is yet → what `window_operator` takes as `make_backend`.
        hands_out_stored_objects: whether reading a value gives the object that is stored, not a copy of it.
    """

    name: str
    make: Callable[[Path], MakeBackend]
    hands_out_stored_objects: bool


BACKENDS = [
    BackendFactory("heap", lambda folder: heap_backend, hands_out_stored_objects=True),
]
