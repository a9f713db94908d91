"""One change of a published row, old → new, with what caused it. Values only."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow

# The columns of `corrections` that a change has under their own names.
CORRECTION_COLUMNS = (
    *("seq", "at", "timestamp", "ordinal", "firing", "kind", "revision", "op", "cause", "old", "new"),
)
Item = TypeVar("Item")


def without(
    items: Iterable[Item], others: Iterable[Item], content: Callable[[Item], Hashable]
) -> Iterator[Item]:
    """`items` without those that `others` have as well, as often as they have them; equal are those of one
    `content`.
    """
    counts = Counter(map(content, others))
    for item in items:
        if counts[content(item)]:
            counts[content(item)] -= 1
        else:
            yield item


@dataclass(frozen=True, kw_only=True)
class Emission:
    """The pane that was published before or after a change; its columns as in `panes`, with the seq of its
    run.
    """

    seq: int
    firing: int
    kind: str
    elements: int | None
    watermark: datetime | None
    tick_end: datetime | None
    cause_arrival: datetime | None


@dataclass(frozen=True)
class MovedRow:
    """A late row that one of two runs dropped and the other took into the window: taken by the change, or
    left out. An arrival that a redrive changed is the true one.
    """

    is_taken: bool
    event_time: datetime
    arrival_time: datetime
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PublishedChange:
    """One change of a published row, and what caused it; columns as in `corrections`.

    Attributes:
        before, after: the panes that were published before and after; None where no run that counted had one,
            or it is not kept any more.
        late_arrivals: the first arrivals at which a run made the window fire late. With
            `late_refires="element"` these are the late rows, otherwise the last row of each firing.
        absorbed_by: for an absorbed session the columns of the window that it became part of.
        run_before, run_after: the runs of these panes, where a ledger row has changed which runs count.
        moved_rows: the first of the `moved_count` late rows that the change took in or left out.
    """

    seq: int
    at: datetime
    brought_by: LedgerRow
    key: Mapping[str, Any]
    window: Mapping[str, Any]
    timestamp: datetime | None
    ordinal: int
    firing: int
    kind: str
    revision: int
    op: str
    cause: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None
    before: Emission | None = None
    after: Emission | None = None
    late_arrivals: Sequence[datetime] = ()
    absorbed_by: Mapping[str, Any] | None = None
    run_before: LedgerRow | None = None
    run_after: LedgerRow | None = None
    moved_count: int = 0
    moved_rows: Sequence[MovedRow] = ()

    @property
    def is_of_a_run(self) -> bool:
        """Whether a run brought it by continuing what was live, not a row that changed which runs count."""
        return self.brought_by.kind in RUN_KINDS
