"""Keeps a pipeline's tables small: drops snapshots that nothing needs and old history, compacts small files,
deletes dead ones, and checkpoints logs.

Touches nothing that the lineage needs: `slackwater.jobs.tables.run_files.retention` decides, and is asked
again where the ledger has moved meanwhile.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.lineage.history import History
from slackwater.jobs.protocol.publishing.roll_forward import RollForward
from slackwater.jobs.protocol.publishing.uniqueness import UNIQUE_TABLES
from slackwater.jobs.protocol.staging.lease import only_upkeep
from slackwater.jobs.protocol.staging.run import wall_clock
from slackwater.jobs.tables.delta.upkeep import PartitionSize, TableUpkeep
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.attempts import AttemptsWriter
from slackwater.jobs.tables.run_files.retention import Lineage, Rule, droppable, needed
from slackwater.jobs.tables.run_files.snapshots import put_back
from slackwater.jobs.tables.run_files.staging import unpack
from slackwater.jobs.tables.schemas import SIDE, SNAPSHOT_TABLES, STAGED_TABLES
from slackwater.jobs.tables.warehouse import Tables

log = logging.getLogger("slackwater")


@dataclass(frozen=True)
class Upkeep:
    """What was done to a table, or would be.

    Attributes:
        snapshots: how many runs' rows of it are dropped, and with them
        rows, bytes: so many; of history that is kept no longer there are rows alone.
        kept: how many runs' rows of it stay; None for a table that is no part of snapshots.
        compacted: by how many files it is fewer.
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
        pipeline, tables: whose.
        roll_forward: finished first, as by every writing command.
        lease: whether to claim that this is the only upkeep. Only tests turn it off: correctness rests on
            what each commit is based on.
        clock: the wall clock.
    """

    pipeline: Pipeline
    tables: Tables
    roll_forward: RollForward
    lease: bool = True
    clock: Callable[[], datetime] = wall_clock

    def plan(self) -> list[Upkeep]:
        """What `run` would do now, one entry a table. Changes nothing."""
        upkeeps = []
        history = History(self.pipeline, self.tables)
        old = {dropped.table: history.rows(dropped) for dropped in history.droppable()}
        for name, table in self._tables():
            dropped, kept = self._split(name)
            fewer = table.compactable() if name not in SNAPSHOT_TABLES else 0
            upkeeps.append(
                _upkeep(
                    name, dropped, kept, old.get(name, 0), compacted=fewer, vacuumed=table.vacuum(is_dry=True)
                )
            )
        return upkeeps

    def run(self) -> list[Upkeep]:
        """Do it, table after table. Killed at any moment it has done a part, and can be run again.

        Raises:
            LeaseHeld: another one is at work.
            DoubledRows: a table holds rows several times; nothing is dropped and nothing compacted.
        """
        attempts = AttemptsWriter(self.tables["attempts"])
        with only_upkeep(self.pipeline.name, attempts, self.clock) if self.lease else nullcontext():
            self.tables.repartition()
            self.roll_forward.finish()
            self.roll_forward.uniqueness.require()
            history = History(self.pipeline, self.tables)
            old = {dropped.table: history.drop(dropped) for dropped in history.droppable()}
            upkeeps = [self._keep_small(name, table, old.get(name, 0)) for name, table in self._tables()]
            if any(upkeep.compacted for upkeep in upkeeps if upkeep.table in UNIQUE_TABLES):
                self.roll_forward.uniqueness.require()
            return upkeeps

    def _keep_small(self, name: str, table: TableUpkeep, old: int) -> Upkeep:
        dropped, kept = self._split(name)
        if dropped:
            table.drop_partitions("run_id", list(dropped))
            self._put_back_what_is_needed(dropped)
        fewer, note = 0, None
        try:
            fewer = table.compact() if name not in SNAPSHOT_TABLES else 0
        except CommitConflict:
            note = "somebody else was writing to it; it is compacted next time"
        table.checkpoint()
        upkeep = _upkeep(
            name, dropped, kept, old, compacted=fewer, vacuumed=table.vacuum(is_dry=False), note=note
        )
        log.info(f"maintain {name}", extra={"pipeline": self.pipeline.name})
        return upkeep

    def _put_back_what_is_needed(self, dropped: Iterable[str]) -> None:
        """Of what was dropped, put back what is needed by now: a restore, a fork or a publish came between
        the choice and the drop.
        """
        lineage = self._lineage()
        staged = {
            attempt.run_id: unpack(attempt.ledger_row)[1]
            for attempt in lineage.attempts
            if attempt.ledger_row is not None
        }
        rows = staged | {row.run_id: row for row in lineage.rows}
        for run_id in needed(lineage, self._rule, self.clock()) & set(dropped) & rows.keys():
            put_back(self.tables, rows[run_id])
            log.info(
                "put back what is needed meanwhile", extra={"pipeline": self.pipeline.name, "run_id": run_id}
            )

    @property
    def _rule(self) -> Rule:
        return Rule(self.pipeline.keep_snapshots, self.pipeline.keep_snapshot_every)

    def _lineage(self) -> Lineage:
        ledger = self.tables.ledger
        return Lineage(self.tables.attempts.standing(), ledger.rows(), ledger.branches())

    def _tables(self) -> list[tuple[str, TableUpkeep]]:
        """Every table that stands. Snapshots have files of their own for each run, and are dropped instead of
        compacted; where runs share files, their rows stand in the order of the slices, by whose starts run
        ids begin."""
        by_run = {name for name in self.tables.folders if name in STAGED_TABLES or name.startswith(SIDE)} - {
            *SNAPSHOT_TABLES
        }
        return [
            (name, TableUpkeep(folder, "run_id" if name in by_run else None))
            for name, folder in self.tables.folders.items()
        ]

    def _split(self, name: str) -> tuple[dict[str, PartitionSize], dict[str, PartitionSize]]:
        """Of a snapshot table: what is dropped of it and what stays, by run id. Nothing, of another."""
        if name not in SNAPSHOT_TABLES:
            return {}, {}
        while True:
            version = self.tables["runs"].open().version()
            partitions = TableUpkeep(self.tables[name]).partitions("run_id")
            droppable_runs = set(droppable(partitions, self._lineage(), self._rule, self.clock()))
            if self.tables["runs"].open().version() == version:
                return {
                    run_id: partition for run_id, partition in partitions.items() if run_id in droppable_runs
                }, {
                    run_id: partition
                    for run_id, partition in partitions.items()
                    if run_id not in droppable_runs
                }


def _upkeep(
    name: str, dropped: dict[str, PartitionSize], kept: dict[str, PartitionSize], old: int, **facts: Any
) -> Upkeep:
    rows, size = (
        old + sum(partition.rows for partition in dropped.values()),
        sum(partition.bytes for partition in dropped.values()),
    )
    is_kept = len(kept) if name in SNAPSHOT_TABLES else None
    return Upkeep(name, snapshots=len(dropped), rows=rows, bytes=size, kept=is_kept, **facts)
