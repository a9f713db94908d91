"""The one signal of this package: a range of keys is left to the operator engine."""

from collections.abc import Iterator
from contextlib import contextmanager


class LeftToOperator(Exception):
    """What has come up in a range that only the operator engine does: a function that asks for state, one
    that raises, or parked state of another form. The operator engine replays the range from its first
    element, and raises what there is to raise.
    """


class AsksForState(LeftToOperator):
    """A function asks for state that is not at hand: its range is walked with the function's state."""


@contextmanager
def leaving_errors(caller: str) -> Iterator[None]:
    """Whatever code of the user's raises inside, the operator engine raises it, too."""
    try:
        yield
    except LeftToOperator:
        raise
    except Exception as error:
        raise left_for(error, caller) from error


def left_for(error: Exception, caller: str) -> LeftToOperator:
    """The signal where code of the user's, or what calls it, has raised."""
    return LeftToOperator(f"{caller} has raised {type(error).__name__}")
