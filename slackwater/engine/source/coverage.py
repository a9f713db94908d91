"""Which arrivals a lineage has read at which version of its source, after restatements.

The runs before a slice have read the source at the versions that they pinned. Without restatements these
never go back, and the newest pin covers everything. A restatement reads a range of arrivals again, at a newer
version:

    arrivals             |------------------ pinned by the run before, version 5 ------------------|
    restated ranges             [- version 7 -)
                                              [- version 8 -)

Pure functions on such ranges and on the losses of the source's history.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.engine.source.changes import Loss


@dataclass(frozen=True)
class ReadRange:
    """The arrivals [from_ms, to_ms), in milliseconds, that a live run has read at `version` of the source."""

    from_ms: int
    to_ms: int
    version: int


def read_to(read_ranges: Sequence[ReadRange], added_at: int) -> int | None:
    """The exclusive arrival up to which rows of a file from version `added_at` have been read, in their slice
    or folded into a later one, or None.
    """
    return max((item.to_ms for item in read_ranges if item.version >= added_at), default=None)


def version_read(read_ranges: Sequence[ReadRange], arrival_ms: int, added_at: int) -> int | None:
    """The version at which live runs have last read a row that arrived then and that version `added_at` has
    brought, in its slice or folded into a later one; None: no run has read it.
    """
    covered_at = max(
        (item.version for item in read_ranges if item.from_ms <= arrival_ms < item.to_ms), default=-1
    )
    if covered_at >= added_at:
        return covered_at
    return max(
        (item.version for item in read_ranges if item.version >= added_at and arrival_ms < item.to_ms),
        default=None,
    )


def was_read(
    read_ranges: Sequence[ReadRange],
    low_ms: int,
    high_ms: int,
    *,
    added_at: int | None,
    removed_at: int,
    read_ms: int,
) -> bool:
    """Whether a live run may have read rows that version `removed_at` has taken out of a file, at a version
    that still had them.

    The file's rows arrived in [low_ms, high_ms]. `added_at` is the version that brought it, None where the
    run before the slice has pinned it already. All arrivals before `read_ms` are covered.
    """
    if added_at is None:
        read_until = read_ms
    else:
        read_until = max(
            (item.to_ms for item in read_ranges if added_at <= item.version < removed_at), default=low_ms
        )
    # What was read again since the removal does not rest on the file any more.
    uncovered_from = low_ms
    reread = (item for item in read_ranges if item.version >= removed_at)
    for item in sorted(reread, key=lambda item: item.from_ms):
        if item.from_ms <= uncovered_from:
            uncovered_from = max(uncovered_from, item.to_ms)
    return uncovered_from <= high_ms and uncovered_from < read_until


def had_readers(read_ranges: Sequence[ReadRange], loss: Loss) -> bool:
    """Whether a live run has read at a version that had the lost rows, or that lacked rows which are back."""
    versions = [item.version for item in read_ranges]
    return _has_gap_at(loss, versions) or any(
        added_at is None or any(added_at <= version < loss.removed_at for version in versions)
        for added_at in loss.added_at
    )


def rests_on(read_ranges: Sequence[ReadRange], low_ms: int, high_ms: int, loss: Loss, read_ms: int) -> bool:
    """Whether what live runs have read may differ from the source now because of `loss`, of a file whose rows
    arrived in [low_ms, high_ms]. All arrivals before `read_ms` are covered.
    """
    if any(
        was_read(read_ranges, low_ms, high_ms, added_at=added_at, removed_at=loss.removed_at, read_ms=read_ms)
        for added_at in loss.added_at
    ):
        return True
    if loss.restored_at is None or not _has_gap_at(loss, [item.version for item in read_ranges]):
        return False
    return was_read(read_ranges, low_ms, high_ms, added_at=None, removed_at=loss.restored_at, read_ms=read_ms)


def _has_gap_at(loss: Loss, versions: Sequence[int]) -> bool:
    """Whether one of `versions` lacked rows that were taken out and came back later."""
    return loss.restored_at is not None and any(
        loss.removed_at <= version < loss.restored_at for version in versions
    )
