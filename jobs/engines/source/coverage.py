"""Which arrival times a lineage has read at a newer version of its source than the run before the slice has
pinned.

Pure functions on what a restatement leaves behind it. A lineage without one has read everything at versions
that never go back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slackwater.jobs.engines.source.changes import Loss


@dataclass(frozen=True)
class ReadRange:
    """Half-open range [from_ms, to_ms) of arrival time, in milliseconds, that a live run has read at
    `version` of the source.
    """

    from_ms: int
    to_ms: int
    version: int


class Piece(NamedTuple):
    """Arrivals from the end of the piece before it up to `to_ms` (exclusive); the newest version that any
    live run has read them at.
    """

    to_ms: int
    version: int


def read_to(read_ranges: Sequence[ReadRange], added: int) -> int | None:
    """Up to which arrival (exclusive) the rows of a file that version `added` brought have been read: in
    their own slice, or folded into a later one. None where no stretch has read them."""
    return max((read_range.to_ms for read_range in read_ranges if read_range.version >= added), default=None)


def pieces(read_ranges: Sequence[ReadRange]) -> list[Piece]:
    """The newest version at which rows of each arrival have been read, in order of arrival; nothing is said
    of what lies behind them.
    """
    ends = sorted({read_range.to_ms for read_range in read_ranges})
    return [
        Piece(end, max(read_range.version for read_range in read_ranges if read_range.to_ms >= end))
        for end in ends
    ]


def was_read(
    read_ranges: Sequence[ReadRange],
    low_ms: int,
    high_ms: int,
    *,
    added: int | None,
    removed: int,
    read_ms: int,
) -> bool:
    """Whether a live run may have read rows of a file that stood in the source until version `removed` took
    it away, at a version that had it.

    The file's rows arrived in [low_ms, high_ms]. `added` is the version that brought it, None where the run
    before the slice has pinned it already. All arrivals before `read_ms` are covered.
    """
    if added is None:
        last = read_ms
    else:
        last = max(
            (read_range.to_ms for read_range in read_ranges if added <= read_range.version < removed),
            default=low_ms,
        )
    # What was read again since the removal does not rest on the file any more.
    uncovered_from = low_ms
    for read_range in sorted(
        (read_range for read_range in read_ranges if read_range.version >= removed),
        key=lambda read_range: read_range.from_ms,
    ):
        if read_range.from_ms <= uncovered_from:
            uncovered_from = max(uncovered_from, read_range.to_ms)
    return uncovered_from <= high_ms and uncovered_from < last


def had_readers(read_ranges: Sequence[ReadRange], loss: Loss) -> bool:
    """Whether any live run has read at a version that had rows which are gone now, or lacked rows which are
    back.
    """
    versions = [read_range.version for read_range in read_ranges]
    return _was_lacked(loss, versions) or any(
        brought is None or any(brought <= version < loss.removed for version in versions)
        for brought in loss.brought
    )


def rests_on(read_ranges: Sequence[ReadRange], low_ms: int, high_ms: int, loss: Loss, read_ms: int) -> bool:
    """Whether what live runs have read may differ from what the source holds now because of `loss`, of a file
    whose rows arrived in [low_ms, high_ms]. All arrivals before `read_ms` are covered."""
    if any(
        was_read(read_ranges, low_ms, high_ms, added=brought, removed=loss.removed, read_ms=read_ms)
        for brought in loss.brought
    ):
        return True
    if loss.restored is None or not _was_lacked(loss, [read_range.version for read_range in read_ranges]):
        return False
    return was_read(read_ranges, low_ms, high_ms, added=None, removed=loss.restored, read_ms=read_ms)


def _was_lacked(loss: Loss, versions: Sequence[int]) -> bool:
    """Whether one of `versions` lacked rows that were gone for a while."""
    return loss.restored is not None and any(loss.removed <= version < loss.restored for version in versions)
