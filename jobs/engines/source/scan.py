"""What a replay reads of the source: a pinned version, the slice's range of arrivals, the files that hold its
rows.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.jobs.engines.source.batches import SourceBatch
from slackwater.jobs.engines.source.coverage import ReadRange
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.overrides import Overrides
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.row_groups import ROWS_AT_ONCE, Arrivals, SourceFile

if TYPE_CHECKING:
    pass


Batches = Iterator[SourceBatch]

GROUP_BYTES, SMALL_GROUP_BYTES = 64 << 20, 4 << 20


@dataclass(frozen=True)
class SliceScan:
    """The rows of one slice as a map side reads them: the pinned source, its chosen files, the columns
    wanted, the parent run's version, what live runs have read at newer versions than that, and the changed
    arrivals that the run honours. Of `columns` those in `first` are wanted of every row, and the rest only of
    some; None: all. Of those in `may_lack` nothing is wanted but whether they hold nulls. About
    `rows_at_once` rows are read together.

    `why_not_direct` decides who reads: the task itself, or Spark's own scan of the same pinned version.
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
    may_lack: tuple[str, ...] = ()

    def groups(self, tasks_at_once: int = 1) -> list[tuple[InputFile, ...]]:
        """The files, or shares of large ones, in their order, in groups of about equal size, at least one
        group: of about GROUP_BYTES, and as many as keep `tasks_at_once` busy to the end; fewer where groups
        would be small."""
        size = self.size
        rounds = max(1, round(size / (GROUP_BYTES * tasks_at_once)))
        count = max(1, min(rounds * tasks_at_once, int(size / SMALL_GROUP_BYTES)))
        of_group = max(size, 1) / count
        shares = [
            share for file in self.files for share in file.shares(round(_bytes_wanted(file) / of_group))
        ]
        ends = itertools.accumulate(map(_bytes_wanted, shares))
        groups: dict[int, list[InputFile]] = {}
        for share, end in zip(shares, ends, strict=True):
            groups.setdefault(int((end - _bytes_wanted(share) / 2) / of_group), []).append(share)
        return [tuple(group) for group in groups.values()] or [()]

    @property
    def size(self) -> float:
        """About how many bytes of its files are of the slice."""
        return sum(map(_bytes_wanted, self.files))

    def why_not_direct(self) -> str | None:
        """Why tasks can't read the files themselves; None when they can."""
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
            yield from source.batches(self.columns, self.first, self.may_lack, self.rows_at_once, arrivals)


def _bytes_wanted(file: InputFile) -> float:
    return file.bytes * file.fraction
