"""Reads the committed corrections of a pipeline in the order in which sinks get them, and cuts them into
batches.

    corrections     seq 4        seq 5            seq 6
                    c c c c c    c c c c c c c    c c        in an order that never changes
    target                  ^ (5, 2): all of seq 4, two of seq 5

Within a ledger row the order is by key group and key, what is withdrawn of a key first, then by the columns
that tell rows apart. Corrections of a row are read by ranges of key groups, so memory does not grow with a
run.

An erasure takes corrections away, and the offset into a row that was delivered in part then says nothing:
such a row is delivered from its beginning.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.pipelines.sinks import SinkPosition
from slackwater.jobs.pipelines.window_columns import WINDOW_BOUNDS
from slackwater.jobs.protocol.publishing.portions import KEY_GROUP, portions
from slackwater.jobs.protocol.publishing.roll_forward import rolled_forward_to
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import MAIN
from slackwater.jobs.tables.warehouse import Tables

CORRECTIONS = "corrections"
# A batch is as full as this, or has waited so long for its next row.
BATCH_ROWS = 10_000
BATCH_SECONDS = 30.0
_IS_STANDING = "__is_standing"
_ORDER = ("timestamp", "run_id", "firing", "ordinal")
_KEY_GROUPS = 1 << 15  # Flink's greatest max_parallelism


class Batch(NamedTuple):
    """Corrections on their way to a target.

    Attributes:
        changes: rows of `corrections`, in order.
        start, end: the positions between which they lie.
    """

    changes: pa.Table
    start: SinkPosition
    end: SinkPosition


@dataclass(frozen=True)
class CommittedCorrections:
    """The corrections of one pipeline's main, in the order in which they are delivered.

    Attributes:
        tables: the pipeline's tables.
        keys: its key columns.
        windows: the columns of its windows.
        portion_rows: about so many rows are held at once.
    """

    tables: Tables
    keys: tuple[str, ...]
    windows: tuple[str, ...] = WINDOW_BOUNDS
    portion_rows: int = 1 << 20

    def newest_seq(self) -> int:
        """The ledger row up to which corrections stand; 0 for none."""
        return rolled_forward_to(self.tables[CORRECTIONS].find())

    def rows_after(self, position: SinkPosition) -> int:
        """How many corrections come after `position`."""
        count = self._files(position.seq + 1, None).count_within(Within("seq", position.seq + 1, None))
        return count + max(0, self.rows_of(position.seq) - self._offset(position))

    def rows_of(self, seq: int) -> int:
        """How many corrections a ledger row has."""
        return self._files(seq, seq).count_within(Within.only("seq", seq))

    def first_seq_of(self, rows: int, position: SinkPosition) -> int | None:
        """The first ledger row after that of `position` with at least `rows` corrections; None for none."""
        for seq in self._seqs(position.seq + 1, self.newest_seq()):
            if self._files(seq, seq).rows >= rows and self.rows_of(seq) >= rows:
                return seq
        return None

    def after(self, position: SinkPosition, until: int) -> Iterator[tuple[pa.Table, SinkPosition]]:
        """The corrections after `position` up to those of ledger row `until`, some of one ledger row at once,
        each time with the position before them.
        """
        for seq in self._seqs(position.seq, until):
            start = position if seq == position.seq else SinkPosition(seq, 0)
            yield from self.of_row(start, range(_KEY_GROUPS))

    def of_row(self, position: SinkPosition, key_groups: range) -> Iterator[tuple[pa.Table, SinkPosition]]:
        """As `after`, of the ledger row of `position` alone, and of some key groups: `position` counts their
        corrections.
        """
        offset, rows_delivered = 0, self._offset(position)
        for rows in self._of_row(position.seq, key_groups):
            count, rows = rows.num_rows, rows.slice(max(0, rows_delivered - offset))
            if rows.num_rows:
                yield rows, SinkPosition(position.seq, offset + count - rows.num_rows)
            offset += count

    def _seqs(self, first: int, last: int) -> Iterator[int]:
        """Ledger rows of main that may have corrections, from `first` to `last`, both included."""
        for row in self.tables.ledger.rows(since=first - 1):
            if row.branch == MAIN and row.seq <= last and row.kind != RowKind.ERASE:
                yield row.seq

    def _offset(self, position: SinkPosition) -> int:
        """How many corrections of the position's ledger row are behind it."""
        if position.offset <= 0:
            return 0
        later = self.tables.ledger.rows(since=position.seq)
        return 0 if any(row.kind == RowKind.ERASE for row in later) else position.offset

    def _of_row(self, seq: int, key_groups: range) -> Iterator[pa.Table]:
        files = self._files(seq, seq).within(Within(KEY_GROUP, key_groups.start, key_groups.stop - 1))
        group = pc.field(KEY_GROUP)
        is_of_row = (pc.field("seq") == seq) & (group >= key_groups.start) & (group < key_groups.stop)
        names = [KEY_GROUP, *self.keys, _IS_STANDING, *self.windows, *_ORDER]
        for portion in portions([files.actions], self.portion_rows):
            rows = files.read(files.schema.names, is_of_row & portion.where)
            is_standing = pc.not_equal(rows.column("op"), "withdraw")
            order = [(name, "ascending") for name in names]
            yield rows.take(pc.sort_indices(rows.append_column(_IS_STANDING, is_standing), order))

    def _files(self, first: int, last: int | None) -> StoredFiles:
        return self.tables[CORRECTIONS].files(Within("seq", first, last))


def batches(
    corrections: Iterator[tuple[pa.Table, SinkPosition]],
    start: SinkPosition,
    rows: int = BATCH_ROWS,
    seconds: float = BATCH_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Batch]:
    """`corrections` cut into batches of at most `rows`, behind `start`. A batch that has waited for `seconds`
    is not filled up. Nothing is read ahead: who applies a batch slowly is read for slowly.
    """
    parts: list[pa.Table] = []
    count, began, end = 0, clock(), start
    for table, before in corrections:
        for cut in _cuts(table.num_rows, rows - count, rows):
            piece = table.slice(cut.start, len(cut))
            parts.append(piece)
            count, end = count + piece.num_rows, SinkPosition(before.seq, before.offset + cut.stop)
            if count == rows or clock() - began >= seconds:
                yield Batch(pa.concat_tables(parts), start, end)
                parts, count, began, start = [], 0, clock(), end
    if parts:
        yield Batch(pa.concat_tables(parts), start, end)


def _cuts(count: int, first: int, most: int) -> Iterator[range]:
    """`count` rows as a first piece of at most `first` and others of at most `most`."""
    begin, end = 0, min(first, count)
    while begin < count:
        yield range(begin, end)
        begin, end = end, min(end + most, count)
