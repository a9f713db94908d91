"""Keeps one Delta table small: partitions dropped, small files made one, the log checkpointed, dead files deleted. No row is changed.

Knows no table by name, and not what is needed of one.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from deltalake.exceptions import CommitFailedError

from jobs.tables.delta import Folder
from jobs.tables.errors import CommitConflict
from jobs.tables.reading import actions_of

# Files from this size on are left as they are, so that compacting a table again and again costs what is new in it.
_COMPACTED_BYTES = 16 << 20
_AT_ONCE = 500


class Held(NamedTuple):
    """What a partition holds."""

    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class TableUpkeep:
    """The upkeep of one table; every method but `partitions` and the dry ones commits for itself."""

    folder: Folder

    def partitions(self, column: str) -> dict[str, Held]:
        """Value of the partition column → what stands there."""
        actions = actions_of(self.folder.open())
        if not actions.num_rows:
            return {}
        found: dict[str, Held] = {}
        columns = (actions.column(name).to_pylist() for name in (f"partition.{column}", "num_records", "size_bytes"))
        for value, rows, size in zip(*columns, strict=True):
            before = found.get(value, Held(0, 0, 0))
            found[value] = Held(before.files + 1, before.rows + (rows or 0), before.bytes + size)
        return found

    def drop_partitions(self, column: str, values: list[str]) -> None:
        """Take partitions out of the table. Their files stay until a vacuum a week later."""
        for first in range(0, len(values), _AT_ONCE):
            listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values[first : first + _AT_ONCE])
            self.folder.open().delete(f"{column} IN ({listed})")

    def compactable(self) -> int:
        """How many files fewer there would be after `compact`."""
        actions = actions_of(self.folder.open())
        names = ["size_bytes", *(name for name in actions.column_names if name.startswith("partition."))]
        small: Counter[tuple[object, ...]] = Counter()
        for size, *partition in zip(*(actions.column(name).to_pylist() for name in names), strict=True) if actions.num_rows else ():
            if size < _COMPACTED_BYTES:
                small[tuple(partition)] += 1
        return sum(count - 1 for count in small.values())

    def compact(self) -> int:
        """Make one of the small files of each partition, as a commit that changes no data; returns how many files fewer there are.

        Raises:
            CommitConflict: somebody else has rewritten them meanwhile.
        """
        try:
            done = self.folder.open().optimize.compact(target_size=_COMPACTED_BYTES)
        except CommitFailedError as error:
            raise CommitConflict(f"{self.folder.uri}: {error}") from error
        return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])

    def checkpoint(self) -> None:
        """Put the log's state into one file, and drop entries that the log's own retention no longer keeps."""
        table = self.folder.open()
        table.create_checkpoint()
        table.cleanup_metadata()

    def vacuum(self, *, is_dry: bool) -> int:
        """Delete files that no version of the last week names, also those that tasks of dead runs have left; returns how many."""
        return len(self.folder.open().vacuum(dry_run=is_dry, full=True))
