"""A function of the user, called with batches of corrections.

The position is kept in the warehouse, and moves after the function has returned: it is called at least once
for every correction. Two deliverers at once, or a death between the two, call it again for a batch.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from slackwater.pipelines.sinks import SinkContext, SinkPosition, SinkTarget
from slackwater.sinks.targets.transactions import position_in, transaction_of
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import CommitConflict

# A table without rows, whose log has the positions of a pipeline's functions.
POSITIONS = "sink_positions"


class FunctionTarget(SinkTarget):
    """An opened `FunctionSink`; its position is an application transaction in the log of an empty table."""

    def __init__(
        self, name: str, function: Callable[[pa.Table, tuple[int, int]], Any], context: SinkContext
    ) -> None:
        self._function = function
        self._application = f"{name} {context.lineage}"
        self._folder = Folder(
            f"{context.warehouse}/{context.pipeline}/{POSITIONS}", pa.schema([("sink", pa.string())])
        )

    def position(self) -> SinkPosition:
        return position_in(self._folder.find(), self._application)

    def deliver(self, changes: pa.Table, start: SinkPosition, end: SinkPosition) -> bool:
        """See `SinkTarget.deliver`. On False the function may have had a batch that another delivered."""
        if self.position() != start:
            return False
        self._function(changes, (end.seq, end.offset))
        return self._move(start, end)

    def reset(self, position: SinkPosition) -> None:
        self._folder.commit_files([], transaction=transaction_of(self._application, position))

    def _move(self, start: SinkPosition, end: SinkPosition) -> bool:
        """Move the position if it is still at `start`; commits for other sinks do not matter."""
        while True:
            table = self._folder.ensure()
            if position_in(table, self._application) != start:
                return False
            try:
                self._folder.commit_files(
                    [], expected_table=table, transaction=transaction_of(self._application, end)
                )
            except CommitConflict:
                continue
            return True
