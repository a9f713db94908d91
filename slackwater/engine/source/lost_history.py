"""Where the log has lost commits, or a vacuum files: rows that can't be compared any more are counted, and
what nothing tells is refused by its range of arrivals.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from slackwater.engine.source.changes import Commit
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import NOWHERE, Bounds, InputFile, logical_files
from slackwater.engine.source.pinned_source import NewRowsNotKnown, PinnedSource
from slackwater.engine.source.row_groups import Arrivals, SourceFile
from slackwater.engine.source.row_tracking import TRACKING
from slackwater.readable import count_text
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem
from slackwater.windowing.times import to_datetime

FilesWithBounds = Sequence[tuple[InputFile, Bounds | None]]


def kept_by_counts(
    source: PinnedSource, before: PinnedSource, from_ms: int, arrival: str
) -> PinnedSource | None:
    """The source as a run that starts at `from_ms` reads it on from `before`, where the log has lost commits
    and their rows could not be compared: if as many rows arrived before `from_ms` in the files that have come
    as in those that they have replaced, they count as the same rows, and a note says so. Else None.
    """
    commits = source.lost_commits_since(before)
    removing_commits = [commit for commit in source.history_since(before) if commit.removed_files]
    if not commits or any(commit.version_before is None for commit in removing_commits):
        return None
    notes = []
    for commit in commits:
        if commit.removed_files:
            rows = _equal_count(source, commit, from_ms, arrival)
            if rows is None:
                return None
            notes.append(
                f"source {source.uri}: its log has lost what versions {commit.listed_before + 1} to "
                f"{commit.version} did, and {len(commit.removed_files)} files that runs have read were "
                f"replaced in them by {len(commit.added_files)} others. These hold as many rows that arrived "
                f"before {_moment(from_ms)}, {rows:,}; whether these are the same rows was not checked: the "
                "files that were replaced are gone, or too large to compare"
            )
    return source.with_rewrites([commit.version for commit in commits if commit.removed_files], *notes)


def _equal_count(source: PinnedSource, commit: Commit, from_ms: int, arrival: str) -> int | None:
    """How many rows arrived before `from_ms` in the files that a commit has removed, if equally many did in
    the files that it added; else, or if unknown, None.
    """
    removed_files = source.at_version(commit.listed_before).files_with_bounds(arrival, commit.removed_files)
    added_files = source.at_version(commit.version).files_with_bounds(arrival, commit.added_files)
    try:
        counts = [_count_before(source, files, from_ms, arrival) for files in (removed_files, added_files)]
    except FileNotFoundError:
        # Rows on both sides of `from_ms` in a file that is gone: equal if nothing has come or gone at all.
        counts = [_count(files) for files in (removed_files, added_files)]
        if _extent(removed_files) != _extent(added_files):
            return None
    return counts[0] if None not in counts and counts[0] == counts[1] else None


def _count_before(source: PinnedSource, files: FilesWithBounds, from_ms: int, arrival: str) -> int | None:
    """How many rows of some files arrived before `from_ms`; mixed files are read. None: nobody can tell."""
    counts: list[int | None] = []
    for file, bounds in files:
        if bounds is None or file.may_hold_unread:
            return None
        if bounds[1] < from_ms * 1000:
            counts.append(file.rows)
        elif bounds[0] < from_ms * 1000:
            arrivals = Arrivals(arrival, bounds[0] // 1000, from_ms)
            batches = SourceFile(source.uri, file, source.schema).batches([arrival], None, arrivals=arrivals)
            for batch in batches:
                times = batch.rows.column(arrival)
                is_before = pc.less(times, pa.scalar(to_datetime(from_ms), times.type))
                counts.append(pc.sum(is_before).as_py() or 0)
    return None if None in counts else sum(count for count in counts if count is not None)


def _count(files: FilesWithBounds) -> int | None:
    counts = [None if bounds is None or file.may_hold_unread else file.rows for file, bounds in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def _extent(files: FilesWithBounds) -> Bounds:
    extents = [bounds for _, bounds in files if bounds is not None]
    return min((low for low, _ in extents), default=0), max((high for _, high in extents), default=0)


def check_new_rows(
    source: PinnedSource,
    before: PinnedSource,
    from_ms: int,
    arrival: str,
    newer_reads: Sequence[ReadRange] = (),
) -> None:
    """Raise NewRowsNotKnown where nothing shows which rows from before `from_ms` are new since `before`."""
    mixed_files = _files_read_in_part(source, before, from_ms, arrival)
    if mixed_files:
        raise _not_known(source, before, mixed_files, from_ms, "the file that they came in")
    if not source.is_certain_since(before, newer_reads):
        files = source.files(from_ms, from_ms, arrival, before, newer_reads=newer_reads)
        unread_paths = {file.path for file in files if file.may_hold_unread and not file.is_part}
        among = [file for file in logical_files(source.actions) if file.path in unread_paths]
        if among:
            raise _not_known(
                source, before, source.files_with_bounds(arrival, among), from_ms, "the log that told them"
            )
    parts = source.new_parts(before, from_ms, arrival, newer_reads)
    with reads(source.uri):
        infos = filesystem(source.uri).get_file_info([file.path for file, _ in parts])
    missing_parts = [
        part for part, info in zip(parts, infos, strict=True) if info.type is pafs.FileType.NotFound
    ]
    # They still hold what was erased of them, too.
    missing_parts += source.new_parts(before, from_ms, arrival, newer_reads, are_whole=False)
    if missing_parts:
        raise _not_known(source, before, missing_parts, from_ms, "the file that they came in")


def _files_read_in_part(
    source: PinnedSource, before: PinnedSource, from_ms: int, arrival: str
) -> FilesWithBounds:
    """The files with rows of several commits, some of which runs before `from_ms` have read, up to the
    version `before`, though the file does not show which: it is dated as a whole, or a commit whose writer's
    clock was behind has brought others that arrived before `from_ms`, too.
    """
    files = [item for item in source.files_dated_as_a_whole() if item[1][0] < from_ms * 1000 <= item[1][1]]
    recorded_files = source.record.files_at(before.version) if files and source.record is not None else None
    files = [(file, bounds) for file, bounds in files if file.path not in (recorded_files or {})]
    tracked_files = source.files_with_bounds(arrival) if TRACKING in source.actions.column_names else []
    return files + [item for item in tracked_files if _holds_straggler(item[0], before, from_ms)]


def _holds_straggler(file: InputFile, before: PinnedSource, from_ms: int) -> bool:
    commits = () if file.tracking is None else file.tracking.commits
    is_old = [commit.version <= before.version for commit in commits]
    times_us = [commit.time_us for commit in commits if commit.version > before.version]
    return any(is_old) and any(time_us < from_ms * 1000 for time_us in times_us)


def notes_on_parts(source: PinnedSource, files: Iterable[InputFile]) -> list[str]:
    """Sentences on those files of a slice that are read as they were before they were written again, and on
    those that are dated as a whole.
    """
    files = list(files)
    return [*_note_on_parts(source, files), *_note_on_dates(source, files)]


def _note_on_dates(source: PinnedSource, files: Sequence[InputFile]) -> list[str]:
    paths = {file.path for file in files}
    dated_files = [(file, bounds) for file, bounds in source.files_dated_as_a_whole() if file.path in paths]
    if not dated_files:
        return []
    least, greatest = min(low for _, (low, _) in dated_files), max(high for _, (_, high) in dated_files)
    return [
        f"source {source.uri}: rows of several commits, from {_moment(least // 1000)} to "
        f"{_moment(greatest // 1000)}, were written again together ({count_text(len(dated_files), 'file')}), "
        "and the files from before are gone (VACUUM) or can't be compared; of each file all rows count as "
        "having arrived with the newest commit"
    ]


def _note_on_parts(source: PinnedSource, files: Sequence[InputFile]) -> list[str]:
    parts = [file for file in files if file.is_part]
    if not parts:
        return []
    size = sum(file.bytes for file in parts)
    return [
        f"source {source.uri}: rows that came after their slice were compacted with older ones; "
        f"{len(parts)} files, {size:,} bytes, are read as they were before, for these rows alone"
    ]


def _not_known(
    source: PinnedSource, before: PinnedSource, files: FilesWithBounds, from_ms: int, what_is_gone: str
) -> NewRowsNotKnown:
    known_bounds = [bounds for _, bounds in files if bounds is not None and bounds != NOWHERE]
    is_dated = len(known_bounds) == len(files)
    least = min(low for low, _ in known_bounds) // 1000 if is_dated else None
    greatest = min(max(high for _, high in known_bounds) // 1000, from_ms - 1) if is_dated else None
    extent = (
        f", in arrivals from {_moment(least)} to {_moment(greatest)}"
        if least is not None and greatest is not None
        else ""
    )
    return NewRowsNotKnown(
        f"source {source.uri}: rows that are new since version {before.version}, which the run before was "
        f"pinned to, were written again into one file with rows that runs have read{extent}, and "
        f"{what_is_gone} is gone: nothing says any more which of them are new.",
        uri=source.uri,
        before=before.version,
        version=source.version,
        least_ms=least,
        greatest_ms=greatest,
    )


def _moment(time_ms: int) -> str:
    return f"{to_datetime(time_ms):%Y-%m-%dT%H:%M:%SZ}"
