"""What has come out of a window: its firings with their causes, the windows that it has absorbed, the
corrections of its published rows, and what is published now.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any

from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.inspection.windows.lineage_as_of import LineageAsOf
from slackwater.inspection.windows.window_search import (
    WindowColumns,
    condition_of,
    condition_within,
    merges,
)
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.windowing.times import MILLISECOND

# Causes of corrections that say how a run came to count, not what happened in it.
_CAUSES_OF_LINEAGES = frozenset({"restatement", "restore", "redrive", "results"})


class FiringCause(StrEnum):
    """What made a window fire.

    Attributes:
        TIMER: the watermark or the clock reached a time.
        LATE_ROW: an element that came after the window's end, within the allowed lateness.
        ELEMENT: an element before the end, by the trigger.
        MERGE: none did; another window has absorbed it, and its rows were withdrawn.
    """

    TIMER = "timer"
    LATE_ROW = "late row"
    ELEMENT = "element"
    MERGE = "merge"

    @property
    def text(self) -> str:
        """In words for people; the value is what JSON says."""
        return "on a timer" if self is FiringCause.TIMER else str(self)


@dataclass(frozen=True, kw_only=True)
class WindowFiring:
    """One pane: a row that a firing of the window has emitted, or the withdrawal of its rows.

    Attributes:
        standing: `live`; `replaced` where other runs count instead; or the branch on which it is.
        brought_by: `run`, or what made its run count: `restatement`, `redrive`, `restore`.
        clock: when it fired, on the virtual clock: the end of the tick, or the arrival of the element; None
            where a timer of the clock made it fire.
        watermark, elements: at that moment; elements of the window's contents.
        values: the results.
    """

    seq: int
    branch: str
    standing: str
    window: WindowColumns
    firing: int
    ordinal: int
    kind: str
    cause: FiringCause
    brought_by: str
    clock: datetime | None
    watermark: datetime | None
    elements: int | None
    values: Mapping[str, Any]

    @property
    def is_withdrawal(self) -> bool:
        """Whether it takes back the rows of the firing before it, and emits none."""
        return self.kind == "withdrawn"


@dataclass(frozen=True, kw_only=True)
class AbsorbedWindow:
    """A window that had fired before a merge made it part of this one.

    Attributes:
        firings, elements: how often it had fired, and the elements of its newest firing.
        absorbed_at: arrival of the row that joined it to the other; None where nothing was withdrawn, because
            its trigger purges.
        seq: the run in which that happened.
    """

    window: WindowColumns
    firings: int
    elements: int | None
    absorbed_at: datetime | None
    seq: int


def firings_of(
    lineage: LineageAsOf, window: WindowColumns, corrections: Sequence[Mapping[str, Any]]
) -> list[WindowFiring]:
    """Every pane of the window and of the windows that it covers, live ones first, each group oldest first.
    Rows that were staged and never committed are no panes.
    """
    condition, bounds = condition_within(window) if merges(lineage) else condition_of(window)
    form = replace(PublishedForm.of(lineage.pipeline), having=None)
    rows = python_rows(form.apply(lineage.key_rows.read("panes", condition, *bounds)))
    results = (*lineage.result_columns, *lineage.pipeline.results)
    runs = {run_id: lineage.run_of(run_id) for run_id in {row["run_id"] for row in rows}}
    standings = _standings(lineage, [run for run in runs.values() if run is not None])
    causes = {(row["seq"], row["firing"], row["ordinal"]): row["cause"] for row in corrections}
    columns, places = lineage.window_columns, lineage.places
    firings = []
    for row in rows:
        run = runs[row["run_id"]]
        if run is None or run.seq > lineage.last_seq:
            continue
        firings.append(
            WindowFiring(
                seq=run.seq,
                branch=run.branch,
                standing=standings[run.seq],
                window={name: row[name] for name in columns},
                firing=row["firing"],
                ordinal=row["ordinal"] or 0,
                kind=row["kind"],
                cause=_cause(row),
                brought_by=_brought_by(run, causes.get((run.seq, row["firing"], row["ordinal"]))),
                clock=row["tick_end"] or row["cause_arrival"],
                watermark=row["watermark"],
                elements=row["elements"],
                values={name: row[name] for name in results},
            )
        )
    place_of_seq = {run.seq: places.get(run.run_id, run.seq) for run in runs.values() if run is not None}
    # The number of a firing begins again at 1 in a window made by a merge; then the clock tells them apart.
    has_clocks = merges(lineage) and all(firing.clock is not None for firing in firings)

    def order(firing: WindowFiring) -> tuple[Any, ...]:
        clock = firing.clock if has_clocks else None
        # What a merge withdraws goes before the firing of the window that it made.
        number = (not firing.is_withdrawal, firing.firing) if has_clocks else (True, firing.firing)
        return firing.standing != "live", place_of_seq[firing.seq], clock, number, firing.ordinal

    return sorted(firings, key=order)


def _standings(lineage: LineageAsOf, runs: Sequence[LedgerRow]) -> dict[int, str]:
    standings = {run.seq: "live" if run.run_id in lineage.places else "replaced" for run in runs}
    strangers = [run for run in runs if standings[run.seq] != "live" and run.branch != MAIN]
    for branch in lineage.tables.ledger.branches() if strangers else ():
        for run in strangers:
            if run.seq in branch.own_seqs:
                standings[run.seq] = f"branch {branch.name}"
    return standings


def _cause(row: Mapping[str, Any]) -> FiringCause:
    if row["cause_arrival"] is None:
        return FiringCause.TIMER
    if row["kind"] == "withdrawn" and not row["elements"]:
        return FiringCause.MERGE
    is_late = row["kind"] == "late" or (
        row["kind"] == "withdrawn"
        and None not in (row["watermark"], row["window_end"])
        and row["watermark"] >= row["window_end"] - MILLISECOND
    )
    return FiringCause.LATE_ROW if is_late else FiringCause.ELEMENT


def _brought_by(run: LedgerRow, cause: str | None) -> str:
    if cause in _CAUSES_OF_LINEAGES:
        return cause
    return "run" if run.branch == MAIN else "restatement"


def corrections_of(lineage: LineageAsOf, window: WindowColumns) -> list[dict[str, Any]]:
    """The changes of published rows of the window, as in `corrections`, each with its `window`: of sessions
    it may be one that was absorbed. `old` and `new` are None for an insert or a withdrawal.
    """
    condition, bounds = condition_within(window) if merges(lineage) else condition_of(window)
    rows = python_rows(lineage.key_rows.read("corrections", condition, *bounds))
    corrections = [
        {
            "seq": row["seq"],
            "window": {name: row[name] for name in lineage.window_columns},
            **{name: row[name] for name in ("ordinal", "firing", "kind", "revision", "op", "cause")},
            "old": row["old"] if row["op"] != "insert" else None,
            "new": row["new"] if row["op"] != "withdraw" else None,
            "at": row["at"],
        }
        for row in rows
        if row["seq"] <= lineage.head.seq
    ]
    return sorted(
        corrections, key=lambda row: (row["seq"], row["op"] != "withdraw", row["firing"], row["ordinal"])
    )


def published_rows(lineage: LineageAsOf, window: WindowColumns) -> list[dict[str, Any]]:
    condition, bounds = condition_of(window)
    columns = [*lineage.published_columns, "kind", "firing", "ordinal", "revision", "run_seq"]
    rows = python_rows(lineage.key_rows.read("published", condition, *bounds, columns=columns))
    return sorted(rows, key=lambda row: (row["firing"], row["ordinal"] or 0))


def absorbed_windows(firings: Sequence[WindowFiring], window: WindowColumns) -> Iterator[AbsorbedWindow]:
    """The windows among live `firings` other than `window`, oldest first."""
    others = [
        firing for firing in firings if firing.standing == "live" and dict(firing.window) != dict(window)
    ]
    by_window = sorted(others, key=lambda firing: [str(value) for value in firing.window.values()])
    for _, group in groupby(by_window, key=lambda firing: tuple(firing.window.values())):
        panes = list(group)
        newest, emitted_panes = panes[-1], [pane for pane in panes if not pane.is_withdrawal]
        yield AbsorbedWindow(
            window=newest.window,
            firings=len({(pane.seq, pane.firing) for pane in emitted_panes}),
            elements=emitted_panes[-1].elements if emitted_panes else None,
            absorbed_at=newest.clock if newest.is_withdrawal else None,
            seq=newest.seq,
        )
