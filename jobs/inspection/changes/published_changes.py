"""What a ledger row changes in `published`, summed up: how many rows are inserted, updated and withdrawn, on
how many days, and the first of them with their old and new values.

Of a row that is rolled forward this is read from `corrections`; of a branch that is not published yet, it is
computed as its publication would. Both go portion by portion, and keep no more rows than are asked for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.protocol.publishing.correction_sql import BEFORE, column_list
from slackwater.jobs.protocol.publishing.corrections import dates_of
from slackwater.jobs.protocol.publishing.portions import portions
from slackwater.jobs.protocol.restating.publish_branch import BranchPublication, BranchPublisher
from slackwater.jobs.tables.delta.stored_files import Within
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.sql import query
from slackwater.jobs.tables.warehouse import Tables

CORRECTIONS = "corrections"
# Of a row: how many rows are held at once, as by the roll-forward.
_PORTION_ROWS = 1 << 20
# Columns of `corrections` that say which ledger row wrote them: a branch that is not published has none.
_OF_LEDGER_ROW = ("seq", "run_id", "at")


@dataclass(frozen=True, kw_only=True)
class PublishedChanges:
    """The changes of one ledger row.

    Attributes:
        counts: op (insert, update, withdraw) → rows.
        days: on how many days they are.
        keys, windows, results: the names of the pipeline's columns.
        rows: the changes that were asked for, in order of window and key: the columns of `corrections` but
            seq, run_id and at.
    """

    counts: Mapping[str, int]
    days: int
    keys: tuple[str, ...]
    windows: tuple[str, ...]
    results: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]

    @property
    def total(self) -> int:
        """How many rows of `published` change."""
        return sum(self.counts.values())

    @classmethod
    def of_row(cls, tables: Tables, row: LedgerRow, limit: int | None, offset: int = 0) -> "PublishedChanges":
        """What a ledger row that was rolled forward has changed: `limit` changes (None: all) behind the first
        `offset`.
        """
        files = tables[CORRECTIONS].files(Within.only("seq", row.seq))
        is_of_row, names = pc.field("seq") == row.seq, files.schema.names
        parts = (
            files.read(names, is_of_row & portion.where)
            for portion in portions([files.actions], _PORTION_ROWS)
        )
        return cls._of(parts, files.schema, limit, offset)

    @classmethod
    def of_branch(
        cls, publisher: BranchPublisher, publication: BranchPublication, limit: int | None, offset: int = 0
    ) -> "PublishedChanges":
        """What publishing a branch would change, before it is published. Where it has an obstacle, these are
        the changes by the runs that it has, with all of main's later runs behind them.
        """
        parts = (part.drop_columns([BEFORE]) for part in publisher.changes(publication))
        return cls._of(parts, publisher.tables[CORRECTIONS].schema, limit, offset)

    @classmethod
    def _of(
        cls, parts: Iterable[pa.Table], schema: pa.Schema, limit: int | None, offset: int
    ) -> "PublishedChanges":
        """The sum of `parts`, tables of corrections that have the columns of `schema` but those of the
        ledger row.
        """
        names = [name for name in schema.names if name not in _OF_LEDGER_ROW]
        windows = names[names.index("window_start") : names.index("ordinal")]
        keys = names[names.index("key_group") + 1 : names.index("window_start")]
        counts, days = Counter[str](), set[date | None]()
        first_rows = pa.schema([schema.field(name) for name in names]).empty_table()
        bound = None if limit is None else limit + offset
        for part in parts:
            counts.update(part.column("op").to_pylist())
            days |= dates_of(part)
            first_rows = _first(first_rows, part.select(names), [*keys, *windows], bound)
        return cls(
            counts=counts,
            days=len(days),
            keys=tuple(keys),
            windows=tuple(windows),
            results=tuple(field.name for field in schema.field("new").type.fields),
            rows=first_rows.slice(offset).to_pylist(),
        )


def _first(a: pa.Table, b: pa.Table, window: Sequence[str], bound: int | None) -> pa.Table:
    """The first `bound` rows of both tables in order of window and key; None: all."""
    moment = "coalesce(window_start, window_end, timestamp)"
    order = f"{moment}, {column_list([*window, 'timestamp', 'firing', 'ordinal', 'op'])}"
    limit = "" if bound is None else f"LIMIT {bound}"
    sql = f"SELECT * FROM a UNION ALL BY NAME SELECT * FROM b ORDER BY {order} {limit}"
    return query(sql, a=a, b=b)
