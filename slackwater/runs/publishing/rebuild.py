"""Repairs the ledger, `corrections` and `published`: removes copies of rows, and corrects `published` by the
panes of the live runs. What others have changed was taken back before.

Each table is repaired in one commit, on the version that was read, and keeps the seq up to which it was
rolled forward. A rebuild that was killed can be run again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import PermanentError
from slackwater.runs.publishing.portion_tasks import seqs_of_runs
from slackwater.runs.publishing.roll_forward import RollForward, rolled_forward_to
from slackwater.runs.publishing.uniqueness import CORRECTIONS, LEDGER, PUBLISHED
from slackwater.runs.staging.lease import only_upkeep
from slackwater.runs.staging.run import wall_clock
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.take_back import TakenBack
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.attempts import AttemptsWriter
from slackwater.tables.ledger.lineage_rows import rebuild_row
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.warehouse import Tables

log = logging.getLogger("slackwater")

_ROW = "__row"


class NotACopy(PermanentError):
    """Rows that should be copies of each other differ, so neither can be removed. Facts: table."""


@dataclass(frozen=True)
class Rebuilt:
    """The repairs of a rebuild.

    Attributes:
        taken_back: the tables that others had changed, and what was passed over.
        removed_copies: table → how many rows were removed as copies of others.
        is_published_anew: whether `published` differed from what its corrections make it.
        row: the ledger row by which `published` was corrected; None where it agreed with the panes.
    """

    taken_back: tuple[TakenBack, ...]
    removed_copies: dict[str, int]
    is_published_anew: bool
    row: LedgerRow | None


@dataclass(frozen=True)
class Rebuild:
    """Repairs the tables of one pipeline; `taken_back` were taken back before these were opened."""

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    clock: Callable[[], datetime] = wall_clock
    taken_back: tuple[TakenBack, ...] = ()

    def run(self) -> Rebuilt:
        """Repair the ledger, `corrections` and `published`, in this order, and roll forward.

        Raises:
            NotACopy: two rows that should be equal differ; that table was not changed.
            LeaseHeld: upkeep is at work.
            LostRaceError: main moved meanwhile.
        """
        with only_upkeep(self.pipeline, AttemptsWriter(self.tables["attempts"]), self.clock):
            counts = {
                LEDGER: _until_committed(self._remove_copies_from_ledger),
                CORRECTIONS: _until_committed(self._remove_copies_from_corrections),
            }
            surplus = self.roll_forward.uniqueness.surplus_of(PUBLISHED)
            is_changed = _until_committed(self._redo_published)
            self.roll_forward.finish()
            row = self._correct_by_panes()
        counts[PUBLISHED] = surplus
        return Rebuilt(
            self.taken_back, {name: count for name, count in counts.items() if count}, bool(is_changed), row
        )

    def _remove_copies_from_ledger(self) -> int:
        table = self.tables[LEDGER].open()
        # With the schema of this version: a newer release may have added columns.
        folder = replace(self.tables[LEDGER], schema=table.schema)
        files = folder.files(table=table)
        rows = files.read(folder.schema.names)
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("seq", "ascending")]))
        firsts = _first_of_each(rows.select(["seq"]))
        if len(firsts) == rows.num_rows:
            return 0
        values = rows.to_pylist()
        row_by_seq = {values[number.as_py()]["seq"]: values[number.as_py()] for number in firsts}
        if any(row_by_seq[value["seq"]] != value for value in values):
            raise self._not_a_copy(LEDGER)
        with Parts(folder) as parts:
            parts.add(rows.take(firsts))
            folder.commit_files(parts.close(), files, table)
        return int(rows.num_rows - len(firsts))

    def _remove_copies_from_corrections(self) -> int:
        folder, unique = self.tables[CORRECTIONS], self.roll_forward.uniqueness
        table = folder.open()
        files = folder.files(table=table)
        if not unique.surplus_in(CORRECTIONS, files):
            return 0
        surplus = 0
        with Parts(folder) as parts:
            for portion in unique.portions(files.actions):
                rows = portion.files_among(files).read(folder.schema.names, portion.where)
                firsts = _first_of_each(unique.identity_of(CORRECTIONS, rows))
                if len(firsts) != len(_first_of_each(_flat(rows))):
                    raise self._not_a_copy(CORRECTIONS)
                surplus += rows.num_rows - len(firsts)
                parts.add(rows.take(firsts))
            folder.commit_files(parts.close(), files, table)
        return surplus

    def _redo_published(self) -> int:
        """Make `published` anew from the corrections up to its own seq. Returns 1 where that changed it."""
        folder, publication = self.tables[PUBLISHED], self.roll_forward.publication
        table = folder.open()
        files, corrections = folder.files(table=table), self.tables[CORRECTIONS].files()
        until, is_same = pc.field("seq") <= rolled_forward_to(table), True
        with Parts(folder) as parts:
            for portion in self.roll_forward.uniqueness.portions(files.actions, corrections.actions):
                corrections_of_portion = portion.files_among(corrections)
                changes = corrections_of_portion.read(corrections.schema.names, until & portion.where)
                stored_rows = portion.files_among(files).read(folder.schema.names, portion.where)
                seqs = seqs_of_runs(self.tables, publication, changes)
                right_rows = publication.rebuild(changes, stored_rows, seqs)
                all_rows = _flat(pa.concat_tables([right_rows, stored_rows.cast(right_rows.schema)]))
                # As many distinct rows together as on either side: both sides have the same rows, each once.
                is_same = is_same and right_rows.num_rows == stored_rows.num_rows == len(
                    _first_of_each(all_rows)
                )
                parts.add(right_rows)
            files_written = parts.close()
        if is_same:
            return 0
        folder.commit_files(files_written, files, table)
        return 1

    def compute_results(self) -> LedgerRow | None:
        """Compute the results and the condition of all that is published anew, as they are declared now.
        Returns the ledger row by which `published` was corrected; None where it agreed. Raises as `run`.
        """
        with only_upkeep(self.pipeline, AttemptsWriter(self.tables["attempts"]), self.clock):
            self.roll_forward.finish()
            return self._correct_by_panes(of_results=True)

    def _correct_by_panes(self, *, of_results: bool = False) -> LedgerRow | None:
        """Correct `published` in every window where the panes disagree; None where all agree."""
        ledger = self.tables.ledger_writer
        head = ledger.head()
        if head is None:
            return None
        owner = ledger.snapshot_owner(head)
        row = rebuild_row(head, owner, ledger.start_of(head), of_results=of_results)
        if not self.roll_forward.would_change(replace(row, seq=head.seq + 1)):
            return None
        [new_head] = ledger.commit(MAIN, head.seq, [row], self.clock)
        log.info("rebuild", extra={"pipeline": self.pipeline, "seq": new_head.seq, "run_id": new_head.run_id})
        self.roll_forward.finish()
        return new_head

    def _not_a_copy(self, name: str) -> NotACopy:
        return NotACopy(
            f"{self.pipeline}: {self.tables[name].uri} holds rows of one identity that differ, so none of "
            "them is a copy that could go. Somebody has written there; RESTORE the table to the version "
            "before.",
            table=name,
        )


def _until_committed(repair: Callable[[], int]) -> int:
    """Repeat a repair until nobody else has written to its table meanwhile."""
    while True:
        try:
            return repair()
        except CommitConflict:
            continue


def _first_of_each(rows: pa.Table) -> pa.Array:
    names = rows.column_names
    numbered_rows = rows.unify_dictionaries().append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    firsts = numbered_rows.group_by(names, use_threads=False).aggregate([(_ROW, "min")]).column(f"{_ROW}_min")
    return firsts.take(pc.sort_indices(firsts)).combine_chunks()


def _flat(rows: pa.Table) -> pa.Table:
    """`rows` with a column for each field of a struct, and one for whether the struct is null, so that rows
    can be grouped by all of their values.
    """
    structs = [field.name for field in rows.schema if pa.types.is_struct(field.type)]
    for name in structs:
        rows = rows.append_column(f"{_ROW}_{name}", pc.is_null(rows.column(name)))
    return rows.flatten()
