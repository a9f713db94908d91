"""What `published` and `corrections` must be after each run: the rules of the tables, computed from the whole pane log in plain Python.

Knows neither SQL nor Delta, and never looks at what the product made.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Window = tuple[Any, ...]
Identity = tuple[Any, ...]
Results = tuple[Any, ...]


@dataclass(frozen=True)
class PaneRow:
    """One row of one firing. `window` is (key …, start, end); starts and ends of the global window are None."""

    key_group: int
    window: Window
    firing: int
    ordinal: int
    kind: str
    results: Results

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


def newest_firings(panes: Iterable[PaneRow], purging: bool) -> dict[Identity, PaneRow]:
    """The rows that stand, from the whole log: of a window the newest firing alone, unless firings stand side by side."""
    log = list(panes)
    newest: dict[Window, int] = {}
    for pane in log:
        newest[pane.window] = max(newest.get(pane.window, 0), pane.firing)
    standing: dict[Identity, PaneRow] = {}
    for pane in log:
        side_by_side = purging or pane.start is None
        if pane.kind != "withdrawn" and (side_by_side or pane.firing == newest[pane.window]):
            standing[(pane.window, pane.ordinal, pane.firing if side_by_side else None)] = pane
    return standing


def history(runs: Sequence[Sequence[PaneRow]], purging: bool) -> tuple[dict[Identity, Published], list[Correction]]:
    """`published` after the last run, and all corrections; run n has seq n + 1."""
    published: dict[Identity, Published] = {}
    corrections: list[Correction] = []
    for seq in range(1, len(runs) + 1):
        wanted = newest_firings((pane for run in runs[:seq] for pane in run), purging)
        last = {pane.window: pane for pane in sorted(runs[seq - 1], key=lambda pane: pane.firing)}
        for identity in published.keys() - wanted.keys():
            gone = published.pop(identity)
            by = last[gone.pane.window]
            corrections.append(_correction(seq, by, gone.pane.ordinal, "withdraw", gone.revision + 1, gone.pane.results, None))
        for identity, pane in wanted.items():
            before = published.get(identity)
            if before is not None and _alike(before.pane, pane):
                continue
            revision = 1 if before is None else before.revision + 1
            published[identity] = Published(pane, revision, seq)
            op, old = ("insert", None) if before is None else ("update", before.pane.results)
            corrections.append(_correction(seq, pane, pane.ordinal, op, revision, old, pane.results))
    return published, corrections


def _alike(a: PaneRow, b: PaneRow) -> bool:
    def comparable(results: Results) -> list[Any]:
        return ["nan" if isinstance(item, float) and math.isnan(item) else item for item in results]

    return (a.kind, a.firing, comparable(a.results)) == (b.kind, b.firing, comparable(b.results))


def _correction(seq: int, by: PaneRow, ordinal: int, op: str, revision: int, old: Results | None, new: Results | None) -> Correction:
    cause = {"withdrawn": "merge", "late": "late"}.get(by.kind, "first")
    return Correction(seq, by.window, ordinal, by.firing, by.kind, op, cause, revision, old, new)
