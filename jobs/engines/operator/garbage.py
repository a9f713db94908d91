"""Python's collector of cyclic garbage, switched off around work that makes many objects and no cycles.

The collector looks at every object again each time their number has grown by a quarter; while state is
restored or parked, that costs time and finds nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """The collector is off inside the block. For work that leaves no cycles behind."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def objects_set_aside() -> Iterator[None]:
    """Inside the block the collector passes over objects that existed before it. It still looks at new ones,
    because functions of users may leave cycles.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
