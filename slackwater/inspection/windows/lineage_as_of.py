"""One key of a lineage as of a ledger row: the runs that count there, the snapshot, and the rows of the key.
All parts of a window's explanation read from it.

Rows of the key are read from only those files and row groups that may hold some, by key group and bounds of
columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.keys import Keys
from slackwater.pipelines import Pipeline
from slackwater.tables.arrow_values import python_rows, python_values
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.named_keys import NotAKey, key_scalars
from slackwater.tables.run_files.snapshots import snapshot_files
from slackwater.tables.run_files.staging import read_staged
from slackwater.tables.warehouse import Tables


@dataclass(frozen=True)
class KeyRows:
    """The rows of one key in every table. `scalars`: key column → value, empty for windows of all rows."""

    tables: Tables
    scalars: Mapping[str, pa.Scalar]
    key_group: int

    @classmethod
    def of(cls, tables: Tables, key_columns: Sequence[str], text: str | None, key_groups: int) -> "KeyRows":
        """The rows of the key that a person names (`slackwater.tables.named_keys`); `text` is None where the
        pipeline has no key column. `key_groups`: how many the pipeline has. Raises NotAKey: the text names no
        key.
        """
        if text is None and key_columns:
            example = ",".join(
                "K" if len(key_columns) == 1 else f"K{n}" for n in range(1, len(key_columns) + 1)
            )
            raise NotAKey(
                f"a window belongs to a key: name it by its {', '.join(key_columns)}, --key {example}."
            )
        schema = tables["panes"].schema
        columns = tuple((name, schema.field(name).type) for name in key_columns)
        scalars = {} if text is None else key_scalars(columns, text)
        keys = Keys(columns, key_groups)
        key = pa.table({name: pa.array([value]) for name, value in scalars.items()})
        [key_group] = keys.groups(key) if scalars else keys.groups_of([0])
        return cls(tables, scalars, int(key_group))

    @property
    def values(self) -> dict[str, Any]:
        """Key column → value, as people see it."""
        return {name: python_values(pa.array([value]))[0] for name, value in self.scalars.items()}

    @cached_property
    def condition(self) -> pc.Expression:
        conditions = (pc.field(name) == value for name, value in self.scalars.items())
        return reduce(and_, conditions, pc.field("key_group") == self.key_group)

    def read(
        self,
        table: str,
        where: pc.Expression | None = None,
        *bounds: Within,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of the key that `where` selects, of every run; all of them lie within `bounds`."""
        folder = self.tables[table]
        files = folder.files(Within.only("key_group", self.key_group), *bounds)
        condition = self.condition if where is None else self.condition & where
        return files.read(columns or folder.schema.names, condition)

    def parked_rows(
        self,
        table: str,
        owner: LedgerRow | None,
        where: pc.Expression | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of the key in a table of the snapshot of the run `owner`. Raises SnapshotGone: the snapshot is
        not kept any more.
        """
        folder = self.tables[table]
        if owner is None or not owner.files.get(table):
            return folder.schema.empty_table().select(columns or folder.schema.names)
        if self.is_in_log(table, owner):
            return self.read(table, where, Within.only("run_id", owner.run_id), columns=columns)
        rows = read_staged(self.tables, table, snapshot_files(self.tables, table, owner))
        rows = rows.filter(self.condition if where is None else self.condition & where)
        return rows if columns is None else rows.select(columns)

    def is_in_log(self, table: str, owner: LedgerRow) -> bool:
        """Whether a snapshot table still has all rows that the run `owner` has parked, if any."""
        files = self.tables[table].files(Within.only("run_id", owner.run_id))
        return not owner.files.get(table) or files.actions.num_rows > 0


@dataclass(frozen=True)
class LineageAsOf:
    """What the parts of an explanation read from, as of the ledger row `head`.

    Attributes:
        last_seq: the newest ledger row, of all branches, that is looked at.
        since: runs whose slices end by then hold nothing of interest; None: any may.
    """

    pipeline: Pipeline
    head: LedgerRow
    key_rows: KeyRows
    last_seq: int
    since: datetime | None = None

    @property
    def tables(self) -> Tables:
        return self.key_rows.tables

    @cached_property
    def live_runs(self) -> tuple[LedgerRow, ...]:
        """The runs that count at the head and may hold something of interest, in slice order."""
        return tuple(self.tables.ledger.live_runs(self.head, self.since))

    def from_window(self, start: datetime | None) -> "LineageAsOf":
        """The same lineage without runs that end before the first element of a window with this start may
        have arrived.
        """
        since = None if start is None else start - self.pipeline.max_ahead
        return self if since == self.since else replace(self, since=since)

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {row.run_id: place for place, row in enumerate(self.live_runs)}

    @cached_property
    def owner(self) -> LedgerRow | None:
        return self.tables.ledger.snapshot_owner(self.head)

    @cached_property
    def window_columns(self) -> tuple[str, ...]:
        names = self.tables["timers"].schema.names
        return tuple(names[names.index("window_start") : names.index("service")])

    @cached_property
    def result_columns(self) -> tuple[str, ...]:
        """The columns of results in panes, also those that are no longer declared."""
        names = self.tables["panes"].schema.names
        engine_columns = {"kind", "elements", "watermark", "tick_end", "cause_arrival"}
        return tuple(name for name in names[names.index("timestamp") + 1 :] if name not in engine_columns)

    @property
    def published_columns(self) -> tuple[str, ...]:
        """The columns of results in `published`, also those that are no longer declared."""
        return tuple(field.name for field in self.tables["corrections"].schema.field("new").type)

    def runs_that_may_hold(
        self, start: datetime | None, cleanup_time: datetime | None
    ) -> Iterator[LedgerRow]:
        """The live runs that may have parked a window, newest first: they end after its first element may
        have arrived, and before the watermark has passed its cleanup time. None: no such bound.
        """
        least_end = None if start is None else start - self.pipeline.max_ahead
        for run in reversed(self.live_runs):
            is_after = cleanup_time is not None and run.watermark_out is not None
            if is_after and run.watermark_out >= cleanup_time:  # type: ignore[operator]
                continue
            if least_end is not None and run.slice_end is not None and run.slice_end <= least_end:
                return
            yield run

    def run_of(self, run_id: str) -> LedgerRow | None:
        place = self.places.get(run_id)
        return self.tables.ledger.by_run_id(run_id) if place is None else self.live_runs[place]

    def progress(self, run: LedgerRow | None = None) -> Sequence[Mapping[str, Any]]:
        """The rows of `source_progress` in the snapshot of `run` (default: the head's), the pipeline's own
        row first; empty where that snapshot is not kept.
        """
        owner = self.owner if run is None else run
        if owner is None:
            return []
        rows = self.tables["source_progress"].files(Within.only("run_id", owner.run_id))
        values = rows.read([name for name in rows.schema.names if name != "run_id"]).to_pylist()
        return sorted(
            values, key=lambda row: (row["source_partition"] is not None, row["source_partition"] or "")
        )


def live_rows(lineage: LineageAsOf, rows: pa.Table) -> list[dict[str, Any]]:
    """The rows that live runs have written, in the order of the runs, with their `place`."""
    places = lineage.places
    live = [row | {"place": places[row["run_id"]]} for row in python_rows(rows) if row["run_id"] in places]
    return sorted(live, key=lambda row: row["place"])
