"""The scan of a slice: the pinned version, the range of arrivals, the columns and files. Of several sources
each is scanned for itself, and the first scan has the others.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa

from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.computed_column_files import ComputedColumnFiles, columns_for_files
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.naming import Naming, common_batch
from slackwater.engine.source.overrides import Overrides
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.row_groups import ROWS_AT_ONCE, Arrivals, SourceFile

Batches = Iterator[SourceBatch]

GROUP_BYTES, SMALL_GROUP_BYTES = 64 << 20, 4 << 20


@dataclass(frozen=True)
class SliceScan:
    """The rows of one slice as map tasks read them.

    Attributes:
        files: the source's files that hold rows of the slice.
        start_ms: where the lineage begins.
        before: the source as the parent run has pinned it; None for the first run.
        newer_reads: what live runs have read at versions newer than `before`.
        overrides: the changed arrivals that the run honours.
        first: the columns that are read of every row, the others only of some; None: all.
        rows_at_once: about so many rows are read together.
        null_checked: the columns whose null mask alone is read.
        naming: how the pipeline's rows, which all columns here refer to, are made from the source's; None:
            they are the same.
        others: the scans of the pipeline's other sources, in order; only their source, files, `before`,
            `newer_reads`, naming and `column_files` count.
        column_files: hold computed columns from one pass over the slice for the next; None: nothing does.
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
    naming: Naming | None = None
    others: "tuple[SliceScan, ...]" = ()
    column_files: ComputedColumnFiles | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema if self.naming is None else self.naming.schema

    @cached_property
    def parts(self) -> "tuple[SliceScan, ...]":
        if not self.others:
            return (self,)
        fields_of_all = ("columns", "first", "null_checked", "rows_at_once")
        values = {name: getattr(self, name) for name in fields_of_all}
        return (replace(self, others=()), *(replace(other, **values) for other in self.others))

    @property
    def all_files(self) -> tuple[InputFile, ...]:
        return tuple(file for part in self.parts for file in part.files)

    def with_column_files(self, folder: str, columns: Iterable[str]) -> "SliceScan":
        """The scan, with the computed ones of `columns` in files of `folder` from its first pass on."""
        names = tuple(columns)
        first, *others = (
            replace(part, column_files=ComputedColumnFiles(folder, part.columns_for_files(names)))
            for part in self.parts
        )
        return replace(self, column_files=first.column_files, others=tuple(others))

    def columns_for_files(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The source's own columns, among `columns`, that are better kept in files than computed twice."""
        if self.naming is None:
            return columns_for_files(self.source.schema, columns)
        return columns_for_files(self.naming.own_schema, self.naming.own_columns(columns))

    def with_own_columns(self) -> "SliceScan":
        naming = self.naming
        if naming is None:
            return self
        others = naming.own_columns(name for name in self.columns if name not in self.null_checked)
        null_checked = naming.own_columns(self.null_checked)
        return replace(
            self,
            columns=tuple(dict.fromkeys((*naming.own_columns(self.columns), *others))),
            arrival=naming.own_columns((self.arrival,))[0],
            first=None if self.first is None else naming.own_columns(self.first),
            null_checked=tuple(name for name in null_checked if name not in others),
            naming=None,
        )

    def as_common(self, batches: Batches) -> Batches:
        naming = self.naming
        if naming is None:
            return batches
        eager = [name for name in self.columns if self.first is None or name in self.first]
        return map(partial(common_batch, naming, columns=self.columns, eager=eager), batches)

    def groups(self, tasks_at_once: int = 1) -> list[tuple[InputFile, ...]]:
        """The files, or shares of large files, in order, in groups of about GROUP_BYTES, one per task; at
        least one, and enough to keep `tasks_at_once` busy.
        """
        size = self.size
        rounds = max(1, round(size / (GROUP_BYTES * tasks_at_once)))
        count = max(1, min(rounds * tasks_at_once, int(size / SMALL_GROUP_BYTES)))
        bytes_per_group = max(size, 1) / count
        shares = [
            share
            for file in self.all_files
            for share in file.shares(round(_bytes_in_slice(file) / bytes_per_group))
        ]
        ends = itertools.accumulate(map(_bytes_in_slice, shares))
        groups: dict[int, list[InputFile]] = {}
        for share, end in zip(shares, ends, strict=True):
            groups.setdefault(int((end - _bytes_in_slice(share) / 2) / bytes_per_group), []).append(share)
        return [tuple(group) for group in groups.values()] or [()]

    @property
    def size(self) -> float:
        """About how many bytes of its files are in the slice."""
        return sum(map(_bytes_in_slice, self.all_files))

    def why_not_direct(self) -> str | None:
        """Why tasks can't read the files, so that Spark scans the same version; None when they can."""
        return next(
            (reason for part in self.parts if (reason := part.source.why_not_direct) is not None), None
        )

    def holds_unread(self) -> bool:
        """Whether any file may hold rows of earlier arrival that no run has read."""
        return any(part._holds_unread() for part in self.parts)

    def _holds_unread(self) -> bool:
        return any(file.may_hold_unread for file in self.files)

    def read(self, group: Sequence[InputFile]) -> Batches:
        """The files as batches, large ones in pieces, without row groups that hold no row of the slice."""
        for file in group:
            part = self.parts[file.source] if self.others else self
            yield from part.as_common(part.with_own_columns()._read_file(file, part.naming))

    def _read_file(self, file: InputFile, naming: Naming | None) -> Batches:
        arrivals = Arrivals(
            self.arrival,
            self.from_ms,
            self.to_ms,
            tuple(self.overrides.true_arrivals(self.from_ms, self.to_ms)),
        )
        schema = self.source.schema if naming is None else naming.own_schema
        source = SourceFile(self.source.uri, file, schema)
        return source.batches(
            self.columns,
            self.first,
            self.null_checked,
            self.rows_at_once,
            arrivals,
            column_files=self.column_files,
        )

    def versions(self) -> dict[str, int]:
        """The name of each of several sources → the version that is read; empty for one source."""
        return {} if not self.others else {_title(part): part.source.version for part in self.parts}


def _title(part: SliceScan) -> str:
    assert part.naming is not None, "each of several sources has a name"
    return part.naming.title


def _bytes_in_slice(file: InputFile) -> float:
    return file.bytes * file.fraction
