"""Carries committed runs from the ledger into `corrections` and `published`: the part of publishing that may die and be done again.

For each ledger row of main, in seq order, first `corrections`, then `published`, each in one Delta commit that carries the seq as application
transaction. `published` follows from the corrections alone, so a death between the two is harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from jobs.tables.delta import Folder
from jobs.tables.errors import CommitConflict
from jobs.tables.ledger import MAIN, LedgerRow
from jobs.tables.schemas import Shape
from jobs.tables.warehouse import Tables

APPLICATION = "slackwater"

Step = Callable[[Folder, DeltaTable, LedgerRow, Transaction], None]


@dataclass(frozen=True)
class RollForward:
    """Rolls the tables of one pipeline forward.

    Attributes:
        tables: the pipeline's tables.
        shape: its columns.
        purging: whether its trigger purges: then every firing is a row of its own, else a firing replaces the one before it.
    """

    tables: Tables
    shape: Shape
    purging: bool

    def pending(self) -> list[LedgerRow]:
        """Rows of main that `published` has not seen yet, oldest first."""
        done = _transaction(self.tables["published"].find())
        return [row for row in self.tables.ledger.rows(since=done) if row.branch == MAIN]

    def finish(self) -> list[LedgerRow]:
        """Do what is pending; returns the rows that were rolled forward. Several processes may do this at once: each step happens once."""
        rows = self.pending()
        for row in rows:
            self._once(self.tables["corrections"], row, self._correct)
            self._once(self.tables["published"], row, self._publish)
        return rows

    def _once(self, folder: Folder, row: LedgerRow, step: Step) -> None:
        while True:
            table = folder.ensure()
            if _transaction(table) >= row.seq:
                return
            try:
                step(folder, table, row, Transaction(APPLICATION, row.seq))
            except CommitConflict:
                continue
            if _transaction(folder.open()) < row.seq:
                raise AssertionError(f"{folder.uri}: the commit of run {row.seq} left no transaction")
            return

    def _correct(self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction) -> None:
        panes = self.tables["panes"].read(where=pc.field("run_id") == row.run_id)
        published = self._published_of(_dates(panes.column("window_start")))
        folder.append(self._corrections(panes, published, row).cast(folder.schema), expected=table, transaction=transaction)

    def _corrections(self, panes: pa.Table, published: pa.Table, row: LedgerRow) -> pa.Table:
        """What `row` changes in `published`: one correction for each row inserted, updated or withdrawn."""
        keys = self.shape.key_names
        results = self.shape.result_names
        window = [*keys, "window_start", "window_end"]
        identity = [*window, "ordinal", *(["firing"] if self.purging else [])]
        changed = [*results, "kind", "firing"]
        newest = "" if self.purging else f"QUALIFY firing = max(firing) OVER (PARTITION BY {_list(window)})"
        touched = [*window, *(["firing"] if self.purging else [])]

        def struct(side: str) -> str:
            return "struct_pack(" + ", ".join(f"{_name(name)} := {side}.{_name(name)}" for name in results) + ")"

        def same(names: list[str], a: str, b: str) -> str:
            return " AND ".join(f"{a}.{_name(name)} IS NOT DISTINCT FROM {b}.{_name(name)}" for name in names)

        chosen = ", ".join(f"coalesce(new.{_name(name)}, old.{_name(name)}) AS {_name(name)}" for name in window)
        query = f"""
            WITH newest AS (SELECT * FROM panes {newest}),
            new AS (SELECT * FROM newest WHERE kind <> 'withdrawn'),
            windows AS (SELECT {_list(touched)}, max(kind) AS kind, max(firing) AS last_firing FROM newest GROUP BY ALL),
            old AS (SELECT published.*, windows.kind AS cause_kind, windows.last_firing FROM published
                    JOIN windows ON {same(touched, "published", "windows")})
            SELECT coalesce(new.key_group, old.key_group) AS key_group, {chosen},
                coalesce(new.ordinal, old.ordinal) AS ordinal, coalesce(new.timestamp, old.timestamp) AS timestamp,
                CASE WHEN new.kind IS NULL THEN old.cause_kind ELSE new.kind END AS kind,
                CASE WHEN new.kind IS NULL THEN old.last_firing ELSE new.firing END AS firing,
                coalesce(old.revision, 0) + 1 AS revision,
                CASE WHEN new.kind IS NULL THEN 'withdraw' WHEN old.kind IS NULL THEN 'insert' ELSE 'update' END AS op,
                CASE coalesce(new.kind, old.cause_kind) WHEN 'withdrawn' THEN 'merge' WHEN 'late' THEN 'late' ELSE 'first' END AS cause,
                CASE WHEN old.kind IS NULL THEN NULL ELSE {struct("old")} END AS old,
                CASE WHEN new.kind IS NULL THEN NULL ELSE {struct("new")} END AS new
            FROM new FULL OUTER JOIN old ON {same(identity, "new", "old")}
            WHERE new.kind IS NULL OR old.kind IS NULL OR NOT ({same(changed, "new", "old")})
            ORDER BY {_list([*window, "firing", "ordinal"])}
        """
        corrections = _query(query, panes=panes, published=published)
        fixed = {"seq": row.seq, "run_id": row.run_id, "at": row.committed_at}
        for name, value in fixed.items():
            kind = self.tables["corrections"].schema.field(name).type
            corrections = corrections.append_column(name, pa.repeat(pa.scalar(value, kind), corrections.num_rows))
        return corrections.select(self.tables["corrections"].schema.names)

    def _publish(self, folder: Folder, table: DeltaTable, row: LedgerRow, transaction: Transaction) -> None:
        corrections = self.tables["corrections"].read(where=pc.field("seq") == row.seq)
        dates = _dates(corrections.column("window_start"))
        if not dates:
            folder.append(folder.schema.empty_table(), expected=table, transaction=transaction)
            return
        after = self._apply(corrections, self._published_of(dates))
        known = ", ".join(f"'{day}'" for day in sorted(day for day in dates if day is not None))
        where = [*([f"window_date IN ({known})"] if known else []), *(["window_date IS NULL"] if None in dates else [])]
        folder.replace(after.cast(folder.schema), " OR ".join(where), table, transaction)

    def _apply(self, corrections: pa.Table, published: pa.Table) -> pa.Table:
        """`published` with `corrections` applied; what they don't name stays."""
        identity = [*self.shape.key_names, "window_start", "window_end", "ordinal", *(["firing"] if self.purging else [])]
        alike = " AND ".join(f"p.{_name(name)} IS NOT DISTINCT FROM c.{_name(name)}" for name in identity)
        columns = [name for name in self.tables["published"].schema.names if name != "window_date"]
        taken = {name: f"new.{_name(name)}" for name in self.shape.result_names} | {"run_seq": "seq"}
        fresh = ", ".join(f"{taken.get(name, _name(name))} AS {_name(name)}" for name in columns)
        query = f"""
            SELECT {_list(columns)} FROM published p WHERE NOT EXISTS (SELECT 1 FROM corrections c WHERE {alike})
            UNION ALL SELECT {fresh} FROM corrections WHERE op <> 'withdraw'
            ORDER BY {_list([*identity, "firing"])}
        """
        rows = _query(query, corrections=corrections, published=published)
        return rows.append_column("window_date", _days(rows.column("window_start")))

    def _published_of(self, dates: set[date | None]) -> pa.Table:
        folder = self.tables["published"]
        if not dates:
            return folder.schema.empty_table()
        days = pa.array([day for day in dates if day is not None], pa.date32())
        where = pc.field("window_date").isin(days)
        return folder.read(where=where | pc.field("window_date").is_null() if None in dates else where)


def _transaction(table: DeltaTable | None) -> int:
    """The seq that a table has been rolled forward to; 0 for none."""
    return 0 if table is None else table.transaction_version(APPLICATION) or 0


def _query(query: str, **tables: pa.Table) -> pa.Table:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(query).to_arrow_table()


def _name(column: str) -> str:
    return f'"{column}"'


def _list(columns: list[str]) -> str:
    return ", ".join(map(_name, columns))


def _days(starts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The UTC day of each window start; null for the global window."""
    return starts.cast(pa.timestamp("us")).cast(pa.date32())


def _dates(starts: pa.ChunkedArray) -> set[date | None]:
    return set(_days(starts).unique().to_pylist())
