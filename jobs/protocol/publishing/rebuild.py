"""Makes `published`, `corrections` and the ledger right again: copies of rows go, and `published` is
corrected by the live runs' panes.

Each table is mended in one commit, from the version that was read, and keeps the seq that it was rolled
forward to. Killed at any moment it can be run again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.errors import PermanentError
from slackwater.jobs.protocol.publishing.portions import portions
from slackwater.jobs.protocol.publishing.roll_forward import RollForward, rolled_forward_to
from slackwater.jobs.protocol.publishing.uniqueness import CORRECTIONS, LEDGER, PUBLISHED
from slackwater.jobs.protocol.staging.lease import only_upkeep
from slackwater.jobs.protocol.staging.run import wall_clock
from slackwater.jobs.tables.delta.parts import Parts
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.attempts import AttemptsWriter
from slackwater.jobs.tables.ledger.lineage_rows import rebuild_row
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.jobs.tables.warehouse import Tables

log = logging.getLogger("slackwater")

_ROW = "__row"


class NotACopy(PermanentError):
    """Rows that should be copies of each other differ, so neither can be removed. Facts: table."""


@dataclass(frozen=True)
class Rebuilt:
    """What was mended.

    Attributes:
        doubled: table → rows that stood there several times and stand there once now; tables without any are
            left out.
        is_published_anew: whether `published` was not what its corrections make it.
        row: the ledger row that corrects what panes say otherwise; None where they say the same.
    """

    doubled: dict[str, int]
    is_published_anew: bool
    row: LedgerRow | None


@dataclass(frozen=True)
class Rebuild:
    """Mends the tables of one pipeline.

    Attributes:
        pipeline: its name.
        tables: its tables.
        roll_forward: finished when the tables are right.
        version: of the product, recorded in the ledger.
        clock: the wall clock.
    """

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    version: str
    clock: Callable[[], datetime] = wall_clock

    def run(self) -> Rebuilt:
        """Mend the ledger, `corrections`, `published`, in this order, and roll forward.

        Raises:
            NotACopy: somebody has changed one of two rows that should be equal; nothing of that table was
                changed.
            LeaseHeld: upkeep is at work.
            LostRaceError: main moved meanwhile.
        """
        with only_upkeep(self.pipeline, AttemptsWriter(self.tables["attempts"]), self.clock):
            counts = {
                LEDGER: _until_committed(self._once_in_ledger),
                CORRECTIONS: _until_committed(self._once_in_corrections),
            }
            surplus = self.roll_forward.uniqueness.surplus_of(PUBLISHED)
            is_changed = _until_committed(self._as_corrected)
            self.roll_forward.finish()
            row = self._correct_by_panes()
        doubled = {name: count for name, count in {**counts, PUBLISHED: surplus}.items() if count}
        return Rebuilt(doubled, bool(is_changed), row)

    def _once_in_ledger(self) -> int:
        table = self.tables[LEDGER].open()
        folder = replace(
            self.tables[LEDGER], schema=pa.schema(table.schema())
        )  # a run may have added columns meanwhile
        files = folder.files(table=table)
        rows = files.read(folder.schema.names)
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("seq", "ascending")]))
        firsts = _first_of_each(rows.select(["seq"]))
        if len(firsts) == rows.num_rows:
            return 0
        values = rows.to_pylist()
        of_seq = {values[number.as_py()]["seq"]: values[number.as_py()] for number in firsts}
        if any(of_seq[value["seq"]] != value for value in values):
            raise self._not_a_copy(LEDGER)
        with Parts(folder) as parts:
            parts.add(rows.take(firsts))
            folder.commit_files(parts.close(), files, table)
        return int(rows.num_rows - len(firsts))

    def _once_in_corrections(self) -> int:
        folder, unique = self.tables[CORRECTIONS], self.roll_forward.uniqueness
        table = folder.open()
        files = folder.files(table=table)
        if not unique.surplus_in(CORRECTIONS, files):
            return 0
        surplus = 0
        with Parts(folder) as parts:
            for portion in portions([files.actions], self.roll_forward.portion_rows):
                rows = files.read(folder.schema.names, portion.where)
                firsts = _first_of_each(unique.told_apart(CORRECTIONS, rows))
                if len(firsts) != len(_first_of_each(_flat(rows))):
                    raise self._not_a_copy(CORRECTIONS)
                surplus += rows.num_rows - len(firsts)
                parts.add(rows.take(firsts))
            folder.commit_files(parts.close(), files, table)
        return surplus

    def _as_corrected(self) -> int:
        """Make `published` what the corrections up to its own seq make it; returns 1 where it was something
        else.
        """
        folder, publication = self.tables[PUBLISHED], self.roll_forward.publication
        table = folder.open()
        files, corrections = folder.files(table=table), self.tables[CORRECTIONS].files()
        until, is_same = pc.field("seq") <= rolled_forward_to(table), True
        with Parts(folder) as parts:
            for portion in portions([files.actions, corrections.actions], self.roll_forward.portion_rows):
                changes = corrections.read(corrections.schema.names, until & portion.where)
                stored_rows = files.read(folder.schema.names, portion.where)
                right = publication.rebuilt(changes, stored_rows, self.roll_forward.names_of(changes))
                all_rows = _flat(pa.concat_tables([right, stored_rows.cast(right.schema)]))
                is_same = is_same and right.num_rows == stored_rows.num_rows == len(_first_of_each(all_rows))
                parts.add(right)
            files_written = parts.close()
        if is_same:
            return 0
        folder.commit_files(files_written, files, table)
        return 1

    def _correct_by_panes(self) -> LedgerRow | None:
        """A ledger row by which every window is looked at anew, if its panes say something else than
        `published`.
        """
        ledger = self.tables.ledger_writer
        head = ledger.head()
        if head is None:
            return None
        owner = ledger.snapshot_owner(head)
        row = rebuild_row(head, owner, ledger.start_of(head), self.version)
        if not self.roll_forward.would_change(replace(row, seq=head.seq + 1)):
            return None
        [bound] = ledger.commit(MAIN, head.seq, [row], self.clock)
        log.info("rebuild", extra={"pipeline": self.pipeline, "seq": bound.seq, "run_id": bound.run_id})
        self.roll_forward.finish()
        return bound

    def _not_a_copy(self, name: str) -> NotACopy:
        return NotACopy(
            f"{self.pipeline}: {self.tables[name].uri} holds rows of one identity that differ, so none of "
            "them is a copy that could go. "
            "Somebody has written there; RESTORE the table to the version before.",
            table=name,
        )


def _until_committed(mend: Callable[[], int]) -> int:
    while True:
        try:
            return mend()
        except CommitConflict:
            continue


def _first_of_each(told_apart: pa.Table) -> pa.Array:
    """Positions of the first of the rows that are equal, ascending."""
    names = told_apart.column_names
    numbered = told_apart.unify_dictionaries().append_column(
        _ROW, pa.array(range(told_apart.num_rows), pa.int64())
    )
    firsts = numbered.group_by(names, use_threads=False).aggregate([(_ROW, "min")]).column(f"{_ROW}_min")
    return firsts.take(pc.sort_indices(firsts)).combine_chunks()


def _flat(rows: pa.Table) -> pa.Table:
    """`rows` with a column for each field of a struct, so that rows can be grouped by all that they are; a
    struct that is null has a column that says so."""
    structs = [field.name for field in rows.schema if pa.types.is_struct(field.type)]
    for name in structs:
        rows = rows.append_column(f"{_ROW}_{name}", pc.is_null(rows.column(name)))
    return rows.flatten()
