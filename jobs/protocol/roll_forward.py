"""Carries committed runs from the ledger into `corrections` and `published`: the part of publishing that may die and be done again.

For each ledger row of main, in seq order, first `corrections`, then `published`, each in one Delta commit with the seq as its application
transaction. `published` follows from the corrections alone, so a death between the two is harmless.
"""

from collections.abc import Callable, Sequence
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
_SLOT = "__slot"

Step = Callable[[Folder, DeltaTable, LedgerRow, Transaction], None]


@dataclass(frozen=True)
class RollForward:
    """Rolls the tables of one pipeline forward.

    Attributes:
        tables: the pipeline's tables.
        shape: its columns.
        purging: whether its trigger purges: then every firing has rows of its own, else its rows replace those of the firing before it. In
            the global window they never do.
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
        results = self.shape.result_names
        window = [*self.shape.key_names, "window_start", "window_end"]
        identity = [*window, "ordinal", _SLOT]
        changed = [*results, "kind", "firing"]
        chosen = ", ".join(f"coalesce(new.{_name(name)}, old.{_name(name)}) AS {_name(name)}" for name in [*window, "ordinal", "timestamp"])
        query = f"""
            WITH newest AS (
                SELECT * FROM (SELECT *, {self._slot()} AS {_SLOT} FROM panes)
                QUALIFY firing = max(firing) OVER (PARTITION BY {_list([*window, _SLOT])})
            ),
            new AS (SELECT * FROM newest WHERE kind <> 'withdrawn'),
            touched AS (SELECT {_list([*window, _SLOT])}, max(kind) AS __kind, max(firing) AS __firing FROM newest GROUP BY ALL),
            old AS (
                SELECT before.*, touched.__kind, touched.__firing FROM (SELECT *, {self._slot()} AS {_SLOT} FROM published) before
                JOIN touched ON {_same([*window, _SLOT], "before", "touched")}
            )
            SELECT coalesce(new.key_group, old.key_group) AS key_group, {chosen},
                coalesce(new.kind, old.__kind) AS kind,
                coalesce(new.firing, old.__firing) AS firing,
                coalesce(old.revision, 0) + 1 AS revision,
                CASE WHEN new.kind IS NULL THEN 'withdraw' WHEN old.kind IS NULL THEN 'insert' ELSE 'update' END AS op,
                CASE coalesce(new.kind, old.__kind) WHEN 'withdrawn' THEN 'merge' WHEN 'late' THEN 'late' ELSE 'first' END AS cause,
                CASE WHEN old.kind IS NOT NULL THEN {_struct(results, "old")} END AS old,
                CASE WHEN new.kind IS NOT NULL THEN {_struct(results, "new")} END AS new
            FROM new FULL OUTER JOIN old ON {_same(identity, "new", "old")}
            WHERE new.kind IS NULL OR old.kind IS NULL OR NOT ({_same(changed, "new", "old")})
            ORDER BY {_list([*window, "firing", "ordinal"])}
        """
        corrections = _query(query, panes=panes, published=published)
        fixed = {"seq": row.seq, "run_id": row.run_id, "at": row.committed_at}
        for name, value in fixed.items():
            kind = self.tables["corrections"].schema.field(name).type
            corrections = corrections.append_column(name, pa.repeat(pa.scalar(value, kind), corrections.num_rows))
        return corrections.select(self.tables["corrections"].schema.names)

    def _slot(self) -> str:
        """SQL for what tells apart firings that stand side by side; firings of one slot replace each other."""
        return "firing" if self.purging else "CASE WHEN window_start IS NULL THEN firing ELSE 0 END"

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
        identity = [*self.shape.key_names, "window_start", "window_end", "ordinal", _SLOT]
        columns = [name for name in self.tables["published"].schema.names if name != "window_date"]
        taken = {name: f"new.{_name(name)}" for name in self.shape.result_names} | {"run_seq": "seq"}
        fresh = ", ".join(f"{taken.get(name, _name(name))} AS {_name(name)}" for name in columns)
        query = f"""
            WITH before AS (SELECT *, {self._slot()} AS {_SLOT} FROM published),
            named AS (SELECT *, {self._slot()} AS {_SLOT} FROM corrections)
            SELECT {_list(columns)} FROM before WHERE NOT EXISTS (SELECT 1 FROM named WHERE {_same(identity, "before", "named")})
            UNION ALL SELECT {fresh} FROM corrections WHERE op <> 'withdraw'
            ORDER BY {_list([name for name in [*identity, "firing"] if name != _SLOT])}
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


def _list(columns: Sequence[str]) -> str:
    return ", ".join(map(_name, columns))


def _same(columns: Sequence[str], a: str, b: str) -> str:
    """SQL for equality of two rows, null to null."""
    return " AND ".join(f"{a}.{_name(name)} IS NOT DISTINCT FROM {b}.{_name(name)}" for name in columns)


def _struct(columns: Sequence[str], table: str) -> str:
    return "struct_pack(" + ", ".join(f"{_name(name)} := {table}.{_name(name)}" for name in columns) + ")"


def _days(starts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The UTC day of each window start; null for the global window."""
    return starts.cast(pa.timestamp("us")).cast(pa.date32())


def _dates(starts: pa.ChunkedArray) -> set[date | None]:
    return set(_days(starts).unique().to_pylist())
