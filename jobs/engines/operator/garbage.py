"""Python's collector of cyclic garbage, kept away from work that makes many objects and no garbage.

It looks at every object again each time their number has grown by a quarter: for state that is restored or
parked, time for nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """Nothing is collected meanwhile. For work that leaves no cycles behind."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def objects_set_aside() -> Iterator[None]:
    """What exists by now is not looked at meanwhile; what is made later is, because functions of users may
    leave cycles.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
