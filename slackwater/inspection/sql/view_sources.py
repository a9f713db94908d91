"""For each ready view of a pipeline: which files hold its rows, which of their rows count, and the columns.
Knows no engine: DuckDB, polars and Spark make their views from these.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.fs as pafs

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.run_files.snapshots import stored_snapshot
from slackwater.tables.schemas import SIDE
from slackwater.tables.stores import filesystem

# What a view is of, without the ending that says as of when → table.
SNAPSHOT_VIEWS: Mapping[str, str] = {
    "windows": "window_state",
    "timers": "timers",
    "keyed": "keyed_state",
    "progress": "source_progress",
}
LIVE_VIEWS: Mapping[str, str] = {"panes": "panes", "late": "late_events", "quarantine": "quarantine"}
PUBLISHED = "published"
# What the rows of each view are; other tables hold rows of every run as they are stored.
MEANINGS: Mapping[str, str] = {
    PUBLISHED: "the results: of each key and window the newest firing",
    "panes_live": "every firing of every window, with the seq of its run",
    "late_live": "rows that were too late, with the seq of the run",
    "quarantine_live": "rows that can't be used, and why",
    "windows_now": "open windows, with their accumulators",
    "timers_now": "pending timers",
    "keyed_now": "what functions keep for each key",
    "progress_now": "progress of each source partition; without a name the watermark",
    "runs": "the ledger",
    "attempts": "every attempt at a slice and its outcome",
    "validations": "every check of every run",
    "corrections": "every change of published, with old and new values and the cause",
    "overrides": "arrivals that were changed on purpose",
}
RUN_SEQ = "run_seq"
KEY_GROUP = "key_group"
_RUN_ID = "run_id"


class NotAView(UsageError):
    """A name that no view of the pipeline has. Facts: view."""


@dataclass(frozen=True)
class ViewSource:
    """Where the rows of a view are.

    Attributes:
        columns: the view's columns beside `run_seq`, as the files have them. A source column `run_seq` is
            called `source_run_seq` in the view.
        seqs: run_id → seq of the runs whose rows count; the view has the seq as its first column, `run_seq`.
            None: every row counts, and there is no such column.
    """

    files: StoredFiles
    columns: pa.Schema
    seqs: Mapping[str, int] | None = None

    def name_in_view(self, column: str) -> str:
        return f"source_{column}" if self.seqs is not None and column.lower() == RUN_SEQ else column

    @property
    def schema(self) -> pa.Schema:
        seq_column = [] if self.seqs is None else [pa.field(RUN_SEQ, pa.int64())]
        return pa.schema(
            [*seq_column, *(column.with_name(self.name_in_view(column.name)) for column in self.columns)]
        )


@dataclass(frozen=True)
class ViewSources:
    """The sources of all views of a pipeline. `key_group`: only files that may hold its rows; None: all."""

    inspection: Inspection
    key_group: int | None = None
    _seqs: dict[int, Mapping[str, int]] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> list[str]:
        """The views of now, the most useful first; then every table as it is stored."""
        live = (*LIVE_VIEWS, *(name for name in self.folders if name.startswith(SIDE)))
        ready = (PUBLISHED, *(f"{name}_live" for name in live), *(f"{name}_now" for name in SNAPSHOT_VIEWS))
        return [*ready, *(name for name in self.folders if name not in ready)]

    @property
    def names_at(self) -> list[str]:
        sides = (name for name in self.folders if name.startswith(SIDE))
        return [f"{name}_at" for name in (PUBLISHED, *LIVE_VIEWS, *sides, *SNAPSHOT_VIEWS)]

    def current(self, name: str) -> str:
        """The view of now for a table function: `late_live` for `late_at`; any other name unchanged."""
        subject, _, ending = name.rpartition("_")
        if ending != "at" or name not in self.names_at:
            return name
        is_live = subject in LIVE_VIEWS or subject.startswith(SIDE)
        return PUBLISHED if subject == PUBLISHED else f"{subject}_{'live' if is_live else 'now'}"

    @cached_property
    def folders(self) -> dict[str, Folder]:
        folders = dict(self.inspection.tables.folders)
        root = folders["runs"].uri.removesuffix("/runs")
        for info in filesystem(root).get_file_info(pafs.FileSelector("", allow_not_found=True)):
            name = info.path.strip("/")
            if name.startswith(SIDE) and name not in folders:
                folder = Folder.existing_at(f"{root}/{name}")
                if folder is not None:
                    folders[name] = folder
        return folders

    def source(self, view: str, row: LedgerRow) -> ViewSource:
        """The source of a view (`panes_live`, `windows_now`, a table's name) as of a ledger row; a table as
        it is stored is as of now. Not for `published` as of an earlier row. Raises NotAView; SnapshotGone: it
        was dropped.
        """
        subject, _, ending = view.rpartition("_")
        if ending == "now" and subject in SNAPSHOT_VIEWS:
            return self._snapshot(SNAPSHOT_VIEWS[subject], row)
        if ending == "live" and (
            subject in LIVE_VIEWS or (subject in self.folders and subject.startswith(SIDE))
        ):
            return self._live(LIVE_VIEWS.get(subject, subject), row)
        if view not in self.folders:
            raise NotAView(f"there is no view {view}; there are {', '.join(self.names)}.", view=view)
        files = self._files_of_key_group(self.folders[view].files())
        return ViewSource(files, files.schema)

    def _files_of_key_group(self, files: StoredFiles) -> StoredFiles:
        if self.key_group is None or KEY_GROUP not in files.schema.names:
            return files
        return files.within(Within.only(KEY_GROUP, self.key_group))

    def _live(self, table: str, row: LedgerRow) -> ViewSource:
        files, seqs = self._files_of_key_group(self.folders[table].files()), self._live_seqs(row)
        return ViewSource(_files_of_runs(files, seqs), _without_run_id(files.schema), seqs)

    def _live_seqs(self, row: LedgerRow) -> Mapping[str, int]:
        if row.seq not in self._seqs:
            live = set(seqs_of(row.live))
            seqs = self.inspection.tables.ledger.seqs_by_run_id()
            self._seqs[row.seq] = {run_id: seq for run_id, seq in sorted(seqs.items()) if seq in live}
        return self._seqs[row.seq]

    def _snapshot(self, table: str, row: LedgerRow) -> ViewSource:
        folder, owner = self.folders[table], self.inspection.tables.ledger.snapshot_owner(row)
        return ViewSource(
            self._files_of_key_group(stored_snapshot(folder, owner)), _without_run_id(folder.schema)
        )


def _without_run_id(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column for column in schema if column.name != _RUN_ID])


def _files_of_runs(files: StoredFiles, seqs: Mapping[str, int]) -> StoredFiles:
    """The files that may hold rows of one of the runs, by the log's bounds of `run_id`."""
    actions, low, high = files.actions, "min.run_id", "max.run_id"
    if f"partition.{_RUN_ID}" in actions.column_names:
        low = high = f"partition.{_RUN_ID}"
    if low not in actions.column_names or high not in actions.column_names:
        return files
    run_ids = sorted(seqs)
    bounds = zip(*(actions.column(name).cast(pa.string()).to_pylist() for name in (low, high)), strict=True)
    may_hold = [_has_between(run_ids, *bound) for bound in bounds]
    return replace(files, actions=actions.filter(pa.array(may_hold, pa.bool_())))


def _has_between(run_ids: list[str], least: str | None, greatest: str | None) -> bool:
    """Whether one of the sorted `run_ids` may lie in a file with these bounds; without bounds any may."""
    if least is None or greatest is None:
        return True
    place = bisect_left(run_ids, least)
    return place < len(run_ids) and run_ids[place] <= greatest
