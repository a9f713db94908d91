"""The corrections that a ledger row brings, computed from panes and the rows of `published` as of the row
before.

A run that continues the live set decides about the windows of its own panes, which are their newest firings.
A row that changes the live set decides about the windows of all runs that enter or leave it, by the panes of
all live runs:

    live before   1  2  3       runs 2 and 3 leave, run 4 enters:
    live after    1  4          their windows are touched, and runs 1 and 4 have the panes that count

Both go portion by portion of the key groups, so that memory does not grow with a run, and portions may be the
work of several processes. Reads tables and writes none.

Files of `published` are chosen by the log's statistics. The day of a row is its partition, and of each file
the log has the bounds of key groups and of window starts: a window can be in it only if it lies between both.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.runs.publishing.correction_sql import RUN
from slackwater.runs.publishing.corrections import Identity, Publication, dates_of, days_of
from slackwater.runs.publishing.portions import KEY_GROUP, Portion
from slackwater.runs.publishing.uniqueness import PUBLISHED, Uniqueness
from slackwater.tables.arrow_values import repeat_value
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.ledger.lineage_rows import cause_of, is_rebuild
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow
from slackwater.tables.sql import query
from slackwater.tables.warehouse import Tables

_DAY = "partition.window_date"
# The columns that say where a window may be published.
WINDOW_PLACE = (KEY_GROUP, "window_start", "window_end", "timestamp")
# A log may cut a time to milliseconds.
_FILES_OF_WINDOWS = """
    SELECT DISTINCT number FROM files JOIN windows
    ON files.day IS NOT DISTINCT FROM windows.day
    AND coalesce(windows.key_group BETWEEN files.least_group AND files.greatest_group, true)
    AND (windows.without_start > 0 OR coalesce(windows.last_start >= files.least_start
        AND windows.first_start <= files.greatest_start + INTERVAL 999 MICROSECOND, true))
    ORDER BY number
"""


def files_of_days(files: StoredFiles, days: Collection[date | None]) -> StoredFiles:
    """The files of `published` with rows of `days`; None: rows without a window and a timestamp."""
    dates = sorted(day for day in days if day is not None)
    if None not in days and dates:
        files = files.within(Within("window_date", dates[0], dates[-1]))
    if not files.actions.num_rows:
        return files
    is_of_days = pc.is_in(files.actions.column(_DAY), value_set=pa.array(days, pa.date32()))
    return replace(files, actions=files.actions.filter(is_of_days))


def files_of_windows(files: StoredFiles, windows: pa.Table) -> StoredFiles:
    """The files of `published` that may hold rows of `windows`, panes or corrections with the columns
    `WINDOW_PLACE`. `files` are of the days of the windows, see `files_of_days`.
    """
    starts = windows.column("window_start")
    if windows.num_rows and not starts.null_count:
        files = files.within(*bounds_of_starts(least_and_greatest(starts)))
    if files.actions.num_rows < 1:
        return files
    places = pa.table(
        {"day": days_of(windows), "key_group": windows.column(KEY_GROUP), "start": starts}
    ).group_by(["day", "key_group"])
    nulls = pc.CountOptions(mode="only_null")
    places = places.aggregate([("start", "min"), ("start", "max"), ("start", "count", nulls)]).rename_columns(
        ["day", "key_group", "first_start", "last_start", "without_start"]
    )
    numbers = query(_FILES_OF_WINDOWS, files=_places_of_files(files.actions), windows=places)
    return replace(files, actions=files.actions.take(numbers.column("number")))


def _places_of_files(actions: pa.Table) -> pa.Table:
    columns = {
        "day": (_DAY, pa.date32()),
        "least_group": (f"min.{KEY_GROUP}", pa.int32()),
        "greatest_group": (f"max.{KEY_GROUP}", pa.int32()),
        "least_start": ("min.window_start", pa.timestamp("us", "UTC")),
        "greatest_start": ("max.window_start", pa.timestamp("us", "UTC")),
    }
    count = actions.num_rows
    return pa.table(
        {"number": pa.array(range(count), pa.int64())}
        | {
            name: actions.column(column).cast(kind)
            if column in actions.column_names
            else pa.nulls(count, kind)
            for name, (column, kind) in columns.items()
        }
    )


def bounds_of_starts(starts: list[datetime]) -> list[Within]:
    """The bounds of window starts for the log; none where there are no starts, as in the global window."""
    return [Within("window_start", min(starts), max(starts))] if starts else []


def least_and_greatest(column: pa.ChunkedArray) -> list[Any]:
    return [bound for bound in pc.min_max(column).as_py().values() if bound is not None]


@dataclass(frozen=True)
class PaneChanges:
    """Finds the corrections of ledger rows of one pipeline, about `portion_rows` rows at a time."""

    tables: Tables
    publication: Publication
    portion_rows: int

    def for_row(self, row: LedgerRow) -> "PortionedChanges":
        if row.kind in RUN_KINDS:
            return RunChanges(self._published_rows(), self._panes_of_run(row), cause_of(row))
        return self.for_lineage(row)

    def for_lineage(self, row: LedgerRow) -> "LineageChanges":
        """The corrections of a row that changes the live set: a publish, a restore, or a rebuild. A rebuild
        changes no live run, and touches the windows of all.
        """
        ledger = self.tables.ledger
        assert row.parent_seq is not None
        before, after = (
            ledger.live_runs(of).column("run_id").combine_chunks() for of in (ledger.row(row.parent_seq), row)
        )
        if is_rebuild(row):
            before = before.slice(0, 0)
        is_staying = pc.is_in(after, value_set=before)
        is_leaving = pc.invert(pc.is_in(before, value_set=after))
        return LineageChanges(
            self._published_rows(),
            entering=self._panes_of(after.filter(pc.invert(is_staying))),
            leaving=self._panes_of(before.filter(is_leaving)),
            staying=self._panes_of(after.filter(is_staying)),
            live_run_ids=after,
            cause=cause_of(row),
        )

    def _panes_of_run(self, row: LedgerRow) -> "_Panes":
        """The panes of one run: of its own process as of a version that it knows, which has all its files."""
        run_ids = pa.array([row.run_id], pa.string())
        folder = self.tables["panes"]
        known_files = folder.files(Within.only("run_id", row.run_id), table=folder.newest_known())
        if "panes" not in row.files or not set(row.files["panes"]) <= set(known_files.paths):
            return self._panes_of(run_ids)
        return _Panes(replace(known_files, dictionary_columns=("kind",)), run_ids, self.publication)

    def _panes_of(self, run_ids: pa.Array) -> "_Panes":
        bounds = pc.min_max(run_ids).as_py()
        within = Within("run_id", bounds["min"] or "", bounds["max"] or "")
        files = replace(self.tables["panes"].files(within), dictionary_columns=("kind",))
        return _Panes(files, run_ids, self.publication)

    def _published_rows(self) -> "_PublishedRows":
        uniqueness = Uniqueness(self.tables, self.publication, self.portion_rows)
        published = self.tables[PUBLISHED]
        return _PublishedRows(published.files(table=published.newest_known()), uniqueness)


@dataclass(frozen=True)
class RunChanges:
    """The corrections of a run that continues the live set. Its panes are the newest of their windows.

    Rows of process functions are only inserted. So are rows of the global window, which has no day: it is
    never collected, so its firings are numbered through, and stay side by side.
    """

    published: "_PublishedRows"
    panes: "_Panes"
    cause: str | None

    @property
    def portions(self) -> list[Portion]:
        return self.published.portions(self.panes.files)

    def of(self, portion: Portion) -> Iterator[pa.Table]:
        publication = self.published.publication
        rows = self.panes.read(portion, publication.columns_of_inserts)
        if (
            publication.identity is not Identity.RUN
            and (published_rows := self.published.for_panes(rows, portion, self._days_of(rows))).num_rows
        ):
            refired_panes = self.panes.read(portion)
            refired_panes = refired_panes.filter(publication.is_among(refired_panes, published_rows))
            yield publication.changes(refired_panes, refired_panes, published_rows, self.cause)
            rows = rows.filter(pc.invert(publication.is_among(rows, published_rows)))
        yield publication.inserts(rows, self.cause)

    def _days_of(self, panes: pa.Table) -> set[date | None]:
        """The days on which rows that `panes` replace may be published."""
        days = dates_of(panes)
        return days if self.published.publication.shape.windows is not None else days - {None}


@dataclass(frozen=True)
class LineageChanges:
    """The corrections of a row that changes the live set: panes of entering, leaving and staying runs against
    the published rows. `live_run_ids` is the live set afterwards, in slice order.
    """

    published: "_PublishedRows"
    entering: "_Panes"
    leaving: "_Panes"
    staying: "_Panes"
    live_run_ids: pa.Array
    cause: str | None

    @property
    def portions(self) -> list[Portion]:
        return self.published.portions(self.entering.files, self.leaving.files)

    def of(self, portion: Portion) -> Iterator[pa.Table]:
        entering_panes = self.entering.read(portion)
        touched_panes = pa.concat_tables([entering_panes, self.leaving.read(portion)])
        log = pa.concat_tables([entering_panes, self._staying_among(portion, touched_panes)])
        order = pc.index_in(log.column("run_id"), value_set=self.live_run_ids).cast(pa.int64())
        log = log.set_column(log.schema.get_field_index(RUN), RUN, order)
        published_rows = self.published.for_panes(touched_panes, portion, dates_of(touched_panes))
        yield self.published.publication.changes(log, touched_panes, published_rows, self.cause)

    def _staying_among(self, portion: Portion, touched_panes: pa.Table) -> pa.Table:
        publication = self.published.publication
        where = _is_within("window_start", touched_panes) | _is_within("timestamp", touched_panes)
        starts, staying = touched_panes.column("window_start"), self.staying
        if publication.shape.windows is not None and starts.null_count:
            where |= pc.field("window_start").is_null()
        if not starts.null_count:
            bounds = bounds_of_starts(least_and_greatest(starts))
            staying = replace(staying, files=staying.files.within(*bounds))
        parts = [
            part.filter(publication.is_among(part, touched_panes))
            for part in staying.scan(portion, where, self.published.portion_rows)
        ]
        return pa.concat_tables([staying.empty(), *parts])


# The corrections of one ledger row. They go to tasks, so they hold lists of files and no open table.
PortionedChanges: TypeAlias = RunChanges | LineageChanges


def parts_of(changes: PortionedChanges) -> Iterator[pa.Table]:
    """All corrections of a ledger row, portion by portion."""
    for portion in changes.portions:
        yield from changes.of(portion)


@dataclass(frozen=True)
class _PublishedRows:
    """The rows of `published`, as of the ledger row before."""

    files: StoredFiles
    uniqueness: Uniqueness

    @property
    def publication(self) -> Publication:
        return self.uniqueness.publication

    @property
    def portion_rows(self) -> int:
        return self.uniqueness.portion_rows

    def portions(self, *files: StoredFiles) -> list[Portion]:
        return self.uniqueness.portions(*(item.actions for item in files))

    def for_panes(self, panes: pa.Table, portion: Portion, days: set[date | None]) -> pa.Table:
        """The rows on `days` that are of the windows of `panes`, all in `portion`."""
        where = portion.where & (_is_within("window_start", panes) | pc.field("window_start").is_null())
        files = files_of_windows(files_of_days(self.files, days), panes)
        parts = (
            part.filter(self.publication.is_among(part, panes))
            for part in files.scan(self.files.schema.names, where, self.portion_rows)
        )
        published_rows = pa.concat_tables([self.files.schema.empty_table(), *parts])
        self.uniqueness.require_once(PUBLISHED, published_rows)
        return published_rows


@dataclass(frozen=True)
class _Panes:
    """The panes of some runs, which are given by their ids as texts, in their published form, with the
    position `RUN` 0.
    """

    files: StoredFiles
    run_ids: pa.Array
    publication: Publication

    def read(self, portion: Portion, columns: list[str] | None = None) -> pa.Table:
        files = portion.files_among(self.files)
        stored_names = files.schema.names
        if columns is not None:
            stored_names = self.publication.form.stored_columns(columns, stored_names)
        return self._in_form(files.read(stored_names, self._where(portion, files)))

    def scan(self, portion: Portion, where: pc.Expression, most: int) -> Iterator[pa.Table]:
        files = portion.files_among(self.files)
        return map(self._in_form, files.scan(files.schema.names, self._where(portion, files) & where, most))

    def empty(self) -> pa.Table:
        return self._in_form(self.files.read_schema.empty_table())

    def _in_form(self, panes: pa.Table) -> pa.Table:
        published_panes = self.publication.form.apply(panes, self.publication.shape.results)
        return published_panes.append_column(RUN, repeat_value(0, panes.num_rows, pa.int64()))

    def _where(self, portion: Portion, files: StoredFiles) -> pc.Expression:
        if files.have_only("run_id", self.run_ids):
            return portion.where
        return pc.field("run_id").isin(self.run_ids) & portion.where


def _is_within(name: str, panes: pa.Table) -> pc.Expression:
    """Whether the time `name` lies within the bounds of `panes`."""
    bounds = pc.min_max(panes.column(name))
    if not bounds["min"].is_valid:
        return pc.scalar(False)
    return (pc.field(name) >= bounds["min"]) & (pc.field(name) <= bounds["max"])
