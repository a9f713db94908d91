"""The one signal of this package: a range of keys is left to the operator engine."""

from collections.abc import Iterator
from contextlib import contextmanager


class LeftToOperator(Exception):
    """Something in a range that only the operator engine does: a function that raises or asks for state, or
    parked state of another form. It replays the range from its first element, and raises what there is to
    raise.
    """


class AsksForState(LeftToOperator):
    """A function asks for state that is not at hand: its range is walked with the function's state."""


@contextmanager
def leaving_errors(caller: str) -> Iterator[None]:
    """Errors of user code in the block leave the range to the operator engine, which meets them too."""
    try:
        yield
    except LeftToOperator:
        raise
    except Exception as error:
        raise left_for(error, caller) from error


def left_for(error: Exception, caller: str) -> LeftToOperator:
    """The signal where code of the user's, or what calls it, has raised."""
    return LeftToOperator(f"{caller} has raised {type(error).__name__}")
