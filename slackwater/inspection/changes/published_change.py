"""One change of a published row, old → new, with what caused it and the sentence that says why. Values
only.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from slackwater.inspection.change_text import window_text
from slackwater.readable import count_text, plain_text, precision_of, time_text
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


_REASON = "reason: "
_TIMES_WRITTEN = 3


def reason_of(change: PublishedChange) -> str:
    """`1 row came late, at 2013-01-02 09:31`; `run 5 replaces run 2; source events at version 3, was 1`."""
    if change.cause == "results":
        return "`results`, `hidden` or `having` are declared otherwise"
    if not change.is_of_a_run:
        return "; ".join(_clauses_of_lineage(change))
    match change.cause:
        case "merge":
            return _absorption(change)
        case "late":
            return _late_firing(change)
        case _:
            return _firing(change)


def _absorption(change: PublishedChange) -> str:
    into = "another window" if change.absorbed_by is None else window_text(change.absorbed_by)
    return f"absorbed by {into}{_joined_at(change.after)}"


def _joined_at(emission: Emission | None) -> str:
    if emission is None or emission.cause_arrival is None:
        return ""
    return f", joined by the row that arrived {_at(emission.cause_arrival)}"


def _late_firing(change: PublishedChange) -> str:
    after, before = change.after, change.before
    arrival = None if after is None else after.cause_arrival or after.tick_end
    last = "" if arrival is None else f"arrived {_at(arrival)}"
    if after is None or after.elements is None:
        return f"a late row{f', which {last}' if last else ''}"
    if before is None or before.elements is None or after.elements <= before.elements:
        return f"fired late, with {count_text(after.elements, 'row')}{f'; the last {last}' if last else ''}"
    count, arrivals = after.elements - before.elements, change.late_arrivals
    if count == len(arrivals) and count <= _TIMES_WRITTEN:
        return f"{count_text(count, 'late row')}, arrived {_times(arrivals)}"
    which = "it" if count == 1 else "the last"
    return f"{count_text(count, 'late row')}{f'; {which} {last}' if last else ''}"


def _firing(change: PublishedChange) -> str:
    after = change.after
    if change.op == "withdraw":
        return "fired again, without a result"
    if after is None:
        return "fired"
    rows = "" if after.elements is None else f" with {count_text(after.elements, 'row')}"
    if change.kind == "on_time" and after.watermark is not None:
        return f"fired{rows} when the watermark reached {_moment_text(after.watermark)}"
    moment = after.cause_arrival or after.tick_end
    when = "" if moment is None else f" {_at(moment)}"
    return f"fired{' early' if change.kind == 'early' else ''}{rows}{when}"


def _clauses_of_lineage(change: PublishedChange) -> Iterator[str]:
    row, before, after = change.brought_by, change.run_before, change.run_after
    if change.op == "withdraw":
        yield f"run {before.seq} is no longer live" if before is not None else "no live run emits it"
    elif after is None:
        yield "emitted by a run that is live now"
    elif before is None or before.seq == after.seq:
        yield f"run {after.seq} is live"
    else:
        yield f"run {after.seq} replaces run {before.seq}"
    if before is not None and after is not None:
        yield from _differences_of_runs(before, after)
    if change.moved_count:
        directions = {row.is_taken for row in change.moved_rows}
        verb = (
            "taken in or left out"
            if len(directions) > 1
            else "taken in"
            if True in directions
            else "left out"
        )
        yield f"{count_text(change.moved_count, 'late row')} {verb}"
    if change.before is not None and change.after is not None:
        yield from _elements(change.before, change.after)
    if _REASON in (row.verdict or ""):
        yield plain_text((row.verdict or "").partition(_REASON)[2])


def _differences_of_runs(before: LedgerRow, after: LedgerRow) -> Iterator[str]:
    versions = {item.table: item.version for item in before.inputs}
    for item in after.inputs:
        version = versions.get(item.table)
        if version is not None and version != item.version:
            yield f"{plain_text(item.table)} at version {item.version}, was {version}"
    if before.config_hash != after.config_hash:
        yield "other settings"
    if before.code_hash != after.code_hash:
        yield "other code"


def _elements(before: Emission, after: Emission) -> Iterator[str]:
    if None not in (before.elements, after.elements) and before.elements != after.elements:
        yield f"rows in the window {before.elements:,} → {after.elements:,}"


def _times(moments: Sequence[datetime]) -> str:
    """`at 2013-01-02 09:31, 10:05 and 2013-01-03 00:12`: the day where it is another than before."""
    texts = [_moment_text(moment) for moment in moments]
    short_texts = [
        text[11:] if place and text[:10] == texts[place - 1][:10] else text
        for place, text in enumerate(texts)
    ]
    *others, last = short_texts
    return f"at {', '.join(others)} and {last}" if others else f"at {last}"


def _at(moment: datetime) -> str:
    return f"at {_moment_text(moment)}"


def _moment_text(moment: datetime) -> str:
    """A time to the second; the last millisecond of a second reads as the next second."""
    return time_text(moment, precision_of([moment]))
