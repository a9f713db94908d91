"""The columnar engine's tasks, for built-in windows and commutative aggregates: a map task splits batches
into parts for the key-group ranges, a range task merges the parts. Rows that are deduplicated are split in
the range, where all rows of a key are.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import bind_select
from slackwater.engine.columnar.families import BatchElements, Family, LateRows, Part, Setting
from slackwater.engine.columnar.firing import late_table
from slackwater.engine.columnar.range import RangeMerge
from slackwater.engine.columnar.windows import family_of
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.replaying.results import (
    collect,
    counts_table,
    folded_count,
    mark_table,
    name_of,
    read_counts,
    rows_of_source,
    spread_quarantine_rows,
)
from slackwater.engine.replaying.sent_elements import ReceivedElements, SentTables, divide, replay_elements
from slackwater.engine.rows.columns_read import KEY_GROUP, SOURCE_FILE, columns_read
from slackwater.engine.rows.judge import Judge, JudgedBatch
from slackwater.engine.rows.key_numbers import (
    KeyNumbers,
    numbers_between,
    with_keys,
    with_own_dictionaries,
)
from slackwater.engine.rows.key_ranges import range_cuts
from slackwater.engine.rows.keys import Keys
from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.row_groups import ROWS_AT_ONCE
from slackwater.engine.source.scan import Batches
from slackwater.engine.transport.in_process import Transport
from slackwater.engine.transport.packing import pack
from slackwater.tables.schemas import table_schemas
from slackwater.windowing.columnar.arrays.columns import Longs

LATE, QUARANTINE = "late_events", "quarantine"


class ColumnarEngine:
    """Runs pipelines whose windows have a columnar form; the planner gives it no others."""

    name = "columnar"
    aggregates_first = True
    in_threads = True

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        keys = Keys.of(replay.pipeline, replay.schema)
        family = family_of(setting_of(replay))
        if replay.pipeline.distinct_by is not None:
            return replay_elements(replay, keys, transport, MergeFirstRows(replay, keys, family))
        task = SplitBatches(replay, Judge.of(replay.pipeline, replay.scan), keys, family)
        columns_first = (name for name in family.setting.source_columns if name not in replay.pipeline.derive)
        scan = dataclasses.replace(replay.scan, first=tuple(columns_first))
        return collect(transport.shuffle(scan, task, replay.ranges, MergeRange(replay, keys, family)))


def setting_of(replay: Replay) -> Setting:
    types = {field.name: field.type for field in replay.schema}
    return Setting(
        pipeline=replay.pipeline,
        shape=replay.shape,
        aggregates=tuple(bind_select(replay.pipeline, types).values()),
        timeline=replay.timeline,
        source_columns=columns_read(replay.pipeline, replay.schema.names),
    )


@dataclass(frozen=True)
class SplitBatches:
    """Map task: judge and aggregate rows; parts go to the ranges of their keys, counts to range 0."""

    replay: Replay
    judge: Judge
    keys: Keys
    family: Family

    def __call__(self, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        sent_tables = SentTables(self.replay.ranges, self.replay.state_memory_mb, self._route)
        counts = Counter[str]()
        for batch in batches:
            for table in self._split_batch(batch, counts):
                yield from sent_tables.send(table)
        yield from sent_tables.send_the_rest()
        yield 0, counts_table(counts)

    def _split_batch(self, batch: SourceBatch, counts: Counter[str]) -> Iterator[pa.Table]:
        judged_batch = self.judge.judge_batch(batch)
        quarantine_rows, rows = judged_batch.quarantine_rows, judged_batch.elements
        counts.update(
            {
                **rows_of_source(batch.source, judged_batch.rows_read),
                "rows_read": judged_batch.rows_read,
                "rows_filtered": judged_batch.filtered_count,
                "rows_exploded": judged_batch.exploded_count,
                "rows_quarantined": quarantine_rows.num_rows,
                "rows_folded": self.judge.folded_count(batch, rows)
                + folded_count(quarantine_rows, self.judge.from_ms)
                + judged_batch.filtered_folded_count,
            }
        )
        if quarantine_rows.num_rows:
            yield mark_table(QUARANTINE, quarantine_rows)
        read_full_rows = (
            None if batch.read_full_rows is None else partial(self._full_rows, batch, judged_batch)
        )
        yield from self.split_elements(rows, counts, read_full_rows)

    def split_elements(
        self,
        rows: pa.Table,
        counts: Counter[str],
        read_full_rows: Callable[[Longs], pa.Table] | None = None,
    ) -> Iterator[pa.Table]:
        """The parts, which have their keys beside them and ascend by key group, and the late rows of these
        elements, which are added to `counts`.
        """
        if not rows.num_rows:
            return
        keys = KeyNumbers.from_batch(rows, self.keys)
        elements = BatchElements.of(rows, keys.numbers, self.family.setting, read_full_rows)
        split = self.family.split(elements)
        counts.update(split.counts)
        for name, part in split.parts.items():
            if part.rows.num_rows:
                ascending = _by_key(part)
                yield pack(mark_table(name, with_keys(ascending.rows, ascending.keys, keys.distinct)))
        if split.late is not None and len(split.late.positions):
            yield mark_table(LATE, self._late_rows(split.late, elements, keys))

    def _full_rows(self, batch: SourceBatch, judged_batch: JudgedBatch, positions: Longs) -> pa.Table:
        """Every column of the source, and the derived ones, of some elements of a batch."""
        rows_of_batch = judged_batch.positions
        rows = batch.full_rows(positions if rows_of_batch is None else rows_of_batch[positions])
        return self.judge.with_derived_columns(rows)

    def _route(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a table for each range: parts packed, late rows by their keys."""
        name, ranges = name_of(table), self.replay.ranges
        if name == QUARANTINE:
            yield from spread_quarantine_rows(table, ranges)
        elif name == LATE:
            yield from divide(
                table, self.keys.range_numbers(table, table.column("key_group").to_numpy(), ranges)
            )
        else:
            cuts = range_cuts(ranges, self.keys.max_parallelism)
            for number, rows in divide(table, numbers_between(cuts, table, self.keys)):
                yield number, with_own_dictionaries(rows)

    def _late_rows(self, late: LateRows, elements: BatchElements, keys: KeyNumbers) -> pa.Table:
        positions = late.positions
        groups = pa.array(keys.groups[elements.keys[positions]].astype(np.int32))
        schema = table_schemas(self.replay.shape)["late_events"]
        return late_table(late, elements.full_rows(positions), groups, schema, self.replay.shape)


@dataclass(frozen=True)
class MergeRange:
    """Range task: merge, fire and park the windows of one key-group range."""

    replay: Replay
    keys: Keys
    family: Family

    def __call__(self, number: int, tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
        return RangeMerge(self.replay, self.keys, self.family, number).run(tables)


@dataclass(frozen=True)
class MergeFirstRows:
    """Range task of a pipeline with `distinct_by`: deduplicate the elements, split and merge them."""

    replay: Replay
    keys: Keys
    family: Family

    def __call__(self, number: int, tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
        range_elements = ReceivedElements(self.replay, self.keys, number)
        yield from range_elements.receive(tables)
        rows = range_elements.rows
        rows = rows.drop_columns([name for name in (KEY_GROUP, SOURCE_FILE) if name in rows.column_names])
        yield from RangeMerge(self.replay, self.keys, self.family, number).run(self._split(rows))

    def _split(self, rows: pa.Table) -> Iterator[pa.Table]:
        splitting = SplitBatches(
            self.replay, Judge.of(self.replay.pipeline, self.replay.scan), self.keys, self.family
        )
        counts = Counter[str]()
        for first in range(0, rows.num_rows, ROWS_AT_ONCE):
            piece = rows.slice(first, ROWS_AT_ONCE)
            counts.update(read_counts(piece, self.replay.scan.from_ms))
            yield from splitting.split_elements(piece, counts)
        yield counts_table(counts)


def _by_key(part: Part) -> Part:
    if bool(np.all(part.keys[1:] >= part.keys[:-1])):
        return part
    order = np.argsort(part.keys, kind="stable")
    return Part(part.keys[order], part.rows.take(pa.array(order)))
