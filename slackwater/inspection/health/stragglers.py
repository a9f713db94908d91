"""Stragglers that wait: rows that have appeared in the source after the slice of their arrival was run.

Found by the statistics in the source's log, for the last runs' slices alone. Where few files may hold some,
their arrival column is read; else the rows of all of them are an upper bound.
"""

from collections.abc import Sequence
from itertools import compress

import numpy as np

from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import NOWHERE, Bounds, InputFile, files_with_bounds
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.errors import SlackwaterError
from slackwater.inspection.health.findings import Colour, Finding, Subject, needing_declaration
from slackwater.inspection.health.source import SourceLogs
from slackwater.pipelines import Pipeline
from slackwater.readable import count_text, plain_text, range_text
from slackwater.runs.staging.slices import iso
from slackwater.runs.staging.stragglers import arrivals, read_ranges_of

# Stragglers are counted by their arrivals in no more files and bytes than these.
_COUNTED_FILES = 8
_COUNTED_BYTES = 64 << 20
# The log of more commits than these is not read.
_COMMITS = 2000


@needing_declaration("the source is")
def judge_stragglers(subject: Subject, declaration: Pipeline, logs: SourceLogs) -> Finding:
    if not logs.has_logs_only:
        return Finding(None, "a folder of Parquet files has no log to ask")
    try:
        sources = logs.sources
    except SlackwaterError:
        return Finding(None, "the source can't be read")
    folds = declaration.stragglers == "fold"
    rows, is_exact, straggling_slices = 0, True, list[ReadRange]()
    for source, pinned_source in sources:
        live = read_ranges_of(subject.runs, source.table)
        try:
            files = _straggling_files(pinned_source, live, source.arrival_time, folds=folds)
        except SlackwaterError as error:
            return Finding(None, plain_text(str(error)))
        if files is None:
            text = "the source's log does not say which rows are new"
            return Finding(None, text, f"slackwater plan {subject.pipeline}")
        is_counted = _is_counted(pinned_source, [file for file, _ in files])
        is_exact = is_exact and is_counted
        for file, slices in files:
            counts = _counts(pinned_source, file, slices, source.arrival_time) if is_counted else None
            rows += file.rows or 0 if counts is None else sum(counts)
            straggling_slices += slices if counts is None else compress(slices, counts)
    if not rows:
        return Finding(Colour.GREEN, "no row has appeared in a slice that was run before", value=0)
    first, last = (
        min(item.from_ms for item in straggling_slices),
        max(item.to_ms for item in straggling_slices),
    )
    number = count_text(rows, "row") if is_exact else f"up to {count_text(rows, 'row')}"
    text = f"{number} of {range_text(first, last)} have come since these slices were run"
    if folds:
        return Finding(Colour.GREEN, f"{text}; the next run takes them in", value=rows)
    command = f"slackwater backfill {subject.pipeline} --from {iso(first)} --to {iso(last)}"
    return Finding(Colour.YELLOW, f"{text}, and wait for a restatement", command, rows)


def _straggling_files(
    source: PinnedSource, live: Sequence[ReadRange], arrival: str, *, folds: bool
) -> list[tuple[InputFile, list[ReadRange]]] | None:
    """The files of a source that by the log's statistics may hold rows of slices whose runs have not read
    them, with these slices; None where the log does not say which rows are new.
    """
    if not live:
        return []
    newest_read = max(item.version for item in live)
    read_at = [newest_read] * len(live) if folds else [item.version for item in live]
    before = source.at_version(min(read_at))
    if before.version == source.version:
        return []
    if source.version - before.version > _COMMITS or source.has_lost_files_since(before):
        return None
    added_versions = source.added_since(before, read_at)
    if added_versions is None:
        return None
    straggling_files = []
    for file, bounds in files_with_bounds(source.actions, source.name_in_log(arrival)):
        version = added_versions.get(file.path)
        if version is None or bounds == NOWHERE:
            continue
        slices = [
            item
            for item, read in zip(live, read_at, strict=True)
            if read < version and _overlaps(bounds, item)
        ]
        if slices:
            straggling_files.append((file, slices))
    return straggling_files


def _overlaps(bounds: Bounds | None, item: ReadRange) -> bool:
    """Whether a file with these bounds, in microseconds, may hold arrivals of a slice."""
    return bounds is None or (bounds[0] // 1000 < item.to_ms and bounds[1] // 1000 >= item.from_ms)


def _is_counted(source: PinnedSource, files: Sequence[InputFile]) -> bool:
    """Whether the rows of some files are counted by their arrivals, because they are few and small."""
    return (
        len(files) <= _COUNTED_FILES
        and sum(file.bytes for file in files) <= _COUNTED_BYTES
        and source.why_not_direct is None
    )


def _counts(source: PinnedSource, file: InputFile, slices: Sequence[ReadRange], arrival: str) -> list[int]:
    """How many arrivals of each slice a file has."""
    times, _ = arrivals(source, file, arrival)
    return [int(np.count_nonzero((times >= item.from_ms) & (times < item.to_ms))) for item in slices]
