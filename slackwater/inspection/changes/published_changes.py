"""What a ledger row changes in `published`: how many rows are inserted, updated and withdrawn, on how many
days, and the first of them with old and new values; and what has changed between two rows of the ledger.

For a row that is rolled forward the sums are in the log, and only the first rows are read from `corrections`.
For a branch that is not published yet the changes are computed as its publication would, portion by portion.
Between two rows they are the first old and the last new values of their corrections, where these differ.
Neither keeps more rows than are asked for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.views import LineageViews
from slackwater.runs.publishing.change_summary import CORRECTIONS, change_summaries
from slackwater.runs.publishing.correction_sql import BEFORE, column_list
from slackwater.runs.publishing.corrections import dates_of
from slackwater.runs.restating.publish_branch import BranchPublication, BranchPublisher
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.sql import query, quoted

# SQL for the moment by which changes are in order.
_MOMENT = "coalesce(window_start, window_end, timestamp)"
# The changes of a row, as a view.
_CHANGES = "changes_of_row"
# Columns of `corrections` that say which ledger row wrote them: a branch that is not published has none.
_OF_LEDGER_ROW = ("seq", "run_id", "at")


@dataclass(frozen=True, kw_only=True)
class PublishedChanges:
    """The changes of one ledger row: counts by op (insert, update, withdraw), on how many days, and in `rows`
    the changes that were asked for, in order of window and key: the columns of `corrections` without seq,
    run_id and at.
    """

    counts: Mapping[str, int]
    days: int
    keys: tuple[str, ...]
    windows: tuple[str, ...]
    results: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @classmethod
    def of_row(
        cls, inspection: Inspection, row: LedgerRow, limit: int | None, offset: int = 0
    ) -> "PublishedChanges":
        """What a published ledger row has changed: `limit` changes (None: all) after the first `offset`."""
        summary = change_summaries(inspection.tables, [row])[row.seq]
        files = inspection.tables[CORRECTIONS].files(Within.only("seq", row.seq))
        columns = _Columns.of(files.schema)
        has_starts = not files.may_have_nulls("window_start")
        order = columns.order("window_start" if has_starts else _MOMENT)
        end = f"{'' if limit is None else f'LIMIT {limit}'} OFFSET {offset}"
        sql = (
            f"SELECT {column_list(columns.names)} FROM {_CHANGES} WHERE seq = {row.seq} ORDER BY {order} "
            f"{end}"
        )
        with LineageViews.over(inspection, row) as views:
            views.define(_CHANGES, files)
            rows = python_rows(views.query(sql))
        return cls(
            counts=summary.rows_by_op,
            days=len(summary.days),
            keys=columns.keys,
            windows=columns.windows,
            results=columns.results,
            rows=rows,
        )

    @classmethod
    def of_branch(
        cls, publisher: BranchPublisher, publication: BranchPublication, limit: int | None, offset: int = 0
    ) -> "PublishedChanges":
        """What publishing a branch would change. Where an obstacle forbids that, these are the changes by the
        runs that it has, with all of main's later runs after them.
        """
        parts = (part.drop_columns([BEFORE]) for part in publisher.changes(publication))
        return cls._of(parts, publisher.tables[CORRECTIONS].schema, limit, offset)

    @classmethod
    def _of(
        cls, parts: Iterable[pa.Table], schema: pa.Schema, limit: int | None, offset: int
    ) -> "PublishedChanges":
        """The sum of `parts`, tables of corrections with the columns of `schema` but for the ledger row's."""
        columns = _Columns.of(schema)
        counts, days = Counter[str](), set[date | None]()
        first_rows = pa.schema([schema.field(name) for name in columns.names]).empty_table()
        bound = None if limit is None else limit + offset
        for part in parts:
            counts.update(part.column("op").to_pylist())
            days |= dates_of(part)
            first_rows = _first(first_rows, part.select(columns.names), columns.order(_MOMENT), bound)
        return cls(
            counts=counts,
            days=len(days),
            keys=columns.keys,
            windows=columns.windows,
            results=columns.results,
            rows=python_rows(first_rows.slice(offset)),
        )


@dataclass(frozen=True)
class _Columns:
    """The columns of `corrections` without the ledger row's, and among them keys, windows and results."""

    names: tuple[str, ...]
    keys: tuple[str, ...]
    windows: tuple[str, ...]
    results: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema) -> "_Columns":
        names = tuple(name for name in schema.names if name not in _OF_LEDGER_ROW)
        start, end = names.index("window_start"), names.index("ordinal")
        return cls(
            names=names,
            keys=names[names.index("key_group") + 1 : start],
            windows=names[start:end],
            results=tuple(field.name for field in schema.field("new").type.fields),
        )

    def order(self, moment: str) -> str:
        """SQL for the order of changes: by `moment`, by key, and by what tells changes of one key apart."""
        names = [*self.keys, *self.windows, "timestamp", "firing", "ordinal", "op"]
        return ", ".join(f"{column} NULLS LAST" for column in (moment, *map(quoted, names)))


def _first(a: pa.Table, b: pa.Table, order: str, bound: int | None) -> pa.Table:
    limit = "" if bound is None else f"LIMIT {bound}"
    return query(f"SELECT * FROM a UNION ALL BY NAME SELECT * FROM b ORDER BY {order} {limit}", a=a, b=b)


_MOMENTS = ("window_start", "window_end")


class NotOnMain(UsageError):
    """A row of a branch beside main, which has published nothing. Facts: seq, branch."""


def changes_between(
    inspection: Inspection,
    earlier: LedgerRow,
    later: LedgerRow,
    *,
    purges: bool,
    limit: int | None,
    offset: int = 0,
) -> PublishedChanges:
    """The rows of `published` that differ as of two rows of main, in order of window and key: `limit` of them
    (None: all) after the first `offset`. `purges`: whether the trigger purges, so that firings of a window
    are published side by side. Raises NotOnMain: one of the rows is on another branch.
    """
    for row in (earlier, later):
        if row.branch != MAIN:
            raise NotOnMain(
                f"run {row.seq} is on the branch {row.branch} and has published nothing; compare main with "
                "that branch instead.",
                seq=row.seq,
                branch=row.branch,
            )
    keys, windows = inspection.key_columns(), inspection.window_columns()
    net = _net_changes([*keys, *windows], purges=purges, has_own_windows=len(windows) > len(_MOMENTS))
    seqs = [earlier.seq, later.seq]
    bound = "" if limit is None else f"LIMIT {limit} OFFSET {offset}"
    order = ", ".join(map(quoted, [*keys, *windows, "timestamp", "firing", "ordinal"]))
    with LineageViews.over(inspection, inspection.run(None)) as views:
        counts = views.query(
            f"SELECT op, CAST({_MOMENT} AS DATE) AS day, count(*) AS n FROM ({net}) GROUP BY ALL", seqs
        ).to_pylist()
        rows = python_rows(views.query(f"SELECT * FROM ({net}) ORDER BY {_MOMENT}, {order} {bound}", seqs))
    by_op = Counter[str]()
    for count in counts:
        by_op[count["op"]] += count["n"]
    new = inspection.tables["corrections"].schema.field("new").type
    return PublishedChanges(
        counts=by_op,
        days=len({count["day"] for count in counts}),
        keys=tuple(keys),
        windows=tuple(windows),
        results=tuple(field.name for field in new.fields),
        rows=rows,
    )


def _net_changes(window: list[str], *, purges: bool, has_own_windows: bool) -> str:
    """SQL for a row for each row of `published` that the corrections between two seqs changed in the end."""
    slot = (
        "firing" if purges else "0" if has_own_windows else "CASE WHEN window_start IS NULL THEN firing END"
    )
    names = ", ".join(map(quoted, window))
    return f"""
        SELECT * EXCLUDE (__slot),
            CASE WHEN old IS NULL THEN 'insert' WHEN new IS NULL THEN 'withdraw' ELSE 'update' END AS op
        FROM (
            SELECT {names}, timestamp, ordinal, {slot} AS __slot,
                arg_min(struct_pack(old := old), seq).old AS old,
                arg_max(struct_pack(new := new), seq).new AS new,
                arg_max(kind, seq) AS kind, arg_max(firing, seq) AS firing, arg_max(cause, seq) AS cause,
                count(*) AS changes
            FROM corrections WHERE seq > ? AND seq <= ? GROUP BY {names}, timestamp, ordinal, __slot
        )
        WHERE old IS DISTINCT FROM new
    """
