"""Promises: what a class says about its own methods, so that an engine may skip calling them.

A promise is a class attribute or property that must not be inherited along with other code:

    class Trigger                 looks_at_elements = True      the cautious answer
    class CountTrigger(Trigger)   looks_at_elements = False     a promise about CountTrigger.on_element
    class Sampled(CountTrigger)   looks_at_elements = True      cautious again: it has promised nothing

A family's root class calls `withdraw_promises` from its `__init_subclass__`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

EVERYTHING: Final[tuple[str, ...]] = ()  # the promise is about all that a class does: no subclass has it


def withdraw_promises(cls: type, root: type, methods_by_promise: Mapping[str, Sequence[str]]) -> None:
    """Give `cls` the cautious answers of `root` in place of inherited promises that may not hold for it.

    `methods_by_promise` lists the attributes that each promise is about: a subclass keeps the promise while
    it has exactly the promising class' attributes; of EVERYTHING, it never does.
    """
    for promise, methods in methods_by_promise.items():
        if promise in vars(cls):
            continue
        author = next(parent for parent in cls.__mro__ if promise in vars(parent))
        is_same_code = bool(methods) and all(
            getattr(cls, name, None) is getattr(author, name, None) for name in methods
        )
        if not is_same_code:
            setattr(cls, promise, vars(root)[promise])
