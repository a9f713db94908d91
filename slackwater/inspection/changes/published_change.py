"""One change of a published row, old → new, with what caused it. Values only; `change_causes` works them
out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slackwater.tables.ledger.row_kinds import RUN_KINDS
from slackwater.tables.ledger.rows import LedgerRow


@dataclass(frozen=True, kw_only=True)
class Emission:
    """The pane whose row stood before or after a change.

    Attributes:
        seq: of the run that emitted it.
        firing, kind, elements, watermark, tick_end, cause_arrival: as in `panes`.
    """

    seq: int
    firing: int
    kind: str
    elements: int | None
    watermark: datetime | None
    tick_end: datetime | None
    cause_arrival: datetime | None


@dataclass(frozen=True, kw_only=True)
class MovedRow:
    """A late row that one of two runs has dropped and the other has taken into the window.

    Attributes:
        is_taken: whether the change took it in; else it left it out.
        event_time, arrival_time: its times; an arrival that was changed by a redrive is the true one.
        values: the other columns of the source.
    """

    is_taken: bool
    event_time: datetime
    arrival_time: datetime
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PublishedChange:
    """One change of a published row, and what caused it.

    Attributes:
        seq, at: of the ledger row that brought it, and when that was committed.
        brought_by: that ledger row.
        key, window: column → value.
        timestamp, ordinal, firing, kind, revision, op, cause: as in `corrections`.
        old, new: the results before and after; None for an insert or a withdrawal.
        before, after: the panes whose rows stood before and after; None where no run that counted had one, or
            it is not kept any more.
        late_arrivals: the first arrivals at which a run made the window fire late. With
            `late_refires="element"` these are the late rows; otherwise the last ones of each firing.
        absorbed_by: of a session that was absorbed: the columns of the window that it became part of.
        run_before, run_after: the runs of these panes, where a ledger row made others count than before.
        moved_count: how many late rows the change took in or left out.
        moved_rows: the first of them.
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
        """Whether a run brought it by going on from what was live; else a ledger row has changed which runs
        count.
        """
        return self.brought_by.kind in RUN_KINDS
