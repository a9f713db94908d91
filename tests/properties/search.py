"""How long a random search is: short in the fast suite, long with --slow, which runs the same test again."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

LONG = (
    "long search"  # the profile of hypothesis that tests/conftest.py loads where only slow tests are selected
)


def searched(short: int, *, long: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`@settings(max_examples=short)` in the fast suite; with --slow the same test has `long` examples."""
    is_long = settings.get_current_profile_name() == LONG

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        test = settings(max_examples=long if is_long else short)(test)
        return pytest.mark.slow(test) if is_long else test

    return decorate
