"""Figures of two groups of runs side by side: two runs, or the runs of a branch and the runs of main that it
would replace. Counts are sums; what a run leaves behind is taken from the last one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from slackwater.tables.ledger.rows import LedgerRow

Kind = Literal["number", "time", "duration", "text"]
_COUNTS = (
    ("rows read", "rows_read"),
    ("accepted", "rows_accepted"),
    ("too late", "rows_late"),
    ("quarantined", "rows_quarantined"),
    ("windows fired", "windows_fired"),
    ("windows refired", "windows_refired"),
)
_LEFT_BEHIND: tuple[tuple[str, str, Kind], ...] = (
    ("windows left open", "windows_open", "number"),
    ("timers pending", "timers_pending", "number"),
    ("watermark", "watermark_out", "time"),
)
_HASHES = (("settings", "config_hash"), ("code", "code_hash"), ("state", "state_hash"))


class FigurePair(NamedTuple):
    """One figure of both groups; None for a group without runs. A duration is in milliseconds."""

    name: str
    left: int | float | datetime | str | None
    right: int | float | datetime | str | None
    kind: Kind

    @property
    def is_different(self) -> bool:
        return self.left != self.right


def compare_runs(left: Sequence[LedgerRow], right: Sequence[LedgerRow]) -> list[FigurePair]:
    pairs: list[FigurePair] = [
        FigurePair("runs", ", ".join(_seqs(left)), ", ".join(_seqs(right)), "text"),
        FigurePair("from", _first_start(left), _first_start(right), "time"),
        FigurePair("to", _last_end(left), _last_end(right), "time"),
        FigurePair("source versions", _versions(left), _versions(right), "text"),
    ]
    pairs += [
        FigurePair(
            title, sum(getattr(row, name) for row in left), sum(getattr(row, name) for row in right), "number"
        )
        for title, name in _COUNTS
    ]
    pairs += [_pair_of_last(left, right, *figure) for figure in _LEFT_BEHIND]
    pairs += [
        FigurePair(title, _short_hash(left, name), _short_hash(right, name), "text")
        for title, name in _HASHES
    ]
    return [*pairs, FigurePair("took", _took_ms(left), _took_ms(right), "duration")]


def _seqs(rows: Sequence[LedgerRow]) -> list[str]:
    seqs = [str(row.seq) for row in rows]
    return seqs if len(seqs) <= 4 else [*seqs[:2], "…", seqs[-1]]


def _first_start(rows: Sequence[LedgerRow]) -> datetime | None:
    return rows[0].slice_start if rows else None


def _last_end(rows: Sequence[LedgerRow]) -> datetime | None:
    return rows[-1].slice_end if rows else None


def _versions(rows: Sequence[LedgerRow]) -> str:
    """The versions of each source that the runs have read: `events 1–3`."""
    versions: dict[str, set[int]] = {}
    for row in rows:
        for item in row.inputs:
            versions.setdefault(item.table, set()).add(item.version)
    return ", ".join(
        f"{table} {min(of_table)}" + (f"–{max(of_table)}" if len(of_table) > 1 else "")
        for table, of_table in versions.items()
    )


def _took_ms(rows: Sequence[LedgerRow]) -> float:
    return 1000 * sum(sum(row.phase_seconds.values()) for row in rows)


def _pair_of_last(
    left: Sequence[LedgerRow], right: Sequence[LedgerRow], title: str, name: str, kind: Kind
) -> FigurePair:
    values = [getattr(rows[-1], name) if rows else None for rows in (left, right)]
    return FigurePair(title, values[0], values[1], kind)


def _short_hash(rows: Sequence[LedgerRow], name: str) -> str | None:
    value = getattr(rows[-1], name) if rows else None
    return None if value is None else str(value)[:12]
