"""How much memory a range may take; a larger one is left to the operator engine, which has disk."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from slackwater.engine.functions.left_over import LeftToOperator
from slackwater.engine.replaying import spilling
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.snapshot_rows import restored_bytes
from slackwater.engine.rows.key_ranges import KeyRange

# Estimates: multiples of the columns of its rows and of the parked texts, and for each element of the longest
# list.
_COPIES_OF_ROWS: Final = 3
_COPIES_OF_TEXTS: Final = 8
_BYTES_OF_OBJECT: Final = 200


@dataclass(frozen=True)
class RangeMemory:
    limit_bytes: int

    @classmethod
    def of(cls, replay: Replay) -> "RangeMemory":
        return cls(replay.state_memory_mb * spilling.BYTES_PER_MB)

    def require_range(self, replay: Replay, key_range: KeyRange, rows: pa.Table) -> None:
        """Room for the range's `rows` and its parked rows, or LeftToOperator is raised."""
        parked_bytes = sum(
            restored_bytes(replay, name, key_range) for name in ("window_state", "keyed_state")
        )
        if _COPIES_OF_ROWS * rows.nbytes + _COPIES_OF_TEXTS * parked_bytes > self.limit_bytes:
            raise LeftToOperator("more elements than fit the memory of a task")

    def require_elements(self, count: int) -> None:
        """Room for so many elements as objects at once, or LeftToOperator is raised."""
        if count * _BYTES_OF_OBJECT > self.limit_bytes:
            raise LeftToOperator("a window of more elements than fit the memory of a task")
