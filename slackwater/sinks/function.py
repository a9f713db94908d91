"""The declaration of a function of the user as a sink. Standard library only: DAG files read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments
from slackwater.pipelines.sinks import Sink, SinkContext, SinkTarget

if TYPE_CHECKING:
    import pyarrow as pa


@refuse_unknown_arguments
@dataclass(frozen=True)
class FunctionSink(Sink):
    """A function that is called with each batch of corrections, in order.

    Args:
        name: of the sink.
        function: ``deliver(changes: pyarrow.Table, position: tuple[int, int])``. `changes` are rows of the
            table `corrections`; `position` is where the batch ends, (seq, offset): all corrections of earlier
            ledger rows and the first `offset` ones of `seq` have been handed over once it returns. It may be
            called again with rows that it had; one that stores `position` with what it writes can leave them
            out. What it raises ends the delivery, which is tried again by the next.

    Raises:
        PipelineError: the function can't be called.
    """

    name: str
    function: Callable[[pa.Table, tuple[int, int]], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise PipelineError(
                f"FunctionSink {self.name!r}",
                f"{self.function!r} can't be called; give deliver(changes, position)",
            )

    @property
    def place(self) -> str:
        """The function's name."""
        return f"{getattr(self.function, '__qualname__', repr(self.function))}()"

    def open(self, context: SinkContext) -> SinkTarget:
        """Reaches nothing yet."""
        from slackwater.sinks.targets.function import FunctionTarget

        return FunctionTarget(self.name, self.function, context)
