"""Keeps one Delta table small: partitions dropped, small files made one, the log checkpointed, dead files
deleted. No row is changed.

Knows no table by name, and not what is needed of one.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.parts import Parts
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within, actions_of
from slackwater.jobs.tables.delta.written_files import WrittenFile
from slackwater.jobs.tables.errors import CommitConflict

# Files from this size on are left as they are, so that compacting a table again and again costs what is new
# in it.
_COMPACTED_BYTES = 16 << 20
_ROWS_AT_ONCE = 1 << 17
# How often a compaction starts again from the version that somebody else's commit has made.
_TRIES = 20


class Held(NamedTuple):
    """What a partition holds."""

    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class TableUpkeep:
    """The upkeep of one table; every method but `partitions` and the dry ones commits for itself.

    Attributes:
        folder: the table.
        order: a column in the order of whose least values files are put together; None for the order in which
            they came.
    """

    folder: Folder
    order: str | None = None

    def partitions(self, column: str) -> dict[str, Held]:
        """Value of the partition column → what stands there."""
        actions = actions_of(self.folder.open())
        if not actions.num_rows:
            return {}
        found: dict[str, Held] = {}
        columns = (
            actions.column(name).to_pylist() for name in (f"partition.{column}", "num_records", "size_bytes")
        )
        for value, rows, size in zip(*columns, strict=True):
            before = found.get(value, Held(0, 0, 0))
            found[value] = Held(before.files + 1, before.rows + (rows or 0), before.bytes + size)
        return found

    def drop_partitions(self, column: str, values: Sequence[str]) -> None:
        """Take partitions out of the table. Their files stay until a vacuum a week later."""
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
        """How many rows `delete` would take away."""
        files = self.folder.files(within, table=self.folder.open())
        return sum(_count(one, where, within.column) for one in _one_by_one(files))

    def delete(self, where: pc.Expression, within: Within, transaction: Transaction | None = None) -> int:
        """Take the rows away for which `where` holds, all of which lie within the bounds, in one commit;
        returns how many. Files that hold such rows and others are written anew without them. The dead files
        stay until a vacuum a week later."""
        others = ~pc.coalesce(where, pc.scalar(False))
        while True:
            table = self.folder.open()
            counted = [
                (one, _count(one, where, within.column)) for one in _one_by_one(self._files(table, within))
            ]
            touched = [one for one, count in counted if count]
            if not touched and (
                transaction is None or table.transaction_version(transaction.app_id) == transaction.version
            ):
                return 0
            added = [
                file for one, count in counted if 0 < count < one.rows for file in self._written(one, others)
            ]
            removed = (
                replace(touched[0], actions=pa.concat_tables([one.actions for one in touched]))
                if touched
                else None
            )
            try:
                self.folder.commit_files(added, removed, table, transaction)
            except CommitConflict:
                continue
            return sum(count for _, count in counted)

    def compactable(self) -> int:
        """How many files fewer there would be after `compact`."""
        return sum(small.num_rows - 1 for small in _small_files(actions_of(self.folder.open()), self.order))

    def compact(self) -> int:
        """Make one of the small files of each partition, as a commit that changes no data; returns how many
        files fewer there are.

        The rows of a file keep their order, and files follow each other in that of `order`. A file is
        replaced only as long as it is part of the table as of the version that the commit is based on: two
        compactions at once replace it once.

        Raises:
            CommitConflict: somebody else has rewritten all of them meanwhile, or never stops committing.
        """
        table = self.folder.open()
        stored = self._files(table)
        merged = [
            (small, self._written(replace(stored, actions=small)))
            for small in _small_files(stored.actions, self.order)
        ]
        if not merged:
            return 0
        for _ in range(_TRIES):
            paths = self.folder.files(table=table).actions.column("path")
            merged = [
                (small, files)
                for small, files in merged
                if pc.all(pc.is_in(small.column("path"), value_set=paths)).as_py()
            ]
            if not merged:
                raise CommitConflict(
                    f"{self.folder.uri}: somebody else has rewritten what was to be compacted."
                )
            replaced = replace(stored, actions=pa.concat_tables([small for small, _ in merged]))
            added = [file for _, files in merged for file in files]
            try:
                self.folder.commit_files(added, replaced, table, changes_data=False)
            except CommitConflict:
                table = self.folder.open()
                continue
            return replaced.actions.num_rows - len(added)
        raise CommitConflict(
            f"{self.folder.uri}: it has moved {_TRIES} times while small files were made one."
        )

    def _written(self, files: StoredFiles, where: pc.Expression | None = None) -> list[WrittenFile]:
        """The rows of `files` that `where` selects as one new file, which is not yet part of the table."""
        with Parts(replace(self.folder, schema=files.schema), file_rows=sys.maxsize) as parts:
            for rows in files.scan(files.schema.names, where, _ROWS_AT_ONCE):
                parts.add(rows)
            return parts.close()

    def _files(self, table: DeltaTable, *bounds: Within) -> StoredFiles:
        """The files of `table` with all its columns: a run may have added some since the folder was looked
        at.
        """
        return replace(self.folder.files(*bounds, table=table), schema=pa.schema(table.schema()))

    def checkpoint(self) -> None:
        """Put the log's state into one file, and drop entries older than the log's own retention."""
        table = self.folder.open()
        table.create_checkpoint()
        table.cleanup_metadata()

    def vacuum(self, *, is_dry: bool) -> int:
        """Delete files that no version of the last week names, also those that tasks of dead runs have left;
        returns how many.
        """
        return len(self.folder.open().vacuum(dry_run=is_dry, full=True))


def _one_by_one(files: StoredFiles) -> list[StoredFiles]:
    return [
        replace(files, actions=files.actions.slice(number, 1)) for number in range(files.actions.num_rows)
    ]


def _count(files: StoredFiles, where: pc.Expression, column: str) -> int:
    return sum(part.num_rows for part in files.scan([column], where, _ROWS_AT_ONCE))


def _small_files(actions: pa.Table, order: str | None) -> list[pa.Table]:
    """Files of one partition each that are to become one: small ones, in the order of their least `order`,
    then in that in which they came, until together they are large."""
    if not actions.num_rows:
        return []
    partition = [name for name in actions.column_names if name.startswith("partition.")]
    actions = actions.filter(pc.less(actions.column("size_bytes"), _COMPACTED_BYTES))
    first = [f"min.{order}"] if f"min.{order}" in actions.column_names else []
    actions = actions.sort_by([(name, "ascending") for name in (*first, "modification_time", "path")])
    columns = (actions.column(name).to_pylist() for name in ("size_bytes", *partition))
    together: dict[tuple[object, ...], list[int]] = defaultdict(list)
    sizes: dict[tuple[object, ...], int] = defaultdict(int)
    large: list[list[int]] = []
    for number, (size, *values) in enumerate(zip(*columns, strict=True)):
        partition_value = tuple(values)
        together[partition_value].append(number)
        sizes[partition_value] += size
        if sizes[partition_value] >= _COMPACTED_BYTES:
            large.append(together.pop(partition_value))
            del sizes[partition_value]
    return [actions.take(pa.array(numbers)) for numbers in (*large, *together.values()) if len(numbers) > 1]
