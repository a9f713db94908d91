"""Reads the committed corrections of a pipeline in the order in which sinks get them, and cuts them into
batches.

    corrections     seq 4        seq 5            seq 6
                    c c c c c    c c c c c c c    c c        in an order that never changes
    target                  ^ (5, 2): all of seq 4, two of seq 5

Within a ledger row the order is by key group and key, what is withdrawn of a key first, then by the columns
that tell rows apart. Corrections of a row are read by ranges of key groups, so memory does not grow with a
run.

An offset counts the corrections as they were committed. Those that an erasure has taken away since count on,
and the ledger says where they stood (`Gap`): a position means the same before an erasure and behind it.

    committed     c c c c c c c     the third and the fourth are erased
    left          c c     c c c     numbered 0 1 4 5 6
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.pipelines.sinks import SetAside, SinkPosition
from slackwater.pipelines.window_columns import WINDOW_BOUNDS
from slackwater.runs.publishing.portions import KEY_GROUP, portions
from slackwater.runs.publishing.roll_forward import rolled_forward_to
from slackwater.sinks.targets.rows import digests_of
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.ledger.erasures import Gap
from slackwater.tables.ledger.rows import MAIN, RowKind
from slackwater.tables.warehouse import Tables

CORRECTIONS = "corrections"
# A batch is as full as this, or has waited so long for its next row.
BATCH_ROWS = 10_000
BATCH_SECONDS = 30.0
_IS_STANDING = "__is_standing"
_ORDER = ("timestamp", "run_id", "firing", "ordinal")
ALL_KEY_GROUPS = range(1 << 15)  # up to Flink's greatest max_parallelism


class Batch(NamedTuple):
    """Corrections on their way to a target, in order, and the positions between which they lie."""

    changes: pa.Table
    start: SinkPosition
    end: SinkPosition


@dataclass(frozen=True)
class CommittedCorrections:
    """The corrections of one pipeline's main in the order of delivery, `portion_rows` at a time."""

    tables: Tables
    keys: tuple[str, ...]
    windows: tuple[str, ...] = WINDOW_BOUNDS
    portion_rows: int = 1 << 20
    _gaps_up_to: dict[int, Sequence[Gap]] = field(default_factory=dict, init=False, repr=False)

    def newest_seq(self) -> int:
        """The ledger row up to which there are corrections; 0 for none."""
        return rolled_forward_to(self.tables[CORRECTIONS].find())

    def rows_after(self, position: SinkPosition) -> int:
        count = self._files(position.seq + 1, None).count_within(Within("seq", position.seq + 1, None))
        if position.offset > 0 and self._gaps(self.tables[CORRECTIONS].find(), position.seq):
            return count + sum(rows.num_rows for rows, _ in self.row_parts(position, ALL_KEY_GROUPS))
        return count + max(0, self.rows_of(position.seq) - max(0, position.offset))

    def rows_of(self, seq: int) -> int:
        return self._files(seq, seq).count_within(Within.only("seq", seq))

    def end_of(self, seq: int) -> SinkPosition:
        """The position behind all corrections of a ledger row."""
        gaps = self._gaps(self.tables[CORRECTIONS].find(), seq)
        return SinkPosition(seq, self.rows_of(seq) + sum(gap.rows for gap in gaps))

    def first_seq_of(self, rows: int, position: SinkPosition) -> int | None:
        """The first ledger row after that of `position` with at least `rows` corrections; None for none."""
        for seq in self._seqs(position.seq + 1, self.newest_seq()):
            if self._files(seq, seq).rows >= rows and self.rows_of(seq) >= rows:
                return seq
        return None

    def after(self, position: SinkPosition, until: int) -> Iterator[tuple[pa.Table, SinkPosition]]:
        """Corrections behind `position` up to ledger row `until`, in parts with the position before each."""
        for seq in self._seqs(position.seq, until):
            start = position if seq == position.seq else SinkPosition(seq, 0)
            yield from self.row_parts(start, ALL_KEY_GROUPS)

    def row_parts(self, position: SinkPosition, key_groups: range) -> Iterator[tuple[pa.Table, SinkPosition]]:
        """As `after`, for one ledger row and some key groups, whose corrections `position` counts."""
        for rows, numbers, _ in self._with_numbers(position.seq, key_groups):
            first = int(np.searchsorted(numbers, position.offset))
            for piece in runs_without_gap(numbers[first:]):
                start = first + piece.start
                yield rows.slice(start, len(piece)), SinkPosition(position.seq, int(numbers[start]))

    def set_aside_parts(self, set_aside: Iterable[SetAside], identity: Sequence[str]) -> Iterator[pa.Table]:
        """The corrections of rows that are set aside, by their `identity`, in parts."""
        digests_by_place = defaultdict[tuple[int, int], set[str]](set)
        for row in set_aside:
            digests_by_place[row.seq, row.key_group].add(row.digest)
        for (seq, group), digests in sorted(digests_by_place.items()):
            for rows, _, _ in self._with_numbers(seq, range(group, group + 1)):
                is_one = [digest in digests for digest in digests_of(rows.select(identity))]
                yield rows.filter(pa.array(is_one, pa.bool_()))

    def gaps_of(self, erased: pc.Expression, is_erased: Callable[[pa.Table], pa.Array]) -> Iterator[Gap]:
        """The places of corrections to erase: the filter `erased` and the mask `is_erased` hold."""
        seqs = self.tables[CORRECTIONS].read(["seq"], erased).column("seq").unique().to_pylist()
        for seq in sorted(seqs):
            for rows, numbers, numbers_in_group in self._with_numbers(seq, ALL_KEY_GROUPS):
                places = np.flatnonzero(pc.fill_null(is_erased(rows), False))
                groups = rows.column(KEY_GROUP).to_numpy()[places]
                for piece in runs_without_gap(numbers[places], groups):
                    place = places[piece.start]
                    first = int(numbers_in_group[place])
                    yield Gap(seq, int(groups[piece.start]), first, len(piece))

    def _seqs(self, first: int, last: int) -> Iterator[int]:
        """Ledger rows of main that may have corrections, from `first` to `last`, both included."""
        for row in self.tables.ledger.rows(since=first - 1):
            if row.branch == MAIN and row.seq <= last and row.kind != RowKind.ERASE:
                yield row.seq

    def _with_numbers(self, seq: int, key_groups: range) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        """The corrections of a ledger row and some key groups in their order, each with its number among them
        and its number in its key group; both count those that were erased, too.
        """
        table = self.tables[CORRECTIONS].find()
        gaps = [gap for gap in self._gaps(table, seq) if gap.key_group in key_groups]
        least, greatest = key_groups.start, key_groups.stop - 1
        files = self.tables[CORRECTIONS].files(
            Within.only("seq", seq), Within(KEY_GROUP, least, greatest), table=table
        )
        group = pc.field(KEY_GROUP)
        is_of_row = (pc.field("seq") == seq) & (group >= least) & (group <= greatest)
        names = [KEY_GROUP, *self.keys, _IS_STANDING, *self.windows, *_ORDER]
        rows_before = 0
        for portion in portions([files.actions], self.portion_rows):
            rows = files.read(files.schema.names, is_of_row & portion.where)
            is_standing = pc.not_equal(rows.column("op"), "withdraw")
            order = [(name, "ascending") for name in names]
            rows = rows.take(pc.sort_indices(rows.append_column(_IS_STANDING, is_standing), order))
            before_group, in_group = numbers_with_gaps(rows.column(KEY_GROUP).to_numpy(), gaps)
            yield rows, rows_before + before_group + in_group, in_group
            rows_before += rows.num_rows

    def _gaps(self, table: OpenTable | None, seq: int) -> list[Gap]:
        """The gaps among the corrections of a ledger row as of a version of `corrections`, in order."""
        forward_seq = rolled_forward_to(table)
        if forward_seq not in self._gaps_up_to:
            erasures = [row for row in self.tables.ledger.erasures() if row.seq <= forward_seq]
            self._gaps_up_to[forward_seq] = [
                gap for row in erasures for item in row.erased for gap in item.gaps
            ]
        return sorted(gap for gap in self._gaps_up_to[forward_seq] if gap.seq == seq)

    def _files(self, first: int, last: int | None) -> StoredFiles:
        return self.tables[CORRECTIONS].files(Within("seq", first, last))


def numbers_with_gaps(groups: np.ndarray, gaps: Sequence[Gap]) -> tuple[np.ndarray, np.ndarray]:
    """For each row, whose key groups are in ascending order: how many rows and gaps lie before its key group,
    and its number in it, with the gaps before it.
    """
    before_group = np.searchsorted(groups, groups)
    in_group = np.arange(len(groups)) - before_group
    for gap in gaps:
        first, last = np.searchsorted(groups, [gap.key_group, gap.key_group + 1])
        in_group[first:last][in_group[first:last] >= gap.first] += gap.rows
        before_group[last:] += gap.rows
    return before_group, in_group


def runs_without_gap(numbers: np.ndarray, groups: np.ndarray | None = None) -> Iterator[range]:
    """The places at which ascending numbers follow each other without a gap, and are of one group."""
    is_break = np.diff(numbers) != 1
    if groups is not None:
        is_break |= np.diff(groups) != 0
    ends = [*(np.flatnonzero(is_break) + 1).tolist(), len(numbers)]
    yield from (range(first, last) for first, last in pairwise([0, *ends]) if last > first)


def batches(
    corrections: Iterator[tuple[pa.Table, SinkPosition]],
    start: SinkPosition,
    rows: int = BATCH_ROWS,
    seconds: float = BATCH_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Batch]:
    """`corrections` cut into batches of at most `rows`, behind `start`. A batch that has waited for `seconds`
    is not filled up. Nothing is read ahead: a slow target is read for slowly.
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
