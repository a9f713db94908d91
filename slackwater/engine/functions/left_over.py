"""The one signal of this package: a range of keys is left to the operator engine, also where it needs more
memory than a task has, because that engine has disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from slackwater.engine.replaying import spilling
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.snapshot_rows import restored_bytes
from slackwater.engine.rows.key_ranges import KeyRange

# Estimates: multiples of the columns of its rows and of the parked texts, and for each element of the longest
# list.
_COPIES_OF_ROWS: Final = 3
_COPIES_OF_TEXTS: Final = 8
_BYTES_PER_OBJECT: Final = 200


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


def require_room_for_range(replay: Replay, key_range: KeyRange, rows: pa.Table) -> None:
    """Room for the range's `rows` and its parked rows, or LeftToOperator is raised."""
    parked_bytes = sum(restored_bytes(replay, name, key_range) for name in ("window_state", "keyed_state"))
    _require_room(replay, _COPIES_OF_ROWS * rows.nbytes + _COPIES_OF_TEXTS * parked_bytes, "more elements")


def require_room_for_elements(replay: Replay, count: int) -> None:
    """Room for so many elements as objects at once, or LeftToOperator is raised."""
    _require_room(replay, count * _BYTES_PER_OBJECT, "a window of more elements")


def _require_room(replay: Replay, needed_bytes: int, subject: str) -> None:
    if needed_bytes > replay.state_memory_mb * spilling.BYTES_PER_MB:
        raise LeftToOperator(f"{subject} than fit the memory of a task")
