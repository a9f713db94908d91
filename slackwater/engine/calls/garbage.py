"""Python's collector of cyclic garbage, switched off around work that makes many objects and no cycles: it
looks at every object again each time their number has grown by a quarter.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Python's own threshold is 700 objects more than at the last look. Each of some thousand elements is two.
_MANY_OBJECTS = 1 << 16


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
    """The collector passes over older objects in the block, not new ones: user functions may leave cycles."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def collector_waiting() -> Iterator[None]:
    """Inside the block the collector waits longer; for work that makes thousands of short-lived objects."""
    thresholds = gc.get_threshold()
    gc.set_threshold(max(_MANY_OBJECTS, thresholds[0]), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
