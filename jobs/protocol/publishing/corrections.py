"""Corrections: the difference between `published` and what the live panes say now, one row per result
inserted, updated or withdrawn; and `published` with such a difference applied.

`panes` is a log of the firings of all runs, live or not. `published` holds the newest live firing of each
window:

    panes                      live runs, by slice   published
    run 1: [0, 10) fires 5     1                     5
    run 2: [0, 10) refires 7   1 2                   7
    run 4: [0, 10) refires 9   1 4 (2 is restated)   9, by the correction "update 7 -> 9"

A ledger row moves the windows of the runs that enter or leave the live set, and no others. Of each of them
the newest live firing is chosen (by the position of its run, within the run by its number), and its rows
are joined with the published ones:

    the firing has the row | the row is published | correction
    yes                    | no                   | insert
    yes                    | yes, and differs     | update
    yes                    | yes, and is equal    | none
    no                     | yes                  | withdraw

`Identity` says which rows replace each other. Firings of a purging trigger stand side by side, as do those
in the global window: the number of the firing is then part of a row's identity. Rows of a process function
have no windows and are compared as a bag for each key and timestamp.

Arrow tables in, Arrow tables out: nothing here reads a table or knows the ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.tables.schemas import Shape, table_columns
from slackwater.jobs.tables.sql import query

_SLOT = "__slot"
_COPY = "__copy"
_NUMBER = "__number"
# Of a pane: the position of its run among the live ones. Which firing of a window is the newest is decided by
# it, and by the firing's number only within a run: a number tells nothing across runs, where a window may
# have begun again at 1.
RUN = "__run"
# Of the row that a correction withdraws or changes: seq of the correction before; null for an insert.
BEFORE = "__before"
# SQL for the kind of a firing. One without rows that had elements counts as what it would have been with
# some; without elements its window was absorbed by another.
_FIRED_AS = """CASE WHEN coalesce(new.kind, old.__kind) = 'withdrawn' AND old.__has_elements
    THEN CASE WHEN old.__late THEN 'late' ELSE 'on_time' END ELSE coalesce(new.kind, old.__kind) END"""


class Identity(Enum):
    """Which rows of firings stand side by side, and which replace each other."""

    WINDOW = "a firing replaces the one before of its window; in the global window firings stand side by side"
    FIRING = "each firing has rows of its own: the trigger purges"
    RUN = "each row that a run emits stands for itself: a process function without windows"


@dataclass(frozen=True)
class Publication:
    """How panes become `published` and `corrections` of a pipeline.

    Attributes:
        shape: the pipeline's columns.
        identity: what replaces what.
    """

    shape: Shape
    identity: Identity

    def changes(self, log: pa.Table, moved: pa.Table, published: pa.Table, cause: str | None) -> pa.Table:
        """The corrections of one ledger row: one for each row of `published` inserted, updated or withdrawn.

        Args:
            log: live panes, all that may decide about what `moved` names; more does no harm. The column `RUN`
                orders their runs by slice; of a run that continues what is live, its own panes are all,
                because they come last.
            moved: panes of the runs that enter or leave the live set.
            published: rows as of the ledger row before, all of what `moved` names.
            cause: of every correction; None: as the firing says (first, late or merge).

        Returns:
            Columns of `corrections` without seq, run_id and at, and with `BEFORE`.
        """
        sql = (
            self._changes_of_runs(cause) if self.identity is Identity.RUN else self._changes_of_windows(cause)
        )
        return query(sql, log=log, moved=moved, published=published)

    def inserts(self, panes: pa.Table, cause: str | None) -> pa.Table:
        """As `changes`, of one run's `panes` where none of their windows is published: what stands in the end
        is inserted.

        Args:
            panes: with at least the columns `of_inserts`; of each window all or none.
        """
        is_withdrawn = pc.equal(panes.column("kind"), "withdrawn")
        if self.identity is Identity.WINDOW:
            is_withdrawn = pc.or_(is_withdrawn, self._superseded(panes))
        rows = panes.filter(pc.invert(is_withdrawn)) if pc.any(is_withdrawn).as_py() else panes
        count, kind = rows.num_rows, rows.column("kind")
        results = [rows.column(name).combine_chunks() for name in self.shape.result_names]
        new = pa.StructArray.from_arrays(results, fields=[pa.field(*result) for result in self.shape.results])
        is_late = pc.equal(kind, "late").combine_chunks().cast(pa.int32())
        why = (
            pa.DictionaryArray.from_arrays(is_late, ["first", "late"])
            if cause is None
            else repeated(cause, count)
        )
        return pa.table(
            {
                name: rows.column(name)
                for name in ("key_group", *self._window, "ordinal", "timestamp", "kind", "firing")
            }
            | {"revision": pa.repeat(pa.scalar(1), count), "op": repeated("insert", count), "cause": why}
            | {"old": pa.nulls(count, new.type), "new": new, BEFORE: pa.nulls(count, pa.int64())}
        )

    @property
    def of_inserts(self) -> list[str]:
        """The columns of panes that `inserts` needs."""
        return [
            "key_group",
            *self._window,
            "firing",
            "ordinal",
            "timestamp",
            "kind",
            *self.shape.result_names,
        ]

    def _superseded(self, panes: pa.Table) -> pa.Array:
        """For each row, whether its window has fired again. Only windows that have more than a first firing
        need a look.
        """
        several = pc.and_(pc.greater(panes.column("firing"), 1), pc.is_valid(panes.column("window_start")))
        if not pc.any(several).as_py():
            return pa.repeat(pa.scalar(False), panes.num_rows)
        windows = panes.select([*self._window, "firing"])
        refired_panes = _numbered(windows).filter(self.among(windows, windows.filter(several)))
        older_firings = (
            f"SELECT {_NUMBER} FROM (SELECT *, 0 AS {RUN} FROM refired) "
            f"QUALIFY NOT {_is_newest(self._window)}"
        )
        return _marked(query(older_firings, refired=refired_panes), panes.num_rows)

    def among(self, rows: pa.Table, windows: pa.Table) -> pa.Array:
        """For each of `rows`, whether `windows` has a row of its window (of a process function: of its key
        and timestamp).
        """
        names = [*self._window, "timestamp"] if self.identity is Identity.RUN else self._window
        sql = f"SELECT rows.{_NUMBER} FROM rows SEMI JOIN windows ON {_same(names, 'rows', 'windows')}"
        positions = query(sql, rows=_numbered(rows.select(names)), windows=windows.select(names))
        return _marked(positions, rows.num_rows)

    def fresh(self, corrections: pa.Table) -> pa.Table:
        """Rows of `published` that the corrections of one ledger row bring, which are all that they do where
        they only insert.
        """
        is_withdrawn = pc.equal(corrections.column("op"), "withdraw")
        rows = corrections.filter(pc.invert(is_withdrawn)) if pc.any(is_withdrawn).as_py() else corrections
        new = rows.column("new")
        values = {name: pc.struct_field(new, name) for name in self.shape.result_names}
        values |= {"run_seq": rows.column("seq"), "window_date": days_of(rows)}
        return pa.table(
            {name: values[name] if name in values else rows.column(name) for name in self.columns}
        )

    def apply(self, corrections: pa.Table, published: pa.Table, names: pa.Table) -> pa.Table:
        """`published` with the corrections of one ledger row applied; what they don't name stays.

        Args:
            names: (run_id, seq) of the ledger rows that withdrawn rows of process functions came from.
        """
        replaced = corrections.filter(pc.not_equal(corrections.column("op"), "insert"))
        if replaced.num_rows:
            names_of = [*self._window, "timestamp", "ordinal", "firing"]
            sql = f"""
                WITH before AS (SELECT *, {self._slot("run_seq")} AS {_SLOT} FROM published),
                named AS (
                    SELECT replaced.*, {self._slot("names.seq")} AS {_SLOT}
                    FROM replaced LEFT JOIN names USING (run_id)
                )
                SELECT before.{_NUMBER} FROM before
                SEMI JOIN named ON {_same(self._identity, "before", "named")}
            """
            positions = query(
                sql,
                published=_numbered(published.select([*names_of, "run_seq"])),
                replaced=replaced.select([*names_of, "run_id"]),
                names=names,
            )
            published = published.filter(pc.invert(_marked(positions, published.num_rows)))
        return pa.concat_tables([published, self.fresh(corrections).cast(published.schema)])

    def rebuilt(self, corrections: pa.Table, published: pa.Table, names: pa.Table) -> pa.Table:
        """`published` as its corrections make it, each row once; a row that no correction is about stays.

        Args:
            corrections: all that there are of the keys of `published`, of any ledger rows.
            names: as of `apply`.
        """
        identity = _list(self._identity)
        slot = self._slot("CASE op WHEN 'insert' THEN corrections.seq ELSE names.seq END")
        with_slots = (
            f"SELECT corrections.*, {slot} AS {_SLOT} FROM corrections LEFT JOIN names USING (run_id)"
        )
        newest = f"""
            SELECT {_NUMBER} FROM ({with_slots})
            QUALIFY row_number() OVER (PARTITION BY {identity} ORDER BY seq DESC) = 1
        """
        uncorrected = f"""
            SELECT {_NUMBER} FROM (SELECT *, {self._slot("run_seq")} AS {_SLOT} FROM published) standing
            ANTI JOIN ({with_slots}) corrected ON {_same(self._identity, "standing", "corrected")}
            QUALIFY row_number() OVER (PARTITION BY {identity}) = 1
        """
        columns = [*self._window, "timestamp", "ordinal", "firing"]
        tables = {
            "names": names,
            "corrections": _numbered(corrections.select([*columns, "seq", "run_id", "op"])),
        }
        newest_corrections = corrections.filter(_marked(query(newest, **tables), corrections.num_rows))
        positions = query(uncorrected, published=_numbered(published.select([*columns, "run_seq"])), **tables)
        as_it_was = published.filter(_marked(positions, published.num_rows))
        return pa.concat_tables([as_it_was, self.fresh(newest_corrections).cast(published.schema)])

    def identity_of(self, rows: pa.Table, run: str) -> pa.Table:
        """What tells rows of `published` or `corrections` apart. The column `run` says of which run a row of
        a process function is.
        """
        columns = {name: rows.column(name) for name in self._identity if name != _SLOT}
        if self.identity is Identity.RUN:
            return pa.table({**columns, _SLOT: rows.column(run)})
        firing = rows.column("firing")
        if self.identity is Identity.WINDOW:
            firing = pc.if_else(pc.is_null(rows.column("window_start")), firing, pa.scalar(0, firing.type))
        return pa.table({**columns, _SLOT: firing})

    @property
    def columns(self) -> list[str]:
        """Those of `published`."""
        return [name for name, _ in table_columns(self.shape)["published"]]

    @property
    def _window(self) -> list[str]:
        return [*self.shape.key_names, "window_start", "window_end"]

    @property
    def _identity(self) -> list[str]:
        return (
            [*self._window, "timestamp", "ordinal", _SLOT]
            if self.identity is Identity.RUN
            else [*self._window, "ordinal", _SLOT]
        )

    def _slot(self, run: str) -> str:
        """SQL for what tells apart rows that stand side by side; rows of one slot replace each other."""
        if self.identity is Identity.RUN:
            return run
        return (
            "firing"
            if self.identity is Identity.FIRING
            else "CASE WHEN window_start IS NULL THEN firing ELSE 0 END"
        )

    def _changes_of_windows(self, cause: str | None) -> str:
        """SQL: of each window (and slot) that moved the newest live firing against what is published."""
        results, window, slot = self.shape.result_names, self._window, self._slot("")
        compared = [*results, "kind", "firing"]
        identifying = ", ".join(
            f"coalesce(new.{_name(name)}, old.{_name(name)}) AS {_name(name)}"
            for name in [*window, "ordinal", "timestamp"]
        )
        return f"""
            WITH touched AS (SELECT DISTINCT {_list(window)}, {slot} AS {_SLOT} FROM moved),
            newest AS (
                SELECT standing.* FROM (SELECT *, {slot} AS {_SLOT} FROM log) standing
                SEMI JOIN touched ON {_same([*window, _SLOT], "standing", "touched")}
                QUALIFY {_is_newest([*window, _SLOT])}
            ),
            new AS (SELECT * FROM newest WHERE kind <> 'withdrawn'),
            latest AS (SELECT {_list([*window, _SLOT])}, max(kind) AS __kind, max(firing) AS __firing,
                bool_or(cause_arrival IS NOT NULL
                    AND watermark >= window_end - INTERVAL 1 MILLISECOND) AS __late,
                coalesce(max(elements) > 0, false) AS __has_elements
                FROM newest GROUP BY ALL),
            old AS (
                SELECT before.*, latest.* EXCLUDE ({_list([*window, _SLOT])})
                    FROM (SELECT *, {slot} AS {_SLOT} FROM published) before
                SEMI JOIN touched ON {_same([*window, _SLOT], "before", "touched")}
                LEFT JOIN latest ON {_same([*window, _SLOT], "before", "latest")}
            )
            SELECT coalesce(new.key_group, old.key_group) AS key_group, {identifying},
                coalesce(new.kind, old.__kind, old.kind) AS kind,
                coalesce(new.firing, old.__firing, old.firing) AS firing,
                coalesce(old.revision, 0) + 1 AS revision,
                CASE WHEN new.kind IS NULL THEN 'withdraw' WHEN old.kind IS NULL THEN 'insert' ELSE 'update'
                    END AS op,
                {_cause(cause, _FIRED_AS)} AS cause,
                CASE WHEN old.kind IS NOT NULL THEN {_struct(results, "old")} END AS old,
                CASE WHEN new.kind IS NOT NULL THEN {_struct(results, "new")} END AS new,
                old.run_seq AS {BEFORE}
            FROM new FULL OUTER JOIN old ON {_same([*window, "ordinal", _SLOT], "new", "old")}
            WHERE new.kind IS NULL OR old.kind IS NULL OR NOT ({_same(compared, "new", "old")})
            ORDER BY {_list([*window, "firing", "ordinal"])}
        """

    def _changes_of_runs(self, cause: str | None) -> str:
        """SQL: of each (key, timestamp) that moved the rows that live runs emitted against what is published.
        Equal rows stay as they are, whichever run emitted them; several runs that enter at once count their
        new rows through."""
        results, window = self.shape.result_names, self._window
        element = [*window, "timestamp"]
        equal = [*element, "kind", "firing", *results]
        return f"""
            WITH touched AS (SELECT DISTINCT {_list(element)} FROM moved),
            wanted AS (
                SELECT standing.*,
                    row_number() OVER (PARTITION BY {_list(equal)} ORDER BY {RUN}, ordinal) AS {_COPY}
                FROM log standing SEMI JOIN touched ON {_same(element, "standing", "touched")}
            ),
            there AS (
                SELECT before.*,
                    row_number() OVER (PARTITION BY {_list(equal)} ORDER BY run_seq, ordinal) AS {_COPY}
                FROM published before SEMI JOIN touched ON {_same(element, "before", "touched")}
            ),
            added AS (SELECT * FROM wanted ANTI JOIN there ON {_same([*equal, _COPY], "wanted", "there")}),
            numbered AS (
                SELECT *, {RUN} <> min({RUN}) OVER (PARTITION BY {_list(element)}) AS __of_several,
                    row_number() OVER (PARTITION BY {_list(element)} ORDER BY {RUN}, ordinal) - 1 AS __number
                FROM added
            ),
            gone AS (SELECT * FROM there ANTI JOIN wanted ON {_same([*equal, _COPY], "there", "wanted")})
            SELECT key_group, {_list(window)},
                CASE WHEN bool_or(__of_several) OVER (PARTITION BY {_list(element)}) THEN __number
                    ELSE ordinal END AS ordinal,
                timestamp, kind, firing, 1 AS revision, 'insert' AS op, {_cause(cause, "kind")} AS cause,
                NULL AS old, {_struct(results, "numbered")} AS new, NULL AS {BEFORE}
            FROM numbered
            UNION ALL BY NAME
            SELECT key_group, {_list([*window, "ordinal", "timestamp", "kind", "firing"])},
                revision + 1 AS revision, 'withdraw' AS op,
                {_cause(cause, "kind")} AS cause, {_struct(results, "gone")} AS old, run_seq AS {BEFORE}
            FROM gone
            ORDER BY {_list([*element, "op", "ordinal"])}
        """


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(_NUMBER, pa.array(np.arange(rows.num_rows)))


def _marked(numbers: pa.Table, count: int) -> pa.Array:
    """For each of `count` rows, whether its number is there."""
    mask = np.zeros(count, bool)
    mask[numbers.column(_NUMBER).to_numpy()] = True
    return pa.array(mask)


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """The same text in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [text])


def _cause(given: str | None, kind: str) -> str:
    """SQL for the cause of a correction: the given one, else by the kind of the firing."""
    return (
        f"'{given}'"
        if given is not None
        else f"CASE {kind} WHEN 'withdrawn' THEN 'merge' WHEN 'late' THEN 'late' ELSE 'first' END"
    )


def days_of(rows: pa.Table) -> pa.ChunkedArray:
    """The UTC day of each row, its partition in `published`: of its window's start, else of its timestamp;
    null in the global window.
    """
    starts = pc.coalesce(rows.column("window_start"), rows.column("timestamp"))
    return starts.cast(pa.timestamp("us")).cast(pa.date32())


def dates_of(rows: pa.Table) -> set[date | None]:
    """The days of `rows`, each once."""
    return set(days_of(rows).unique().to_pylist())


def _is_newest(window: Sequence[str]) -> str:
    """SQL for whether a pane is of the newest firing among those that are equal in `window`."""
    return f"(rank() OVER (PARTITION BY {_list(window)} ORDER BY {RUN} DESC, firing DESC) = 1)"


def _name(column: str) -> str:
    return f'"{column}"'


def _list(columns: Sequence[str]) -> str:
    return ", ".join(map(_name, columns))


def _same(columns: Sequence[str], a: str, b: str) -> str:
    """SQL for equality of two rows, null to null."""
    return " AND ".join(f"{a}.{_name(name)} IS NOT DISTINCT FROM {b}.{_name(name)}" for name in columns)


def _struct(columns: Sequence[str], table: str) -> str:
    return "struct_pack(" + ", ".join(f"{_name(name)} := {table}.{_name(name)}" for name in columns) + ")"
