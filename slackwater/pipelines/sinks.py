"""The interface of sinks: targets outside of the warehouse to which the results of a pipeline are delivered.
The kinds that come along are in `slackwater.sinks`. Standard library only.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from slackwater.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

SINK_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class SinkPosition(NamedTuple):
    """How far a target is: all corrections of ledger rows before `seq` have been applied, and the first
    `offset` ones of `seq`, in their order (key group, key, window, ordinal, …), which never changes. A
    negative offset says that `seq` is being delivered in so many lanes.
    """

    seq: int
    offset: int


START = SinkPosition(0, 0)


@dataclass(frozen=True, kw_only=True)
class SinkContext:
    """The facts that a sink gets when it is opened.

    Attributes:
        pipeline: the name.
        lineage: identifies the ledger that positions refer to; another warehouse has another.
        warehouse: root of the warehouse, a folder or a URI.
        keys, results: (name, Arrow type) of the key columns and of the result columns.
        identity: names of the columns that tell rows of `published` apart: the key columns, then as many of
            ``window_start``, ``window_end``, the columns that a class of windows declares, ``timestamp``,
            ``firing``, ``run_id`` and ``ordinal`` as it takes. None of them is ever null.
        windows: (name, Arrow type) of the columns of a row's window; empty without windows that have bounds.
    """

    pipeline: str
    lineage: str
    warehouse: str
    keys: tuple[tuple[str, pa.DataType], ...]
    results: tuple[tuple[str, pa.DataType], ...]
    identity: tuple[str, ...]
    windows: tuple[tuple[str, pa.DataType], ...]


class SetAside(NamedTuple):
    """A row that its target can never take as it is.

    Attributes:
        key: the columns that tell it apart, as a JSON object of texts, which may be cut.
        column: the columns at fault.
        reason: what the target says.
        seq, key_group: of the newest correction of the row: its ledger row, and its key group.
        digest: SHA-256 of the columns that tell it apart.
    """

    key: str
    column: str
    reason: str
    seq: int
    key_group: int
    digest: str


class SinkTarget(ABC):
    """A target that was opened. Used by one thread; it may fail with any error, which counts as the target
    being out of reach and is tried again by the next delivery.
    """

    @abstractmethod
    def position(self) -> SinkPosition:
        """How far the target is; `START` where nothing was delivered yet."""

    @abstractmethod
    def deliver(self, changes: pa.Table, start: SinkPosition, end: SinkPosition) -> bool:
        """Apply `changes` and move the position from `start` to `end`, both or neither.

        Args:
            changes: rows of the table `corrections`, in order. `old` and `new` are structs of the results;
                ``op`` is insert, update or withdraw.

        Returns:
            Whether it was done. False: the position is not `start`, because another deliverer was here;
            nothing was changed.
        """

    @abstractmethod
    def reset(self, position: SinkPosition) -> None:
        """Take `position` as where the target is, whatever it says. What was delivered stays there."""

    def lane(self, number: int) -> SinkTarget | None:
        """The same target with a position of its own, for a part of the corrections of a large ledger row
        that is delivered beside others; it is closed with this one. None where there is no such thing.
        `reset` forgets the positions of all lanes.
        """
        return None

    def set_aside(self) -> Sequence[SetAside]:
        """The rows that the target can't take as they are: their corrections count as applied, and it holds
        no such rows. A later correction of a row, or `deliver` with the same correction again, tries anew.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - a target that holds nothing has nothing to let go of
        """Let go of connections. Called once, also after errors."""


class Sink(ABC):
    """A declared sink. A frozen value; it connects to nothing before it is opened.

    Attributes:
        name: ``[a-z][a-z0-9_]{0,62}``, unique in its pipeline. A target keeps its position under it.
    """

    name: str

    @abstractmethod
    def open(self, context: SinkContext) -> SinkTarget:
        """Connect to the target, and make there what it lacks. Raises SlackwaterError: the target does not
        suit (exit code 2), or can't be reached (3); any other error counts as the latter.
        """

    @property
    def place(self) -> str:
        """Where it delivers to, for people; without credentials."""
        return ""


def check_sinks(subject: str, sinks: Sequence[object]) -> None:
    """The sinks of a pipeline are told apart by their names. Raises PipelineError: one is no sink, or has a
    name that is none or is taken.
    """
    names: set[str] = set()
    for sink in sinks:
        if not isinstance(sink, Sink):
            raise PipelineError(subject, f"sinks has {sink!r}; it is a list of sinks such as SqlSink(...)")
        if not isinstance(sink.name, str) or not SINK_NAME.fullmatch(sink.name):
            raise PipelineError(
                subject, f"the sink {sink.name!r}: a name is [a-z][a-z0-9_]{{0,62}}, and says what it is for"
            )
        if sink.name in names:
            raise PipelineError(
                subject, f"two sinks are called {sink.name!r}; each keeps its position under its name"
            )
        names.add(sink.name)
