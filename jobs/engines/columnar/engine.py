"""The columnar engine: the same windows on whole columns, for built-in windows and aggregates that commute.

Map tasks judge and aggregate batches, and send parts to the ranges of their keys. What windows do is a
family's; how a range ends, and what its rows look like, stands in the files beside this one.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.aggregates import bind_columnar, bind_select
from slackwater.jobs.engines.columnar.families import BatchElements, Family, Late, Part, Setting
from slackwater.jobs.engines.columnar.packing import pack
from slackwater.jobs.engines.columnar.range import RangeWork
from slackwater.jobs.engines.columnar.tables import late_table
from slackwater.jobs.engines.columnar.windows import family_of
from slackwater.jobs.engines.replaying.replay import Outcome, Replay
from slackwater.jobs.engines.replaying.results import (
    collect,
    counts_table,
    mark_table,
    spread_quarantine_rows,
)
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, columns_read
from slackwater.jobs.engines.rows.judge import Judge, JudgedBatch
from slackwater.jobs.engines.rows.key_numbers import KeyNumbers, with_keys
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.engines.source.batches import SourceBatch
from slackwater.jobs.engines.source.scan import Batches
from slackwater.jobs.engines.transport.in_process import Transport
from slackwater.jobs.tables.schemas import table_schemas
from slackwater.windowing.columnar.arrays.columns import Longs


class ColumnarEngine:
    """Exact for the pipelines that the planner gives it."""

    name = "columnar"
    aggregates_first = True
    in_threads = True

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        judge = Judge.of(replay.pipeline, replay.scan)
        keys = Keys.of(replay.pipeline, replay.scan.source.schema)
        family = family_of(setting_of(replay))
        task = SplitBatches(replay, judge, keys, family)
        scan = dataclasses.replace(replay.scan, first=family.setting.read)
        return collect(transport.shuffle(scan, task, replay.ranges, MergeRange(replay, keys, family)))


def setting_of(replay: Replay) -> Setting:
    """What the family of a replay's windows works on."""
    types = {field.name: field.type for field in replay.scan.source.schema}
    forms, widths = [], []
    for name, accumulator in bind_select(replay.pipeline, types).items():
        form = bind_columnar(accumulator, replay.pipeline.select[name], types)
        assert form is not None, f"the planner gave {name!r} to an engine that has no form of it"
        forms.append(form)
        widths.append(len(accumulator.parts))
    read = columns_read(replay.pipeline, replay.scan.source.schema.names)
    return Setting(replay.pipeline, replay.shape, tuple(forms), tuple(widths), replay.timeline, read)


@dataclass(frozen=True)
class SplitBatches:
    """Map task: what is aggregated or must travel goes to the range of its key, counts to range 0."""

    replay: Replay
    judge: Judge
    keys: Keys
    family: Family

    def __call__(self, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        for batch in batches:
            yield from self._of_batch(batch)

    def _of_batch(self, batch: SourceBatch) -> Iterator[tuple[int, pa.Table]]:
        judged_batch = self.judge.judge_batch(batch)
        quarantined, rows = judged_batch.quarantine_rows, judged_batch.elements
        folded = np.count_nonzero(rows.column(ARRIVAL).to_numpy() < self.judge.from_ms)
        counts = {
            "rows_read": judged_batch.rows_read,
            "rows_filtered": judged_batch.filtered_count,
            "rows_quarantined": quarantined.num_rows,
            "rows_folded": int(folded) + self._folded(quarantined) + judged_batch.filtered_folded_count,
        }
        yield from spread_quarantine_rows(quarantined, self.replay.ranges)
        if rows.num_rows:
            keys = KeyNumbers.of_batch(rows, self.keys)
            whole_rows = None if batch.read_full_rows is None else _Whole(batch, judged_batch)
            elements = BatchElements.of(rows, keys.numbers, self.family.setting, whole_rows)
            split = self.family.split(elements)
            for name, part in split.parts.items():
                yield from self._route(name, part, keys)
            if split.late is not None and len(split.late.positions):
                yield from self._spread(self._late(split.late, elements, keys))
            counts |= split.counts
        yield 0, counts_table(counts)

    def _route(self, name: str, part: Part, keys: KeyNumbers) -> Iterator[tuple[int, pa.Table]]:
        """The rows of `part` range by range; key numbers ascend with key groups."""
        if not bool(np.all(part.keys[1:] >= part.keys[:-1])):
            order = np.argsort(part.keys, kind="stable")
            part = Part(part.keys[order], part.rows.take(pa.array(order)))
        firsts = [self.keys.range(number, self.replay.ranges).first for number in range(self.replay.ranges)]
        bounds = np.searchsorted(
            part.keys, np.searchsorted(keys.groups, [*firsts, self.keys.max_parallelism])
        ).tolist()
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            if start < end:
                part_of_range = Part(part.keys[start:end], part.rows.slice(start, end - start))
                yield (
                    number,
                    pack(mark_table(name, with_keys(part_of_range.rows, part_of_range.keys, keys.distinct))),
                )

    def _spread(self, late: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Late rows to the ranges of their keys: no task has them all."""
        ranges = self.replay.ranges
        numbers = late.column("key_group").to_numpy().astype(np.int64) * ranges // self.keys.max_parallelism
        for number in np.unique(numbers).tolist():
            yield number, mark_table("late_events", late.filter(pa.array(numbers == number)))

    def _late(self, late: Late, elements: BatchElements, keys: KeyNumbers) -> pa.Table:
        positions = late.positions
        groups = pa.array(keys.groups[elements.keys[positions]].astype(np.int32))
        schema = table_schemas(self.replay.shape)["late_events"]
        return late_table(late, elements.full_rows(positions), groups, schema, self.replay.shape)

    def _folded(self, quarantined: pa.Table) -> int:
        """How many quarantined rows arrived before the slice."""
        arrivals = quarantined.column("arrival_time")
        return int(
            pc.sum(
                pc.less(arrivals, pa.scalar(self.judge.from_ms * 1000, pa.int64()).cast(arrivals.type))
            ).as_py()
            or 0
        )


@dataclass(frozen=True)
class _Whole:
    """Whole rows of a batch by the positions of its elements."""

    batch: SourceBatch
    judged_batch: JudgedBatch

    def __call__(self, positions: Longs) -> pa.Table:
        rows_of_batch = self.judged_batch.positions
        return self.batch.full_rows(positions if rows_of_batch is None else rows_of_batch[positions])


@dataclass(frozen=True)
class MergeRange:
    """Range task: merge, fire and park the windows of one key-group range."""

    replay: Replay
    keys: Keys
    family: Family

    def __call__(self, number: int, received: Iterable[pa.Table]) -> Iterable[pa.Table]:
        return RangeWork(self.replay, self.keys, self.family, number).run(received)
