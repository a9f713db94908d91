"""The replay of one slice from pinned inputs. A run stages its results, `verify` compares them with the
run's, and a redrive uses its timeline alone.

Reads the source and the parent's snapshot. Records nothing, and writes only into folders that the caller
names.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from slackwater.engine.replaying.replay import Engine, Outcome, Replay
from slackwater.engine.replaying.task_memory import (
    most_rows_of_range,
    ranges_for,
    rows_at_once,
    rows_sent,
)
from slackwater.engine.rows.carried_timeline import timeline_of_slice
from slackwater.engine.rows.columns_read import columns_read
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress
from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.lost_history import notes_on_parts
from slackwater.engine.source.overrides import MovedArrival, Overrides
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import PlacedTransport, Transport
from slackwater.engine.transport.placement import Placement
from slackwater.pipelines import Expectation, Pipeline
from slackwater.runs.staging.collected_mark import mark_of
from slackwater.runs.staging.pins import Pins
from slackwater.runs.staging.slices import Slice
from slackwater.runtime.memory import state_memory_mb
from slackwater.tables.ledger.overrides import INPUT as OVERRIDES
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.run_files.snapshots import bounds_of_key_groups, require_as_recorded
from slackwater.tables.run_files.staging import as_hashed, count_staged, read_staged
from slackwater.tables.schemas import Shape, staged_tables
from slackwater.tables.warehouse import Tables
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.times import to_ms as to_ms_of

NO_OVERRIDES = Overrides()


@dataclass(frozen=True)
class SliceReplay:
    """A slice and all that its replay depends on.

    Attributes:
        start_ms: where the lineage begins.
        owner: the row whose snapshot the slice continues; None at the start of a lineage.
        state: snapshot table → the files of the parent's snapshot, relative to the table's folder.
        pins: the versions of the sources and the overrides.
        added_results: results that the parent's snapshot does not have.
    """

    pipeline: Pipeline
    shape: Shape
    tables: Tables
    slice: Slice
    start_ms: int
    owner: LedgerRow | None
    state: Mapping[str, tuple[str, ...]]
    pins: Pins
    added_results: frozenset[str] = frozenset()

    def scan(self) -> SliceScan:
        from_ms, to_ms = self.slice.from_ms, self.slice.to_ms
        overrides = Overrides(
            tuple(
                MovedArrival(row.row_hash, to_ms_of(row.true_arrival), to_ms_of(row.arrival_time))
                for row in self.pins.overrides
            )
        )
        true_arrivals = overrides.true_arrivals(from_ms, to_ms)
        files = [
            item.source.files(
                from_ms,
                to_ms,
                item.declaration.arrival_time,
                item.before,
                newer_reads=item.newer_reads,
                also=true_arrivals,
            )
            for item in self.pins.source_pins
        ]
        return self._scan_of(files, from_ms, overrides)

    def _scan_of(
        self, files: Sequence[Sequence[InputFile]], from_ms: int, overrides: Overrides = NO_OVERRIDES
    ) -> SliceScan:
        sources = PinnedSources.of(self.pipeline, self.pins.sources)
        columns = tuple(sources.schema.names)
        first, *others = (
            SliceScan(
                source=item.source,
                files=tuple(replace(file, source=number) for file in files[number]),
                columns=columns,
                arrival=self.pipeline.roles.arrival_time,
                from_ms=from_ms,
                to_ms=self.slice.to_ms,
                start_ms=self.start_ms,
                before=item.before,
                newer_reads=item.newer_reads,
                overrides=overrides,
                rows_at_once=rows_at_once(state_memory_mb()),
                naming=sources.namings[number],
            )
            for number, item in enumerate(self.pins.source_pins)
        )
        return replace(first, others=tuple(others))

    def progress(self) -> Progress:
        """The source progress in the parent's snapshot, with the collected mark of the lineage. Raises
        DamagedSnapshot: the snapshot is not as its ledger row has recorded it.
        """
        if self.owner is None:
            return Progress.none()
        require_as_recorded(self.tables, self.pipeline.name, self.owner, self.state)
        progress = Progress.from_table(
            read_staged(self.tables, "source_progress", self.state["source_progress"])
        )
        return replace(progress, collected_mark=mark_of(self.tables, self.pipeline, self.owner, progress))

    def transport(
        self, scan: SliceScan, engine: Engine, transport: Transport, ranges: int | None = None
    ) -> PlacedTransport:
        """`transport`, or the one that it has for a slice such as this; see `placement`."""
        return transport.for_slice(
            scan,
            lambda slots: self._ranges(scan, engine, slots) if ranges is None else ranges,
            engine.in_threads,
        )

    @contextmanager
    def with_column_files(self, scan: SliceScan, transport: Transport) -> Iterator[SliceScan]:
        """`scan`, for both passes over the slice: the second has the columns that the first has computed."""
        names = set(scan.schema.names)
        columns = [name for name in columns_read(self.pipeline, scan.schema.names) if name in names]
        has_columns = any(part.columns_for_files(columns) for part in scan.parts)
        with transport.folder() if has_columns else nullcontext() as folder:
            yield scan if folder is None else scan.with_column_files(folder, columns)

    def timeline(self, scan: SliceScan, before: Progress, transport: Transport) -> tuple[Timeline, Progress]:
        return timeline_of_slice(transport, scan, Judge.of(self.pipeline, scan), before)

    def replay(
        self,
        scan: SliceScan,
        timeline: Timeline,
        after: Progress,
        engine: Engine,
        transport: Transport,
        *,
        run_id: str,
        expectations: tuple[Expectation, ...] = (),
        ranges: int | None = None,
        scratch: str | None = None,
    ) -> Outcome:
        """The rows and files that the slice leaves, source progress included.

        Args:
            expectations: the outcome has their metrics of the panes.
            ranges: number of key ranges; None leaves it to the size of the input.
            scratch: a folder for the files of large tables that tasks write; None: the folders of the tables.
        """
        folders = {name: self.tables[name].uri for name in staged_tables(self.shape)}
        outcome = engine.replay(
            Replay(
                pipeline=self.pipeline,
                shape=self.shape,
                scan=scan,
                timeline=timeline,
                state=self.state,
                state_bounds=bounds_of_key_groups(self.tables, self.owner, self.state),
                folders=folders,
                run_id=run_id,
                ranges=self._ranges(scan, engine, transport.slots) if ranges is None else ranges,
                scratch=scratch,
                state_memory_mb=state_memory_mb(),
                parked_windows=self._parked_windows,
                added_results=self.added_results,
                expectations=expectations,
            ),
            transport,
        )
        progress = after.to_table(run_id)
        outcome.rows["source_progress"] = [progress]
        hashed_rows = as_hashed("source_progress", progress)
        outcome.state_hash.add("source_progress", hashed_rows, without=("run_id",))
        return outcome

    def notes(self, scan: SliceScan) -> list[str]:
        """Sentences on what could not be checked in the sources, and on files that are read as before."""
        return [
            note
            for part in scan.parts
            for note in (*part.source.notes, *notes_on_parts(part.source, part.files))
        ]

    def record_files(self) -> None:
        """Record the files of each source, so that the next run can go on when the source's log has lost
        this version. For a source unchanged since the parent run, that run has done so.
        """
        for item in self.pins.source_pins:
            if item.before is None or item.before.version != item.source.version:
                item.source.record_files(item.declaration.arrival_time)

    def inputs(self, scan: SliceScan, outcome: Outcome) -> tuple[Input, ...]:
        """The inputs as the ledger records them, with how many rows of each source were read."""
        inputs = [
            Input(
                table=item.declaration.table,
                table_id=item.source.table_id,
                version=item.source.version,
                files=len(part.files),
                rows=outcome.rows_of_source(number),
                bytes=sum(file.bytes for file in part.files),
            )
            for number, (item, part) in enumerate(zip(self.pins.source_pins, scan.parts, strict=True))
        ]
        if self.pins.overrides:
            inputs.append(
                Input(
                    table=OVERRIDES,
                    version=self.pins.overrides_known,
                    files=0,
                    rows=len(self.pins.overrides),
                    bytes=0,
                )
            )
        return tuple(inputs)

    def _ranges(self, scan: SliceScan, engine: Engine, slots: int) -> int:
        """The least number of ranges such that rows, windows and remembered rows fit a task's memory."""
        rows = rows_sent(self.pipeline, self.pins.sources, scan.all_files, engine)
        parked_rows = self._parked_windows
        if self.pipeline.distinct_by is not None:
            parked_rows += count_staged(self.tables, "keyed_state", self.state.get("keyed_state", ()))
        most_rows = most_rows_of_range(self.pipeline, self.pins.sources, engine, state_memory_mb())
        return ranges_for(self.pipeline, rows + parked_rows, most_rows, slots)

    @property
    def _parked_windows(self) -> int:
        return 0 if self.owner is None else self.owner.windows_open or 0


@dataclass(frozen=True)
class FinalReplay(SliceReplay):
    """A slice without arrivals, whose only watermark is the final one."""

    def scan(self) -> SliceScan:
        return self._scan_of([[] for _ in self.pins.source_pins], self.slice.to_ms)

    def timeline(self, scan: SliceScan, before: Progress, transport: Transport) -> tuple[Timeline, Progress]:
        return final_timeline(self.slice.to_ms, before)


def final_timeline(at_ms: int, before: Progress) -> tuple[Timeline, Progress]:
    """The timeline of the final watermark alone, at the clock `at_ms`, and the progress after it. Its
    watermark is the initial one, because no table can hold the final watermark.
    """
    collected_mark = INITIAL_WATERMARK if before.collected_mark is None else before.collected_mark
    timeline = Timeline(
        from_ms=at_ms - 1,
        to_ms=at_ms,
        interval_ms=1,
        initial=before.watermark,
        tick_ends=np.array([at_ms]),
        watermarks=np.array([LONG_MAX]),
        collected_mark=collected_mark,
    )
    return timeline, Progress(
        before.names,
        before.per_partition,
        INITIAL_WATERMARK,
        at_ms,
        carried_watermarks=before.carried_watermarks,
    )


@dataclass(frozen=True, kw_only=True)
class ReplayedSlice:
    slice_replay: SliceReplay
    scan: SliceScan
    before: Progress
    after: Progress
    outcome: Outcome
    placement: Placement
