"""Corrections: the difference between `published` and the newest firings in the live panes, one row for each
result that is inserted, updated or withdrawn; and `published` with such a difference applied.

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

`Identity` says which rows replace each other. Firings of a purging trigger stay side by side, as do those
in the global window: the number of the firing is then part of a row's identity. Rows of a process function
have no windows and are compared as a bag for each key and timestamp.

Arrow tables in, Arrow tables out: nothing here reads a table or knows the ledger. `correction_sql` has the
queries.
"""

from dataclasses import dataclass, field
from datetime import date
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.runs.publishing.correction_sql import (
    BEFORE,
    RUN,
    SLOT,
    changes_of_runs,
    changes_of_windows,
    column_list,
    is_newest,
    is_same_row,
)
from slackwater.tables.arrow_values import is_text, repeat_text, repeat_value
from slackwater.tables.schemas import Shape, table_columns
from slackwater.tables.sql import query

# Of a row in a query: its position in the table that was handed in.
_NUMBER = "__number"


class Identity(Enum):
    """Which rows of firings replace each other in `published`, and which stay side by side. A window of a
    user's own class is never the global one.
    """

    WINDOW = "a firing replaces the one before of its window; in the global window firings stand side by side"
    FIRING = "each firing has rows of its own: the trigger purges"
    RUN = "each row that a run emits stands for itself: a process function without windows"


@dataclass(frozen=True)
class Publication:
    """Computes the rows of `corrections` and `published` of one pipeline from its panes in their published
    `form`. The results of `shape` are all that the pipeline has ever published; `identity` says which rows
    replace each other.
    """

    shape: Shape
    identity: Identity
    form: PublishedForm = field(default_factory=PublishedForm)

    def changes(
        self, log: pa.Table, touched_panes: pa.Table, published_rows: pa.Table, cause: str | None
    ) -> pa.Table:
        """The corrections of one ledger row, with the columns of `corrections` without seq, run_id and at,
        and with `BEFORE`.

        Args:
            log: the live panes of all windows of `touched_panes`; panes of other windows do no harm. The
                column `RUN` orders their runs by slice. Of a run that continues what is live, its own panes
                are enough, because they are the newest of their windows.
            touched_panes: panes of the runs that enter or leave the live set.
            published_rows: the rows of all windows of `touched_panes`, as of the ledger row before.
            cause: of every correction; None: by the firing (first, late or merge).
        """
        results = self.shape.result_names
        sql = (
            changes_of_runs(self._window, results, cause)
            if self.identity is Identity.RUN
            else changes_of_windows(self._window, results, self._slot(""), cause)
        )
        return query(sql, log=log, touched_panes=touched_panes, published=published_rows)

    def inserts(self, panes: pa.Table, cause: str | None) -> pa.Table:
        """The `changes` of one run none of whose windows is published: an insert of each row of the last
        firings. `panes` have at least `columns_of_inserts`, and of each window all rows or none.
        """
        is_withdrawn = is_text(panes.column("kind"), "withdrawn")
        if self.identity is Identity.WINDOW:
            is_withdrawn = pc.or_(is_withdrawn, self._is_superseded(panes))
        rows = panes.filter(pc.invert(is_withdrawn)) if pc.any(is_withdrawn).as_py() else panes
        count, kind = rows.num_rows, rows.column("kind")
        results = [rows.column(name).combine_chunks() for name in self.shape.result_names]
        new = pa.StructArray.from_arrays(results, fields=[pa.field(*result) for result in self.shape.results])
        is_late = is_text(kind, "late").combine_chunks().cast(pa.int32())
        why = (
            pa.DictionaryArray.from_arrays(is_late, ["first", "late"])
            if cause is None
            else repeat_text(cause, count)
        )
        return pa.table(
            {
                name: rows.column(name)
                for name in ("key_group", *self._window, "ordinal", "timestamp", "kind", "firing")
            }
            | {
                "revision": repeat_value(1, count, pa.int64()),
                "op": repeat_text("insert", count),
                "cause": why,
            }
            | {"old": pa.nulls(count, new.type), "new": new, BEFORE: pa.nulls(count, pa.int64())}
        )

    @property
    def columns_of_inserts(self) -> list[str]:
        results = self.shape.result_names
        return ["key_group", *self._window, "firing", "ordinal", "timestamp", "kind", *results]

    def _is_superseded(self, panes: pa.Table) -> pa.Array:
        """For each row, whether its window has fired again. Only windows with a second firing are queried."""
        is_refiring = pc.greater(panes.column("firing"), 1)
        if not self._replaces_without_start:
            is_refiring = pc.and_(is_refiring, pc.is_valid(panes.column("window_start")))
        if not pc.any(is_refiring).as_py():
            return pa.repeat(pa.scalar(False), panes.num_rows)
        windows = panes.select([*self._window, "firing"])
        refired_panes = _with_numbers(windows).filter(self.is_among(windows, windows.filter(is_refiring)))
        older_firings = (
            f"SELECT {_NUMBER} FROM (SELECT *, 0 AS {RUN} FROM refired) QUALIFY NOT {is_newest(self._window)}"
        )
        return _mask_of(query(older_firings, refired=refired_panes), panes.num_rows)

    def is_among(self, rows: pa.Table, windows: pa.Table) -> pa.Array:
        """For each of `rows`, whether `windows` has a row of the same window (of a process function: of the
        same key and timestamp).
        """
        names = [*self._window, "timestamp"] if self.identity is Identity.RUN else self._window
        sql = f"SELECT rows.{_NUMBER} FROM rows SEMI JOIN windows ON {is_same_row(names, 'rows', 'windows')}"
        positions = query(sql, rows=_with_numbers(rows.select(names)), windows=windows.select(names))
        return _mask_of(positions, rows.num_rows)

    def new_rows(self, corrections: pa.Table) -> pa.Table:
        """The rows that the inserts and updates among `corrections` bring into `published`."""
        is_withdrawn = is_text(corrections.column("op"), "withdraw")
        rows = corrections.filter(pc.invert(is_withdrawn)) if pc.any(is_withdrawn).as_py() else corrections
        new = rows.column("new")
        values = {name: pc.struct_field(new, name) for name in self.shape.result_names}
        values |= {"run_seq": rows.column("seq"), "window_date": days_of(rows)}
        return pa.table(
            {name: values[name] if name in values else rows.column(name) for name in self.columns}
        )

    def apply(self, corrections: pa.Table, published_rows: pa.Table, seqs_of_runs: pa.Table) -> pa.Table:
        """`published_rows` after the corrections of one ledger row, with all rows that these update or
        withdraw. `seqs_of_runs`: (run_id, seq) of the ledger rows from which withdrawn rows of process
        functions came.
        """
        replacing = corrections.filter(pc.not_equal(corrections.column("op"), "insert"))
        if replacing.num_rows:
            columns = [*self._window, "timestamp", "ordinal", "firing"]
            sql = f"""
                WITH before AS (SELECT *, {self._slot("run_seq")} AS {SLOT} FROM published),
                named AS (
                    SELECT replacing.*, {self._slot("seqs_of_runs.seq")} AS {SLOT}
                    FROM replacing LEFT JOIN seqs_of_runs USING (run_id)
                )
                SELECT before.{_NUMBER} FROM before
                SEMI JOIN named ON {is_same_row(self._identity, "before", "named")}
            """
            positions = query(
                sql,
                published=_with_numbers(published_rows.select([*columns, "run_seq"])),
                replacing=replacing.select([*columns, "run_id"]),
                seqs_of_runs=seqs_of_runs,
            )
            is_replaced = _mask_of(positions, published_rows.num_rows)
            published_rows = published_rows.filter(pc.invert(is_replaced))
        return pa.concat_tables([published_rows, self.new_rows(corrections).cast(published_rows.schema)])

    def rebuild(self, corrections: pa.Table, published_rows: pa.Table, seqs_of_runs: pa.Table) -> pa.Table:
        """`published_rows` made anew from all corrections of their keys, each row once; a row that no
        correction names stays. `published_rows` may have rows doubled or missing; `seqs_of_runs` as for
        `apply`.
        """
        identity = column_list(self._identity)
        slot = self._slot("CASE op WHEN 'insert' THEN corrections.seq ELSE seqs_of_runs.seq END")
        with_slots = (
            f"SELECT corrections.*, {slot} AS {SLOT} FROM corrections LEFT JOIN seqs_of_runs USING (run_id)"
        )
        newest = f"""
            SELECT {_NUMBER} FROM ({with_slots})
            QUALIFY row_number() OVER (PARTITION BY {identity} ORDER BY seq DESC) = 1
        """
        without_corrections = f"""
            SELECT {_NUMBER} FROM (SELECT *, {self._slot("run_seq")} AS {SLOT} FROM published) standing
            ANTI JOIN ({with_slots}) corrected ON {is_same_row(self._identity, "standing", "corrected")}
            QUALIFY row_number() OVER (PARTITION BY {identity}) = 1
        """
        columns = [*self._window, "timestamp", "ordinal", "firing"]
        tables = {
            "seqs_of_runs": seqs_of_runs,
            "corrections": _with_numbers(corrections.select([*columns, "seq", "run_id", "op"])),
        }
        newest_corrections = corrections.filter(_mask_of(query(newest, **tables), corrections.num_rows))
        numbered_rows = _with_numbers(published_rows.select([*columns, "run_seq"]))
        positions = query(without_corrections, published=numbered_rows, **tables)
        lasting_rows = published_rows.filter(_mask_of(positions, published_rows.num_rows))
        return pa.concat_tables([lasting_rows, self.new_rows(newest_corrections).cast(published_rows.schema)])

    def identity_of(self, rows: pa.Table, run: str) -> pa.Table:
        """The columns that identify a row of `published` or `corrections`. The column `run` names the run of
        a row that a process function emitted.
        """
        columns = {name: rows.column(name) for name in self._identity if name != SLOT}
        if self.identity is Identity.RUN:
            return pa.table({**columns, SLOT: rows.column(run)})
        firing = rows.column("firing")
        if self._replaces_without_start:
            firing = repeat_value(0, rows.num_rows, firing.type)
        elif self.identity is Identity.WINDOW:
            firing = pc.if_else(pc.is_null(rows.column("window_start")), firing, pa.scalar(0, firing.type))
        return pa.table({**columns, SLOT: firing})

    @property
    def columns(self) -> list[str]:
        return [name for name, _ in table_columns(self.shape)["published"]]

    @property
    def _window(self) -> list[str]:
        return [*self.shape.key_names, *self.shape.window_names]

    @property
    def _identity(self) -> list[str]:
        timestamp = ["timestamp"] if self.identity is Identity.RUN else []
        return [*self._window, *timestamp, "ordinal", SLOT]

    def _slot(self, run: str) -> str:
        """SQL for the slot of a row: rows of one slot replace each other, rows of several stay side by
        side. `run` is SQL for the seq of the run that emitted a row.
        """
        if self.identity is Identity.RUN:
            return run
        if self.identity is Identity.FIRING:
            return "firing"
        return (
            "0" if self._replaces_without_start else "CASE WHEN window_start IS NULL THEN firing ELSE 0 END"
        )

    @property
    def _replaces_without_start(self) -> bool:
        """Whether a window without a start is of a user's class, not the global window."""
        return self.identity is Identity.WINDOW and self.shape.windows is not None


def _with_numbers(rows: pa.Table) -> pa.Table:
    return rows.append_column(_NUMBER, pa.array(np.arange(rows.num_rows)))


def _mask_of(numbers: pa.Table, count: int) -> pa.Array:
    mask = np.zeros(count, bool)
    mask[numbers.column(_NUMBER).to_numpy()] = True
    return pa.array(mask)


def days_of(rows: pa.Table) -> pa.ChunkedArray:
    """The UTC day of each row, its partition in `published`: of its window's start, else of the window's last
    instant, else of its timestamp; null in the global window.
    """
    day = _only_day(rows)
    if day is not None:
        return pa.chunked_array([repeat_value(day, rows.num_rows, pa.date32())])
    return first_moments(rows).cast(pa.timestamp("us")).cast(pa.date32())


def _only_day(rows: pa.Table) -> date | None:
    """The day on which all windows start, found quickly; None for several, or windows without a start."""
    starts = rows.column("window_start")
    if not rows.num_rows or starts.null_count:
        return None
    bounds = pc.min_max(starts)
    first_day, last_day = (bounds[side].cast(pa.timestamp("us")).cast(pa.date32()) for side in bounds)
    return first_day.as_py() if first_day == last_day else None


def first_moments(rows: pa.Table) -> pa.ChunkedArray:
    last_instants = pc.subtract(rows.column("window_end"), pa.scalar(1000, pa.duration("us")))
    return pc.coalesce(rows.column("window_start"), last_instants, rows.column("timestamp"))


def dates_of(rows: pa.Table) -> set[date | None]:
    day = _only_day(rows)
    return set(days_of(rows).unique().to_pylist()) if day is None else {day}
