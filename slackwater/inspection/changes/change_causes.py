"""Works out what caused changes of published rows, from the panes and the late rows of their windows.

The panes say which run emitted the row before and after, how many elements the window held then and which
arrival made it fire; `late_events` has the rows that one of two runs has dropped and the other has taken:

    run 2, late            18 → 19    panes of runs 1 and 2: 18 elements, then 19, by a row that came at 09:31
    row 7, restatement     19 → 21    run 5 instead of run 2: two late rows of run 2 that run 5 has taken

Reads no source.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from slackwater.inspection.change_text import are_equal
from slackwater.inspection.changes.published_change import (
    CORRECTION_COLUMNS,
    Emission,
    MovedRow,
    PublishedChange,
    without,
)
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.sql import quoted

# So many panes and late rows around the shown changes are looked at.
_PANES = 20_000
_LATE_ROWS = 10_000
# Of the rows that have caused a change, so many are kept.
ROWS_KEPT = 20
_EMISSION_COLUMNS = ("firing", "kind", "elements", "watermark", "tick_end", "cause_arrival")
_LATE_COLUMNS = frozenset(
    {"run_id", "key_group", "event_time", "arrival_time", "windows", "late_by_ms", "watermark"}
)
_SEQ = "__seq"  # of the run of a pane or late row, whose other columns may have any name


class ChangeCauses:
    """Works out what caused some corrections of one key, at least one. `key_condition`: SQL and its
    parameters.
    """

    def __init__(
        self,
        views: LineageViews,
        key_condition: tuple[list[str], list[Any]],
        corrections: Sequence[Mapping[str, Any]],
    ) -> None:
        self.views, self.inspection, self.corrections = views, views.inspection, corrections
        self.key_condition = key_condition
        self.keys, self.windows = self.inspection.key_columns(), self.inspection.window_columns()
        self.ledger = self.inspection.tables.ledger
        seqs = [row["seq"] for row in corrections]
        self.rows = {row.seq: row for row in self.ledger.rows(min(seqs) - 1, max(seqs))}

    def changes(self) -> Iterator[PublishedChange]:
        for row in self.corrections:
            change = PublishedChange(
                brought_by=self.rows[row["seq"]],
                key={name: row[name] for name in self.keys},
                window={name: row[name] for name in self.windows},
                **{name: row[name] for name in CORRECTION_COLUMNS},
            )
            yield self._with_cause(change)

    def _with_cause(self, change: PublishedChange) -> PublishedChange:
        live_after = seqs_of(change.brought_by.live)
        if change.is_of_a_run:
            live_before = tuple(seq for seq in live_after if seq != change.seq)
        else:
            parent = self._row(change.brought_by.parent_seq)
            live_before = () if parent is None else seqs_of(parent.live)
        before = self._emission(change, live_before, change.old) if change.old is not None else None
        after = self._emission(change, live_after, change.new)
        if change.is_of_a_run:
            absorbed_by = self._absorbing_window(change) if change.cause == "merge" else None
            return replace(
                change,
                before=before,
                after=after,
                absorbed_by=absorbed_by,
                late_arrivals=self._late_arrivals(change, before)[:ROWS_KEPT],
            )
        moved_rows = self._moved_rows(change, set(live_before), set(live_after))
        return replace(
            change,
            before=before,
            after=after,
            run_before=None if before is None else self._row(before.seq),
            run_after=None if after is None else self._row(after.seq),
            moved_count=len(moved_rows),
            moved_rows=moved_rows[:ROWS_KEPT],
        )

    def _row(self, seq: int | None) -> LedgerRow | None:
        if seq is not None and seq not in self.rows:
            self.rows[seq] = self.ledger.row(seq)
        return None if seq is None else self.rows[seq]

    def _emission(
        self, change: PublishedChange, live: Sequence[int], values: Mapping[str, Any] | None
    ) -> Emission | None:
        """The newest pane of a change's row that one of the runs `live` emitted, in slice order, and among
        equals one with the results `values`: a purging trigger publishes its firings side by side.
        """
        places = {seq: place for place, seq in enumerate(live)}
        panes = [pane for pane in self._panes_of(change) if pane[_SEQ] in places]
        if not panes:
            return None
        pane = max(panes, key=lambda pane: (_has_values(pane, values), places[pane[_SEQ]], pane["firing"]))
        return Emission(seq=pane[_SEQ], **{name: pane[name] for name in _EMISSION_COLUMNS})

    def _panes_of(self, change: PublishedChange) -> list[dict[str, Any]]:
        panes = self._panes.get(_identity(change.window, change.timestamp), [])
        return [pane for pane in panes if pane["ordinal"] in (change.ordinal, None)]

    def _late_arrivals(self, change: PublishedChange, before: Emission | None) -> list[datetime]:
        """The arrivals at which the run made the window fire late, after the firing `before`."""
        arrivals = {
            pane["cause_arrival"]
            for pane in self._panes_of(change)
            if pane[_SEQ] == change.seq
            and pane["kind"] == "late"
            and pane["cause_arrival"] is not None
            and (before is None or pane["firing"] > before.firing)
        }
        return sorted(arrivals)

    def _absorbing_window(self, change: PublishedChange) -> Mapping[str, Any] | None:
        """The window that the run made from an absorbed one and others: the smallest that covers it."""
        start, end = change.window["window_start"], change.window["window_end"]
        covering = [
            panes[0]
            for panes in self._panes.values()
            if any(pane[_SEQ] == change.seq for pane in panes)
            and panes[0]["window_start"] is not None
            and panes[0]["window_start"] <= start
            and panes[0]["window_end"] >= end
            and (panes[0]["window_start"], panes[0]["window_end"]) != (start, end)
        ]
        if not covering:
            return None
        pane = min(covering, key=lambda pane: pane["window_end"] - pane["window_start"])
        return {name: pane[name] for name in self.windows}

    @cached_property
    def _panes(self) -> Mapping[tuple[Any, ...], list[dict[str, Any]]]:
        """The panes of the windows in question and of windows that overlap them, by window, each with the seq
        of its run. Panes of uncommitted runs are left out.
        """
        results = {name for row in self.corrections for name in (row["new"] or row["old"] or {})}
        results &= set(self.inspection.tables["panes"].schema.names)  # others are computed of these
        columns = ["run_id", *self.windows, "ordinal", "timestamp", *_EMISSION_COLUMNS, *sorted(results)]
        starts = [row["window_start"] for row in self.corrections]
        bounds = []
        if None not in starts:
            ends = (row["window_end"] for row in self.corrections)
            bounds = [("window_start <= ?", max(ends)), ("window_end >= ?", min(starts))]
        panes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self._rows("panes", columns, bounds, f"firing DESC LIMIT {_PANES}"):
            identity = _identity({name: row[name] for name in self.windows}, row["timestamp"])
            panes.setdefault(identity, []).append(row)
        return panes

    def _rows(
        self, view: str, columns: Sequence[str], bounds: Sequence[tuple[str, datetime]], order: str
    ) -> Iterator[dict[str, Any]]:
        """The rows of the key that committed runs have written, each with the seq of its run."""
        conditions, parameters = self.key_condition
        where = " AND ".join([*conditions, *(condition for condition, _ in bounds)]) or "true"
        names = ", ".join(map(quoted, columns)) or "*"
        rows = self.views.query(
            f"SELECT {names} FROM {view} WHERE {where} ORDER BY {order}",
            [*parameters, *(bound for _, bound in bounds)],
        )
        seqs = self.ledger.seqs_by_run_id()
        return (row | {_SEQ: seqs[row["run_id"]]} for row in python_rows(rows) if row["run_id"] in seqs)

    def _moved_rows(
        self, change: PublishedChange, live_before: set[int], live_after: set[int]
    ) -> list[MovedRow]:
        """The late rows of the window that only the runs before, or only the runs after, have dropped."""
        rows = self._late_rows.get(_identity(change.window, None), [])
        before = [row for row in rows if row[_SEQ] in live_before - live_after]
        after = [row for row in rows if row[_SEQ] in live_after - live_before]
        return [
            *_as_moved_rows(without(before, after, _times), self.keys, is_taken=True),
            *_as_moved_rows(without(after, before, _times), self.keys, is_taken=False),
        ]

    @cached_property
    def _late_rows(self) -> Mapping[tuple[Any, ...], list[dict[str, Any]]]:
        """The late rows of the key by each window that they missed, with the seq of their run; within the
        time of the windows that ledger rows have changed.
        """
        windows = [row for row in self.corrections if self.rows[row["seq"]].kind not in RUN_KINDS]
        starts = [row["window_start"] for row in windows]
        bounds = []
        if windows and None not in starts and len(self.windows) == len(("window_start", "window_end")):
            last_end = max(row["window_end"] for row in windows)
            bounds = [("event_time >= ?", min(starts)), ("event_time < ?", last_end)]
        late_rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self._rows("late_events", (), bounds, f"arrival_time LIMIT {_LATE_ROWS}"):
            for window in row["windows"] or ():
                identity = (window["start"], window["end"], *(list(window.values())[2:]), None)
                late_rows.setdefault(identity, []).append(row)
        return late_rows


def _identity(window: Mapping[str, Any], timestamp: datetime | None) -> tuple[Any, ...]:
    """What tells the windows of a key apart; rows without a window differ by their timestamp."""
    return (*window.values(), timestamp)


def _has_values(pane: Mapping[str, Any], values: Mapping[str, Any] | None) -> bool:
    return values is not None and all(
        are_equal(pane[name], value) for name, value in values.items() if name in pane
    )


def _times(row: Mapping[str, Any]) -> tuple[datetime, datetime]:
    return row["event_time"], row["arrival_time"]


def _as_moved_rows(
    rows: Iterable[dict[str, Any]], keys: Sequence[str], *, is_taken: bool
) -> Iterator[MovedRow]:
    for row in rows:
        values = {name: value for name, value in row.items() if name not in (*_LATE_COLUMNS, *keys, _SEQ)}
        yield MovedRow(is_taken, *_times(row), values)
