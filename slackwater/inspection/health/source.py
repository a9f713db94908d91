"""What the source says: how new its newest row is, and which source partitions are silent. Of a Delta source
only the log is read; silence of source partitions is judged by the progress that runs have parked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.source.files import NOWHERE, files_with_bounds
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import pin, place_of
from slackwater.errors import SlackwaterError
from slackwater.inspection.health.findings import (
    LEAST_HISTORY,
    Colour,
    Finding,
    Subject,
    colour_of,
    needing_declaration,
)
from slackwater.inspection.health.runs import follows_the_clock
from slackwater.pipelines import Pipeline
from slackwater.pipelines.cron import Cron
from slackwater.pipelines.sources import DeltaSource
from slackwater.readable import count_text, duration_text, plain_text, time_text
from slackwater.runs.staging.pins import pin_newest
from slackwater.runs.staging.shapes import check_sources
from slackwater.runs.staging.stragglers import without_erased
from slackwater.tables.delta.stored_files import Within
from slackwater.windowing.times import to_datetime

_SHORT_SILENCE = timedelta(days=1)
_FAR_SILENCE = 2
_PROGRESS_SNAPSHOTS = 8
_PROGRESS_ROWS = 50_000
_MOST_NAMES = 3


@dataclass(frozen=True)
class SourceLogs:
    """The logs of the sources of a registered pipeline, opened once."""

    subject: Subject
    declaration: Pipeline

    @property
    def has_logs_only(self) -> bool:
        return all(isinstance(source, DeltaSource) for source in self.declaration.sources)

    @cached_property
    def sources(self) -> list[tuple[DeltaSource, PinnedSource]]:
        """Each source at its newest version, without rows that count as never written."""
        ledger, warehouse = self.subject.tables.ledger, self.subject.warehouse
        pinned_sources = (
            (source, pin(source, place_of(warehouse, self.declaration, source), may_be_empty=True))
            for source in self.declaration.sources
            if isinstance(source, DeltaSource)
        )
        return [(source, without_erased(newest, source.table, ledger)) for source, newest in pinned_sources]

    @cached_property
    def newest(self) -> Sequence[PinnedSource]:
        """Each source at its newest version, also one that is a folder of Parquet files."""
        if self.has_logs_only:
            return [pinned_source for _, pinned_source in self.sources]
        return pin_newest(self.declaration, self.subject.warehouse)

    def refusal(self) -> SlackwaterError | None:
        """The error by which the next run would refuse the sources for their columns, or None."""
        subject = self.subject
        stored_schemas = {name: folder.schema for name, folder in subject.tables.folders.items()}
        try:
            _, shape = check_sources(self.declaration, self.newest)
            subject.warehouse.tables(subject.pipeline, shape).check_columns(stored_schemas)
        except SlackwaterError as error:
            return error
        return None

    def newest_arrival(self) -> datetime | None:
        greatest = [
            bounds[1]
            for source, pinned_source in self.sources
            for _, bounds in files_with_bounds(
                pinned_source.actions, pinned_source.name_in_log(source.arrival_time)
            )
            if bounds is not None and bounds != NOWHERE
        ]
        return to_datetime(max(greatest) // 1000) if greatest else None


@needing_declaration("the source is")
def judge_source(subject: Subject, declaration: Pipeline, logs: SourceLogs) -> Finding:
    try:
        refusal = None if subject.is_closed or not logs.newest else logs.refusal()
        newest = logs.newest_arrival() if logs.has_logs_only else None
    except SlackwaterError as error:
        return Finding(Colour.YELLOW, f"the source can't be read: {plain_text(error.message)}")
    if refusal is not None:
        text = f"the next run will refuse the source: {plain_text(refusal.message)}"
        return Finding(Colour.RED, text, f"slackwater plan {subject.pipeline}")
    if not logs.has_logs_only:
        return Finding(None, "a folder of Parquet files has no log to ask how new its rows are")
    if newest is None:
        return Finding(Colour.GREEN, "the source has no rows with statistics yet")
    text = f"the newest row of the source arrived at {time_text(newest)}"
    interval = _interval(subject, declaration)
    if interval is None or subject.is_closed:
        return Finding(Colour.GREEN, text + _waiting(subject, newest))
    silence = max(subject.now - newest, timedelta(0))
    yellow, red = subject.thresholds.source_silence
    colour = colour_of(silence, (2 * interval if yellow is None else yellow, red))
    if colour is not Colour.GREEN:
        text = f"no row has arrived in the source for {duration_text(silence)}"
    return Finding(colour, text, value=silence.total_seconds())


def _interval(subject: Subject, declaration: Pipeline) -> timedelta | None:
    """The data interval at the head of a lineage that follows the wall clock; None for others."""
    if declaration.schedule is None or subject.head_end is None:
        return None
    cron = Cron(declaration.schedule, declaration.zone)
    first = cron.next_after(subject.head_end)
    second = None if first is None else cron.next_after(first)
    if first is None or second is None or not follows_the_clock(subject, cron):
        return None
    return second - first


def _waiting(subject: Subject, newest: datetime) -> str:
    head_end = subject.head_end
    if head_end is None or newest < head_end:
        return ""
    return f", {duration_text(newest - head_end)} after the head"


def judge_partitions(subject: Subject) -> Finding:
    silences = _silences(subject)
    yellow, red = subject.thresholds.partition_silence
    silent: list[tuple[timedelta, str, Colour]] = []
    for name, (silence, earlier_silences) in silences.items():
        limit = yellow
        if limit is None and len(earlier_silences) >= LEAST_HISTORY:
            limit = max(_SHORT_SILENCE, _FAR_SILENCE * max(earlier_silences))
        colour = colour_of(silence, (limit, red))
        if colour is not Colour.GREEN:
            silent.append((silence, name, colour))
    if not silent:
        return Finding(Colour.GREEN, f"{count_text(len(silences), 'source partition')}", value=0)
    silent.sort(reverse=True)
    names = [f"{plain_text(name)} for {duration_text(silence)}" for silence, name, _ in silent[:_MOST_NAMES]]
    more = f" and {len(silent) - _MOST_NAMES:,} more" if len(silent) > _MOST_NAMES else ""
    colour = max((colour for *_, colour in silent), key=lambda one: one.rank)
    return Finding(
        colour,
        f"{len(silent):,} of {count_text(len(silences), 'source partition')} had no row: "
        f"{', '.join(names)}{more}",
        f"slackwater state watermarks {subject.pipeline}",
        len(silent),
    )


def _silences(subject: Subject) -> dict[str, tuple[timedelta, list[timedelta]]]:
    """By source partition: how long it was silent at the end of the last run, and at the ends of earlier ones
    before that silence began; none for a partition that was silent in all snapshots that are kept.
    """
    folder, runs = subject.tables["source_progress"], subject.series
    files = folder.files()
    if not runs or "partition.run_id" not in files.actions.column_names:
        return {}
    kept = set(files.actions.column("partition.run_id").to_pylist())
    run_ids = [run.run_id for run in runs if run.run_id in kept]
    chosen: list[str] = []
    rows = 0
    for run_id in reversed(run_ids[-_PROGRESS_SNAPSHOTS - 1 :]):
        rows += files.within(Within.only("run_id", run_id)).rows
        if chosen and rows > _PROGRESS_ROWS:
            break
        chosen.append(run_id)
    if not chosen or chosen[0] != runs[-1].run_id:
        return {}
    is_chosen = pc.is_in(files.actions.column("partition.run_id"), value_set=pa.array(chosen, pa.string()))
    progress = replace(files, actions=files.actions.filter(is_chosen)).read(
        ["run_id", "source_partition", "last_arrival"], pc.field("last_arrival").is_valid()
    )
    ends = {run.run_id: run.slice_end for run in runs}
    arrivals_by_run: dict[str, dict[str, datetime]] = {run_id: {} for run_id in chosen}
    for row in progress.to_pylist():
        arrivals_by_run[row["run_id"]][row["source_partition"] or ""] = row["last_arrival"]
    newest, *earlier = chosen
    silences = {}
    for name, last_arrival in arrivals_by_run[newest].items():
        before = [
            ends[run_id] - arrivals_by_run[run_id][name]
            for run_id in earlier
            if arrivals_by_run[run_id].get(name, last_arrival) != last_arrival
        ]
        silences[name] = (ends[newest] - last_arrival, before)
    return silences
