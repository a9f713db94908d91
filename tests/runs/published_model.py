"""What `published` and `corrections` must be after each ledger row: the rules, computed from the whole pane
log in plain Python.

Knows neither SQL nor Delta, and never looks at what the product made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Window = tuple[Any, ...]
Identity = tuple[Any, ...]
Results = tuple[Any, ...]


@dataclass(frozen=True)
class PaneRow:
    """One row of one firing. `window` is (key …, start, end); starts and ends of the global window are
    None.
    """

    key_group: int
    window: Window
    firing: int
    ordinal: int
    kind: str
    results: Results
    timestamp: datetime | None = None

    @property
    def start(self) -> datetime | None:
        return self.window[-2]


@dataclass(frozen=True)
class Published:
    """One row of `published`, as far as a reader may compare it."""

    pane: PaneRow
    revision: int
    run_seq: int


@dataclass(frozen=True)
class Correction:
    """One row of `corrections`."""

    seq: int
    window: Window
    ordinal: int
    firing: int
    kind: str
    op: str
    cause: str
    revision: int
    old: Results | None
    new: Results | None


@dataclass(frozen=True)
class Change:
    """One ledger row of main. After it the panes of `live` count, run after run; `cause` is None for a
    run.
    """

    seq: int
    live: tuple[tuple[PaneRow, ...], ...]
    cause: str | None = None


def newest_firings(live: Sequence[Sequence[PaneRow]], purging: bool) -> dict[Identity, PaneRow]:
    """The rows that stand, from the panes of the live runs in their order: of a window those of the newest
    firing alone, unless firings stand side by side. The newest firing is the last one of the last run that
    has one, whatever its number."""
    newest: dict[Identity, tuple[int, int]] = {}
    log = [(position, pane) for position, run in enumerate(live) for pane in run]
    for position, pane in log:
        slot = (pane.window, _slot(pane, purging))
        newest[slot] = max(newest.get(slot, (0, 0)), (position, pane.firing))
    standing: dict[Identity, PaneRow] = {}
    for position, pane in log:
        slot = (pane.window, _slot(pane, purging))
        if pane.kind != "withdrawn" and (position, pane.firing) == newest[slot]:
            standing[(pane.window, pane.ordinal, _slot(pane, purging))] = pane
    return standing


def history(
    runs: Sequence[Sequence[PaneRow]], purging: bool
) -> tuple[dict[Identity, Published], list[Correction]]:
    """`published` after the last run of a lineage that only ever ran, and all corrections; run n has seq n +
    1.
    """
    changes = [Change(seq, tuple(map(tuple, runs[:seq]))) for seq in range(1, len(runs) + 1)]
    return history_of(changes, purging)


def history_of(
    changes: Sequence[Change], purging: bool
) -> tuple[dict[Identity, Published], list[Correction]]:
    """`published` after the last change of what is live, and all corrections."""
    published: dict[Identity, Published] = {}
    corrections: list[Correction] = []
    for change in changes:
        wanted = newest_firings(change.live, purging)
        log = [pane for run in change.live for pane in sorted(run, key=lambda pane: pane.firing)]
        last = {(pane.window, _slot(pane, purging)): pane for pane in log}
        for identity in published.keys() - wanted.keys():
            gone = published.pop(identity)
            by = last.get((gone.pane.window, _slot(gone.pane, purging)), gone.pane)
            corrections.append(
                _correction(
                    change, by, gone.pane.ordinal, "withdraw", gone.revision + 1, gone.pane.results, None
                )
            )
        for identity, pane in wanted.items():
            before = published.get(identity)
            if before is not None and _alike(before.pane, pane):
                continue
            revision = 1 if before is None else before.revision + 1
            published[identity] = Published(pane, revision, change.seq)
            op, old = ("insert", None) if before is None else ("update", before.pane.results)
            corrections.append(_correction(change, pane, pane.ordinal, op, revision, old, pane.results))
    return published, corrections


def _slot(pane: PaneRow, purging: bool) -> int | None:
    is_global = pane.window[-2:] == (None, None)  # a window of a user's class may lack the start alone
    return pane.firing if purging or is_global else None


def comparable(results: Results) -> tuple[Any, ...]:
    """Results in which one NaN equals another."""
    return tuple("nan" if isinstance(item, float) and math.isnan(item) else item for item in results)


def _alike(a: PaneRow, b: PaneRow) -> bool:
    return (a.kind, a.firing, comparable(a.results)) == (b.kind, b.firing, comparable(b.results))


def _correction(
    change: Change,
    by: PaneRow,
    ordinal: int,
    op: str,
    revision: int,
    old: Results | None,
    new: Results | None,
) -> Correction:
    cause = change.cause or {"withdrawn": "merge", "late": "late"}.get(by.kind, "first")
    return Correction(change.seq, by.window, ordinal, by.firing, by.kind, op, cause, revision, old, new)
