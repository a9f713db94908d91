"""The scan of a slice: the pinned version of the source, the range of arrivals, the columns, and the files
that hold the rows.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slackwater.jobs.engines.source.batches import SourceBatch
from slackwater.jobs.engines.source.coverage import ReadRange
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.overrides import Overrides
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.row_groups import ROWS_AT_ONCE, Arrivals, SourceFile

Batches = Iterator[SourceBatch]

GROUP_BYTES, SMALL_GROUP_BYTES = 64 << 20, 4 << 20


@dataclass(frozen=True)
class SliceScan:
    """The rows of one slice as map tasks read them.

    Attributes:
        source: the pinned version.
        files: of it, those that hold rows of the slice.
        columns: to read.
        arrival: the column of arrival times.
        from_ms, to_ms: the slice, half-open.
        start_ms: where the lineage begins.
        before: the source as the parent run has pinned it; None for the first run.
        newer_reads: what live runs have read at versions newer than `before`.
        overrides: the changed arrivals that the run honours.
        first: of `columns` those that are read of every row, the others only of some; None: all.
        rows_at_once: about so many rows are read together.
        null_checked: of `columns` those of which only the null mask is read.
    """

    source: PinnedSource
    files: tuple[InputFile, ...]
    columns: tuple[str, ...]
    arrival: str
    from_ms: int
    to_ms: int
    start_ms: int
    before: PinnedSource | None = None
    newer_reads: tuple[ReadRange, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)
    first: tuple[str, ...] | None = None
    rows_at_once: int = ROWS_AT_ONCE
    null_checked: tuple[str, ...] = ()

    def groups(self, tasks_at_once: int = 1) -> list[tuple[InputFile, ...]]:
        """The files, or shares of large files, in their order, divided into groups of about equal size, one
        for each task: of about GROUP_BYTES, and so many that `tasks_at_once` tasks are busy to the end; fewer
        where groups would be small. At least one group."""
        size = self.size
        rounds = max(1, round(size / (GROUP_BYTES * tasks_at_once)))
        count = max(1, min(rounds * tasks_at_once, int(size / SMALL_GROUP_BYTES)))
        of_group = max(size, 1) / count
        shares = [
            share for file in self.files for share in file.shares(round(_bytes_in_slice(file) / of_group))
        ]
        ends = itertools.accumulate(map(_bytes_in_slice, shares))
        groups: dict[int, list[InputFile]] = {}
        for share, end in zip(shares, ends, strict=True):
            groups.setdefault(int((end - _bytes_in_slice(share) / 2) / of_group), []).append(share)
        return [tuple(group) for group in groups.values()] or [()]

    @property
    def size(self) -> float:
        """About how many bytes of its files are in the slice."""
        return sum(map(_bytes_in_slice, self.files))

    def why_not_direct(self) -> str | None:
        """Why tasks can't read the files themselves, so that Spark scans the same pinned version; None when
        they can.
        """
        if (
            self.before is not None
            and self.holds_unread()
            and not self.source.is_certain_since(self.before, self.newer_reads)
        ):
            return "a log that no longer says which rows are new"
        return self.source.why_not_direct

    def holds_unread(self) -> bool:
        """Whether any file may hold rows of earlier arrival that no run has read."""
        return any(file.may_hold_unread for file in self.files)

    def read(self, group: Sequence[InputFile]) -> Batches:
        """The files of `group` as batches, large ones in pieces; row groups without rows of the slice are
        left out.
        """
        arrivals = Arrivals(
            self.arrival,
            self.from_ms,
            self.to_ms,
            tuple(self.overrides.true_arrivals(self.from_ms, self.to_ms)),
        )
        for file in group:
            source = SourceFile(self.source.uri, file, self.source.schema)
            yield from source.batches(
                self.columns, self.first, self.null_checked, self.rows_at_once, arrivals
            )


def _bytes_in_slice(file: InputFile) -> float:
    return file.bytes * file.fraction
