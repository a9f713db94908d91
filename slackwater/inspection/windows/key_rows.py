"""Reads the rows of one key from the tables of a pipeline: only files and row groups that may hold them, by
key group and bounds of columns.

Knows how tables are laid out; windows and their meaning are the business of those who ask.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.keys import Keys
from slackwater.tables.arrow_values import python_values
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
        return files.read(folder.schema.names if columns is None else columns, condition)

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
            return folder.schema.empty_table().select(folder.schema.names if columns is None else columns)
        if self.is_in_log(table, owner):
            return self.read(table, where, Within.only("run_id", owner.run_id), columns=columns)
        rows = read_staged(self.tables, table, snapshot_files(self.tables, table, owner))
        rows = rows.filter(self.condition if where is None else self.condition & where)
        return rows if columns is None else rows.select(columns)

    def is_in_log(self, table: str, owner: LedgerRow) -> bool:
        """Whether a snapshot table still has all rows that the run `owner` has parked, if any."""
        files = self.tables[table].files(Within.only("run_id", owner.run_id))
        return not owner.files.get(table) or files.actions.num_rows > 0
