"""Keeps one Delta table small: drops partitions, deletes rows, compacts small files, writes a checkpoint,
and deletes dead files. Callers decide what may go. Knows no table by name.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction
from deltalake.exceptions import DeltaError

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.errors import CommitConflict

_ROWS_AT_ONCE = 1 << 17
# Rows of a clustered table are divided anew as many as fill so many files.
_FILES_AT_ONCE = 4
KEPT_HOURS = 7 * 24
# How often a compaction is tried again because somebody else has committed meanwhile.
_TRIES = 20


class PartitionSize(NamedTuple):
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class TableUpkeep:
    """The upkeep of one table. Each method makes its own commit.

    Attributes:
        folder: the table.
        order: files are compacted in the order of their least values of this column; None for the order in
            which they were written.
        large_bytes: files from this size on are not compacted, so that the cost follows what is new. In a
            clustered table the number of rows decides instead.
    """

    folder: Folder
    order: str | None = None
    large_bytes: int = 16 << 20

    def partitions(self, column: str) -> dict[str, PartitionSize]:
        actions = self.folder.open().actions
        if not actions.num_rows:
            return {}
        partition = f"partition.{column}"
        sums = actions.group_by(partition, use_threads=False).aggregate(
            [([], "count_all"), ("num_records", "sum"), ("size_bytes", "sum")]
        )
        return {
            row[partition]: PartitionSize(
                row["count_all"], row["num_records_sum"] or 0, row["size_bytes_sum"]
            )
            for row in sums.to_pylist()
        }

    def drop_partitions(self, column: str, values: Sequence[str]) -> None:
        """Take partitions out of the table; a vacuum deletes their files a week later."""
        while True:
            table = self.folder.open()
            files = self.folder.files(table=table)
            if not files.actions.num_rows:
                return
            is_dropped = pc.is_in(
                files.actions.column(f"partition.{column}"), value_set=pa.array(values, pa.string())
            )
            try:
                self.folder.commit_files([], replace(files, actions=files.actions.filter(is_dropped)), table)
            except CommitConflict:
                continue
            return

    def count(self, where: pc.Expression, within: Within) -> int:
        """How many rows `delete` would delete."""
        files = self.folder.files(within, table=self.folder.open())
        return sum(_count(one, where, within.column) for one in files.one_by_one())

    def delete(self, where: pc.Expression, within: Within, transaction: Transaction | None = None) -> int:
        """Delete the rows for which `where` holds, which all lie `within` the bounds, in one commit; returns
        how many. Files that also hold other rows are written anew; a vacuum deletes the old ones a week
        later.
        """
        others = ~pc.coalesce(where, pc.scalar(False))
        while True:
            table = self.folder.open()
            counts = [
                (one, _count(one, where, within.column)) for one in self._files(table, within).one_by_one()
            ]
            files_with_hits = [one for one, count in counts if count]
            if not files_with_hits and (
                transaction is None or table.transaction_version(transaction.app_id) == transaction.version
            ):
                return 0
            added_files = [
                file for one, count in counts if 0 < count < one.rows for file in self._write(one, others)
            ]
            hits = [one.actions for one in files_with_hits]
            removed_files = replace(files_with_hits[0], actions=pa.concat_tables(hits)) if hits else None
            try:
                self.folder.commit_files(added_files, removed_files, table, transaction)
            except CommitConflict:
                continue
            return sum(count for _, count in counts)

    def compactable(self) -> int:
        """How many files fewer there would be after `compact`."""
        actions, clustering = self.folder.open().actions, self.folder.clustering
        groups = self._small_files(actions)
        if clustering is None:
            return sum(group.num_rows - 1 for group in groups)
        return sum(group.num_rows - max(1, _rows_of(group) // clustering.file_rows) for group in groups)

    def compact(self) -> int:
        """Merge the small files of each partition into one, in a commit that changes no data; returns how
        many files fewer there are. Rows keep their order, except in a clustered table. Files that somebody
        else has replaced meanwhile are left out, so two compactions at once replace a file once. Raises
        CommitConflict: somebody else has rewritten all of them, or never stops committing.
        """
        table = self.folder.open()
        files = self._files(table)
        merges = [
            (small, self._write(replace(files, actions=small))) for small in self._small_files(files.actions)
        ]
        if not merges:
            return 0
        for _ in range(_TRIES):
            paths = self.folder.files(table=table).actions.column("path")
            merges = [
                (small, new_files)
                for small, new_files in merges
                if pc.all(pc.is_in(small.column("path"), value_set=paths)).as_py()
            ]
            if not merges:
                raise CommitConflict(
                    f"{self.folder.uri}: somebody else has rewritten what was to be compacted."
                )
            removed_files = replace(files, actions=pa.concat_tables([small for small, _ in merges]))
            added_files = [file for _, new_files in merges for file in new_files]
            try:
                self.folder.commit_files(added_files, removed_files, table, changes_data=False)
            except CommitConflict:
                table = self.folder.open()
                continue
            return removed_files.actions.num_rows - len(added_files)
        raise CommitConflict(
            f"{self.folder.uri}: it has moved {_TRIES} times while small files were made one."
        )

    def _write(self, files: StoredFiles, where: pc.Expression | None = None) -> list[WrittenFile]:
        """Write the selected rows of `files` as one new file, or for a clustered table as files that are not
        small. They are not yet part of the table.
        """
        folder = replace(self.folder, schema=files.schema)
        if folder.clustering is not None:
            with Parts(folder) as parts:
                parts.add(files.read(files.schema.names, where))
                return parts.close()
        with Parts(folder, file_rows=sys.maxsize) as parts:
            for rows in files.scan(files.schema.names, where, _ROWS_AT_ONCE):
                parts.add(rows)
            return parts.close()

    def _small_files(self, actions: pa.Table) -> list[pa.Table]:
        clustering = self.folder.clustering
        if clustering is None:
            return _small_files(actions, self.order, _Size("size_bytes", self.large_bytes, self.large_bytes))
        size = _Size("num_records", clustering.small_rows, _FILES_AT_ONCE * clustering.file_rows)
        return _small_files(actions, self.order, size)

    def _files(self, table: OpenTable, *bounds: Within) -> StoredFiles:
        """The files of `table` with all its columns, also those that a run has just added."""
        return replace(self.folder.files(*bounds, table=table), schema=table.schema)

    def checkpoint(self) -> None:
        """Write a checkpoint, and drop log entries older than the log's own retention."""
        table = self.folder.open().as_delta_rs()
        table.create_checkpoint()
        table.cleanup_metadata()

    def vacuum(self, *, is_dry: bool) -> int:
        """Delete files that no table version of the last week names, also what tasks of dead runs have left;
        returns how many. `is_dry` only counts. A property of the table may ask for more than a week, but not
        for less: a run at work has files that no version names yet.
        """
        table = self.folder.open().as_delta_rs()
        try:
            return len(table.vacuum(KEPT_HOURS, is_dry, full=True))
        except DeltaError:  # it asks for more
            return len(table.vacuum(dry_run=is_dry, full=True))


def _count(files: StoredFiles, where: pc.Expression, column: str) -> int:
    return sum(part.num_rows for part in files.scan([column], where, _ROWS_AT_ONCE))


class _Size(NamedTuple):
    """The log's column that measures files, the size below which one is small, and the size to fill up to."""

    column: str
    small: int
    large: int


def _rows_of(actions: pa.Table) -> int:
    return pc.sum(actions.column("num_records")).as_py() or 0


def _small_files(actions: pa.Table, order: str | None, size: _Size) -> list[pa.Table]:
    """Groups of small files to merge. A group has one partition, is in the order of the files' least `order`
    and then of writing, and is full when its files together are large.
    """
    if not actions.num_rows:
        return []
    partition = [name for name in actions.column_names if name.startswith("partition.")]
    actions = actions.filter(pc.less(actions.column(size.column), size.small))
    first = [f"min.{order}"] if f"min.{order}" in actions.column_names else []
    actions = actions.sort_by([(name, "ascending") for name in (*first, "modification_time", "path")])
    columns = (actions.column(name).to_pylist() for name in (size.column, *partition))
    open_groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    sizes: dict[tuple[object, ...], int] = defaultdict(int)
    full_groups: list[list[int]] = []
    for number, (file_size, *values) in enumerate(zip(*columns, strict=True)):
        partition_value = tuple(values)
        open_groups[partition_value].append(number)
        sizes[partition_value] += file_size
        if sizes[partition_value] >= size.large:
            full_groups.append(open_groups.pop(partition_value))
            del sizes[partition_value]
    return [
        actions.take(pa.array(numbers))
        for numbers in (*full_groups, *open_groups.values())
        if len(numbers) > 1
    ]
