"""Keeps a pipeline's tables small: drops snapshots that nothing needs and old history, compacts small files,
deletes dead ones, and checkpoints logs.

Touches nothing that the lineage needs: `slackwater.tables.run_files.retention` decides, and is asked
again where the ledger has moved meanwhile.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.history import History
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.publishing.uniqueness import LEDGER, UNIQUE_TABLES
from slackwater.runs.staging.lease import only_upkeep
from slackwater.runs.staging.run import wall_clock
from slackwater.tables.delta.upkeep import PartitionSize, TableUpkeep
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.attempts import AttemptsWriter
from slackwater.tables.ledger.rows import MAIN
from slackwater.tables.ledger.writer import LARGE_BYTES
from slackwater.tables.run_files.retention import (
    RetentionFacts,
    Rule,
    droppable_run_ids,
    run_ids_to_keep,
)
from slackwater.tables.run_files.snapshots import put_back
from slackwater.tables.run_files.staging import unpack
from slackwater.tables.schemas import SIDE, SNAPSHOT_TABLES, STAGED_TABLES
from slackwater.tables.warehouse import Tables

log = logging.getLogger("slackwater")


@dataclass(frozen=True)
class Upkeep:
    """The upkeep of one table, done or planned.

    Attributes:
        rows, bytes: what is dropped; of old history the rows alone.
        kept: how many snapshots stay; None for a table that holds none.
        compacted: how many files fewer the table has after the compaction.
        vacuumed: how many dead files are deleted.
        note: why something was left for another time.
    """

    table: str
    snapshots: int = 0
    rows: int = 0
    bytes: int = 0
    kept: int | None = None
    compacted: int = 0
    vacuumed: int = 0
    note: str | None = None


@dataclass(frozen=True)
class Maintenance:
    """The upkeep of one pipeline's tables.

    Attributes:
        delivered_seq: gives the ledger row up to which every sink has its corrections; None without sinks.
        lease: whether to claim that this is the only upkeep. Only tests turn it off: correctness rests on
            what each commit is based on.
    """

    pipeline: Pipeline
    tables: Tables
    roll_forward: RollForward
    delivered_seq: Callable[[], int] | None = None
    lease: bool = True
    clock: Callable[[], datetime] = wall_clock
    # (version of the ledger, what it held then); at most one.
    _facts: list[tuple[int, RetentionFacts]] = field(default_factory=list, init=False, repr=False)

    def plan(self) -> list[Upkeep]:
        """What `run` would do now, one entry a table. Changes nothing."""
        upkeeps = []
        history = self._history()
        counts = {old_rows.table: history.count(old_rows) for old_rows in history.old_rows()}
        for name, table in self._tables():
            split = self._split_snapshots(name)
            fewer = table.compactable() if name not in SNAPSHOT_TABLES else 0
            upkeeps.append(
                _upkeep(name, split, counts.get(name, 0), compacted=fewer, vacuumed=table.vacuum(is_dry=True))
            )
        return upkeeps

    def run(self) -> list[Upkeep]:
        """Do the upkeep, table after table. It may be killed at any moment and run again.

        Raises:
            LeaseHeld: another one is at work.
            DoubledRows: a table holds rows several times; nothing is dropped and nothing compacted.
        """
        attempts = AttemptsWriter(self.tables["attempts"])
        with only_upkeep(self.pipeline.name, attempts, self.clock) if self.lease else nullcontext():
            self.roll_forward.finish()
            self.roll_forward.uniqueness.require()
            history = self._history()
            counts = {old_rows.table: history.drop(old_rows) for old_rows in history.old_rows()}
            # The ledger's files come last: the needed snapshots are read from the tables.
            tables = sorted(self._tables(), key=lambda item: item[0] == LEDGER)
            upkeeps = {name: self._keep_small(name, table, counts.get(name, 0)) for name, table in tables}
            if any(upkeeps[name].compacted for name in UNIQUE_TABLES):
                self.roll_forward.uniqueness.require()
            return [upkeeps[name] for name, _ in self._tables()]

    def _history(self) -> History:
        delivered_seq = None if self.delivered_seq is None else self.delivered_seq()
        return History(self.pipeline, self.tables, delivered_seq)

    def _keep_small(self, name: str, table: TableUpkeep, old_rows: int) -> Upkeep:
        split = self._split_snapshots(name)
        if split.unneeded_snapshots:
            table.drop_partitions("run_id", list(split.unneeded_snapshots))
            self._put_back_what_is_needed(split.unneeded_snapshots)
        fewer, note = 0, None
        try:
            fewer = table.compact() if name not in SNAPSHOT_TABLES else 0
        except CommitConflict:
            note = "somebody else was writing to it; it is compacted next time"
        table.checkpoint()
        upkeep = _upkeep(
            name, split, old_rows, compacted=fewer, vacuumed=table.vacuum(is_dry=False), note=note
        )
        log.info(f"maintain {name}", extra={"pipeline": self.pipeline.name})
        return upkeep

    def _put_back_what_is_needed(self, dropped_run_ids: Iterable[str]) -> None:
        """Put back the dropped snapshots that are needed by now, because a restore, a fork or a publish
        came between the choice and the drop.
        """
        lineage = self._lineage()
        staged_rows = {
            attempt.run_id: unpack(attempt.ledger_row)[1]
            for attempt in lineage.attempts
            if attempt.ledger_row is not None
        }
        for run_id in run_ids_to_keep(lineage, self._rule, self.clock()) & set(dropped_run_ids):
            row = self.tables.ledger.by_run_id(run_id) or staged_rows.get(run_id)
            if row is None:
                continue
            put_back(self.tables, row)
            log.info(
                "put back what is needed meanwhile", extra={"pipeline": self.pipeline.name, "run_id": run_id}
            )

    @property
    def _rule(self) -> Rule:
        return Rule(self.pipeline.keep_snapshots, self.pipeline.keep_snapshot_every)

    def _lineage(self) -> RetentionFacts:
        attempts, ledger = self.tables.attempts.newest_rows(), self.tables.ledger
        rows = ledger.columns("seq", "run_id", "kind", "slice_end")
        newest_seq = rows.column("seq")[-1].as_py() if rows.num_rows else 0
        newest_rows = ledger.newest_rows(MAIN, self._rule.newest, newest_seq)
        return RetentionFacts(attempts, rows, newest_rows, ledger.branches())

    def _tables(self) -> list[tuple[str, TableUpkeep]]:
        """All existing tables. Snapshots have files for each run and are dropped, not compacted; where runs
        share files, rows are in the order of slices, with whose starts run ids begin.
        """
        by_run = {name for name in self.tables.folders if name in STAGED_TABLES or name.startswith(SIDE)} - {
            *SNAPSHOT_TABLES
        }
        return [
            (
                name,
                TableUpkeep(folder, "seq", LARGE_BYTES)
                if name == LEDGER
                else TableUpkeep(folder, "run_id" if name in by_run else None),
            )
            for name, folder in self.tables.folders.items()
        ]

    def _split_snapshots(self, name: str) -> "_SplitSnapshots":
        """The snapshots in a table, split by whether anything needs them; none where the table holds none."""
        if name not in SNAPSHOT_TABLES:
            return _SplitSnapshots({}, {})
        while True:
            version = self.tables["runs"].version() or 0
            partitions = TableUpkeep(self.tables[name]).partitions("run_id")
            # Runs that are younger than the facts are not known there, and are kept.
            facts = next((facts for read_at, facts in self._facts if read_at == version), None)
            if facts is None:
                facts = self._lineage()
                self._facts[:] = [(version, facts)]
            droppable_runs = set(droppable_run_ids(partitions, facts, self._rule, self.clock()))
            if (self.tables["runs"].version() or 0) == version:
                return _SplitSnapshots(
                    {run_id: item for run_id, item in partitions.items() if run_id in droppable_runs},
                    {run_id: item for run_id, item in partitions.items() if run_id not in droppable_runs},
                )


class _SplitSnapshots(NamedTuple):
    """The snapshots of a table by the ids of their runs: the unneeded ones, and the others."""

    unneeded_snapshots: dict[str, PartitionSize]
    needed_snapshots: dict[str, PartitionSize]


def _upkeep(name: str, split: _SplitSnapshots, old_rows: int, **facts: Any) -> Upkeep:
    return Upkeep(
        name,
        snapshots=len(split.unneeded_snapshots),
        rows=old_rows + sum(partition.rows for partition in split.unneeded_snapshots.values()),
        bytes=sum(partition.bytes for partition in split.unneeded_snapshots.values()),
        kept=len(split.needed_snapshots) if name in SNAPSHOT_TABLES else None,
        **facts,
    )
