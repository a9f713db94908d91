"""The operator engine: Flink's operators, run element by element. Map tasks judge rows and send them to the
range of their key group; a range task replays them with a `RangeWork`.

The files beside this one replay a range and make its rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.operator.process_range import ProcessRange
from slackwater.jobs.engines.operator.window_range import WindowRange
from slackwater.jobs.engines.replaying.replay import Outcome, Replay
from slackwater.jobs.engines.replaying.results import (
    PassingRows,
    collect,
    counts_table,
    mark_table,
    name_of,
    spread_quarantine_rows,
)
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT, KEY_GROUP, SOURCE_FILE
from slackwater.jobs.engines.rows.element_order import in_order
from slackwater.jobs.engines.rows.judge import Judge
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.engines.source.scan import Batches
from slackwater.jobs.engines.transport.in_process import Transport

_ELEMENTS = "elements"


class OperatorEngine:
    """Exact for every pipeline."""

    name = "operator"
    aggregates_first = False
    in_threads = False

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        judge = Judge.of(replay.pipeline, replay.scan)
        keys = Keys.of(replay.pipeline, replay.schema)
        return collect(
            transport.shuffle(
                replay.scan, MapElements(judge, keys, replay.ranges), replay.ranges, ReplayRange(replay, keys)
            )
        )


@dataclass(frozen=True)
class MapElements:
    """Map task: judge the rows of the slice, send elements to the range of their key group, and the counts of
    rows that the condition leaves out to range 0.
    """

    judge: Judge
    keys: Keys
    ranges: int

    def __call__(self, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        for batch in batches:
            judged_batch = self.judge.judge_batch(batch)
            yield from spread_quarantine_rows(judged_batch.quarantine_rows, self.ranges)
            if judged_batch.filtered_count:
                counts = {
                    "rows_read": judged_batch.filtered_count,
                    "rows_filtered": judged_batch.filtered_count,
                    "rows_folded": judged_batch.filtered_folded_count,
                }
                yield 0, counts_table(counts)
            elements = judged_batch.elements
            if not elements.num_rows:
                continue
            groups = self.keys.groups(elements)
            elements = elements.append_column(KEY_GROUP, pa.array(groups, pa.int32()))
            if self.judge.pipeline.on_error == "quarantine":
                elements = elements.append_column(
                    SOURCE_FILE, pa.repeat(pa.scalar(batch.path, pa.string()), elements.num_rows)
                )
            numbers = self.keys.ranges_of(groups, self.ranges)
            for number in np.unique(numbers).tolist():
                yield number, mark_table(_ELEMENTS, elements.filter(pa.array(numbers == number)))


@dataclass(frozen=True)
class ReplayRange:
    """Range task: replay the elements of one key-group range."""

    replay: Replay
    keys: Keys

    def __call__(self, number: int, tables_of_range: Iterable[pa.Table]) -> Iterable[pa.Table]:
        passing_rows, elements = PassingRows(self.replay, number), [self._empty_elements()]
        quarantined_count = folded_count = 0
        for table in tables_of_range:
            if passing_rows.takes(table):
                quarantined_count += table.num_rows
                folded_count += self._folded_count(table.column("arrival_time"))
                yield from passing_rows.take(table)
            elif name_of(table) == _ELEMENTS:
                elements.append(table.replace_schema_metadata(None))
            else:
                yield table
        yield from passing_rows.hand_over_the_rest()
        yield counts_table(
            {
                "rows_read": quarantined_count,
                "rows_quarantined": quarantined_count,
                "rows_folded": folded_count,
            }
        )
        rows = in_order(self.replay.pipeline, pa.concat_tables(elements))
        work = WindowRange if self.replay.pipeline.keyed_process is None else ProcessRange
        yield from work(self.replay, self.keys, number, rows).run()

    def _empty_elements(self) -> pa.Table:
        """A table of elements without rows."""
        extra_columns = [
            pa.field(ARRIVAL, pa.int64()),
            pa.field(EVENT, pa.int64()),
            pa.field(KEY_GROUP, pa.int32()),
        ]
        if self.replay.pipeline.on_error == "quarantine":
            extra_columns.append(pa.field(SOURCE_FILE, pa.string()))
        return pa.schema([*self.replay.element_fields, *extra_columns]).empty_table()

    def _folded_count(self, arrivals: pa.ChunkedArray) -> int:
        """How many of these arrivals lie before the slice."""
        earlier = pc.less(
            arrivals, pa.scalar(self.replay.scan.from_ms * 1000, pa.int64()).cast(arrivals.type)
        )
        return int(pc.sum(earlier).as_py() or 0)
