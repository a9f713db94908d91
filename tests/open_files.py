"""Lets work run in a process that may hold few files open at once.

Knows nothing of what it does: the work is a function of a module, given by reference.
"""

import resource
from collections.abc import Callable
from multiprocessing import get_context
from typing import TypeVar

Result = TypeVar("Result")

FEWEST = 256  # what macOS allows unless told otherwise


def with_few_open_files(work: Callable[..., Result], *arguments: object) -> Result:
    """What `work(*arguments)` returns in a process that may have `FEWEST` files open; raises what it
    raises.
    """
    with get_context("spawn").Pool(1, _limit) as pool:
        return pool.apply(work, arguments)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEWEST, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
