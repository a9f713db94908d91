"""Stragglers that wait: rows that have appeared in the source after the slice of their arrival was run.

Found by the statistics in the source's log, for the last runs' slices alone. Where few files may hold some,
their arrival column is read; else the rows of all of them are an upper bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import NOWHERE, Bounds, InputFile, files_with_bounds
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.errors import SlackwaterError
from slackwater.inspection.health.findings import Colour, Finding, Subject
from slackwater.inspection.health.source import SourceLogs
from slackwater.readable import count_text, plain_text, range_text
from slackwater.runs.staging.slices import iso
from slackwater.runs.staging.stragglers import arrivals, read_ranges_of
from slackwater.windowing.times import to_datetime, to_ms

STRAGGLERS = "stragglers"

# Stragglers are counted by their arrivals in no more files and bytes than these.
_COUNTED_FILES = 8
_COUNTED_BYTES = 64 << 20
# The log of more commits than these is not read.
_COMMITS = 2000


def judge_stragglers(subject: Subject, logs: SourceLogs | None) -> Finding:
    if logs is None or subject.declaration is None:
        return Finding(STRAGGLERS, None, "the source is not known: the pipeline is not registered here")
    if not logs.has_logs_only:
        return Finding(STRAGGLERS, None, "a folder of Parquet files has no log to ask")
    try:
        sources = logs.sources
    except SlackwaterError:
        return Finding(STRAGGLERS, None, "the source can't be read")
    folds = subject.declaration.stragglers == "fold"
    rows, is_exact, first, last = 0, True, None, None
    for source, pinned_source in sources:
        live = read_ranges_of(subject.runs, source.table)
        try:
            candidates = _straggling_files(pinned_source, live, source.arrival_time, folds=folds)
        except SlackwaterError as error:
            return Finding(STRAGGLERS, None, plain_text(str(error)))
        if candidates is None:
            return Finding(
                STRAGGLERS,
                None,
                "the source's log does not say which rows are new",
                f"slackwater plan {subject.pipeline}",
            )
        count = _count(pinned_source, candidates, source.arrival_time)
        rows += count.rows
        is_exact = is_exact and count.is_exact
        if count.rows:
            first = count.first if first is None else min(first, count.first)
            last = count.last if last is None else max(last, count.last)
    if not rows or first is None or last is None:
        return Finding(
            STRAGGLERS, Colour.GREEN, "no row has appeared in a slice that was run before", value=0
        )
    number = count_text(rows, "row") if is_exact else f"up to {count_text(rows, 'row')}"
    slices = range_text(first, last)
    if folds:
        text = f"{number} of {slices} have come since these slices were run; the next run takes them in"
        return Finding(STRAGGLERS, Colour.GREEN, text, value=rows)
    command = f"slackwater backfill {subject.pipeline} --from {iso(to_ms(first))} --to {iso(to_ms(last))}"
    text = f"{number} of {slices} have come since these slices were run, and wait for a restatement"
    return Finding(STRAGGLERS, Colour.YELLOW, text, command, rows)


@dataclass(frozen=True)
class _Candidate:
    """A file that may hold stragglers, and the live slices at these places, none of which has read it."""

    file: InputFile
    places: Sequence[int]


@dataclass(frozen=True)
class _Count:
    rows: int
    is_exact: bool
    first: datetime
    last: datetime


@dataclass(frozen=True)
class _Candidates:
    live: Sequence[ReadRange]
    files: Sequence[_Candidate]


def _straggling_files(
    source: PinnedSource, live: Sequence[ReadRange], arrival: str, *, folds: bool
) -> _Candidates | None:
    """The files of a source that by the log's statistics may hold rows of slices whose runs have not read
    them; None where the log does not say which rows are new.
    """
    if not live:
        return _Candidates(live, ())
    newest_read = max(item.version for item in live)
    read_at = [newest_read] * len(live) if folds else [item.version for item in live]
    before = source.at_version(min(read_at))
    if before.version == source.version:
        return _Candidates(live, ())
    if source.version - before.version > _COMMITS or source.has_lost_files_since(before):
        return None
    added_versions = source.added_since(before, read_at)
    if added_versions is None:
        return None
    candidates = []
    for file, bounds in files_with_bounds(source.actions, source.name_in_log(arrival)):
        version = added_versions.get(file.path)
        if version is None or bounds == NOWHERE:
            continue
        places = [
            place for place, item in enumerate(live) if read_at[place] < version and _overlaps(bounds, item)
        ]
        if places:
            candidates.append(_Candidate(file, places))
    return _Candidates(live, candidates)


def _overlaps(bounds: Bounds | None, item: ReadRange) -> bool:
    """Whether a file with these bounds, in microseconds, may hold arrivals of a slice."""
    return bounds is None or (bounds[0] // 1000 < item.to_ms and bounds[1] // 1000 >= item.from_ms)


def _count(source: PinnedSource, candidates: _Candidates, arrival: str) -> _Count:
    """The stragglers in some files: exactly where they are few and small, else as many as these hold."""
    files, live = candidates.files, candidates.live
    is_exact = (
        len(files) <= _COUNTED_FILES
        and sum(candidate.file.bytes for candidate in files) <= _COUNTED_BYTES
        and source.why_not_direct is None
    )
    rows, places = 0, set[int]()
    for candidate in files:
        if not is_exact:
            rows += candidate.file.rows or 0
            places.update(candidate.places)
            continue
        times, _ = arrivals(source, candidate.file, arrival)
        for place in candidate.places:
            item = live[place]
            count = int(np.count_nonzero((times >= item.from_ms) & (times < item.to_ms)))
            rows += count
            if count:
                places.add(place)
    first = min((live[place].from_ms for place in places), default=0)
    last = max((live[place].to_ms for place in places), default=0)
    return _Count(rows, is_exact, to_datetime(first), to_datetime(last))
