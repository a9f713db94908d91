"""The pass over a slice gives the timeline of the element-by-element model, into however many ranges its
source partitions are divided, and what comes to the driver does not grow with ticks times partitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress, one_a_tick
from slackwater.engine.rows.tick_pass import (
    LowestOfRange,
    range_of,
    tick_maxima,
    timeline_from,
    timeline_of,
)
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess, MapTask, RangeTask
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy
from slackwater.windowing.columnar.timeline.source_progress import TickAggregates
from tests.windowing.columnar.timeline.timeline_model import Element, progress_at, watermarks_by_tick_end

TIME = pa.timestamp("us", tz="UTC")
NAMES = ("a", "b", "c", "d")
START = 1_700_000_000_000
TICK = 200
PARTITIONS = 100
TICKS = 300


@st.composite
def passes(draw: st.DrawFn) -> tuple[list[Element], WatermarkStrategy, tuple[int, int, int], int, int]:
    """Elements, strategy, a slice with a cut, into how many tasks the elements and into how many ranges their
    source partitions are divided.
    """
    from_ms = draw(st.integers(-60, 20))
    to_ms = from_ms + draw(st.integers(1, 120))
    element = st.builds(Element, st.integers(0, 3), st.integers(from_ms, to_ms - 1), st.integers(-100, 100))
    elements = draw(st.lists(element, max_size=30))
    strategy = WatermarkStrategy.bounded_out_of_orderness(
        timedelta(milliseconds=draw(st.integers(0, 20)))
    ).with_interval(timedelta(milliseconds=draw(st.integers(1, 15))))
    timeout = draw(st.none() | st.integers(1, 60))
    if timeout is not None:
        strategy = strategy.with_idleness(timedelta(milliseconds=timeout))
    bounds = from_ms, draw(st.integers(from_ms, to_ms)), to_ms
    return elements, strategy, bounds, draw(st.integers(1, 4)), draw(st.integers(1, 4))


def ticks_of_tasks(
    elements: Sequence[Element], strategy: WatermarkStrategy, tasks: int
) -> Iterator[pa.Table]:
    """What each task sends of its elements."""
    for task in range(tasks):
        own_elements = elements[task::tasks]
        ticks = TickAggregates.from_elements(
            [element.partition for element in own_elements],
            [element.arrival for element in own_elements],
            [element.event_time for element in own_elements],
            interval_ms=strategy.interval_ms,
        )
        names = pa.array(NAMES).take(pa.array(ticks.partitions))
        columns = [names, ticks.max_event_ms, ticks.last_arrival_ms]
        yield one_a_tick([pa.table(columns, ["partition", "max_event_ms", "last_arrival_ms"])], strategy)


@given(passes())
def test_ranges_and_tasks_and_cuts_give_the_watermarks_and_the_progress_of_the_model(drawn) -> None:
    elements, strategy, bounds, tasks, ranges = drawn
    progress, changes, initial = Progress.none(), list[tuple[int, int]](), None
    for from_ms, to_ms in pairwise(bounds):
        own_elements = [element for element in elements if from_ms <= element.arrival < to_ms]
        sent = list(ticks_of_tasks(own_elements, strategy, tasks))
        reduce = LowestOfRange(strategy, from_ms, to_ms, progress, ranges)
        parts = []
        for number in range(ranges):
            of_number = pa.array([name for name in NAMES if range_of(name, ranges) == number], pa.string())
            is_of_number = [
                pa.compute.is_in(table.column("partition").cast(pa.string()), value_set=of_number)
                for table in sent
            ]
            parts += reduce(
                number, [table.filter(mask) for table, mask in zip(sent, is_of_number, strict=True)]
            )
        timeline, progress = timeline_from(parts, strategy, from_ms, to_ms, progress)
        initial = timeline.initial if initial is None else initial
        changes += zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True)

    facts = {
        "idle_timeout": strategy.idle_timeout_ms,
        "interval": strategy.interval_ms,
        "from_ms": bounds[0],
        "to_ms": bounds[-1],
    }
    expected = watermarks_by_tick_end(elements, bound=strategy.out_of_orderness_ms, **facts)
    assert changes == [
        (end, watermark)
        for (_, before), (end, watermark) in pairwise([(None, initial), *expected.items()])
        if watermark > before
    ]
    after, of_model = progress.per_partition, progress_at(elements, **facts)
    assert progress.names == tuple(NAMES[partition] for partition in sorted(of_model))
    assert list(
        zip(after.max_event_ms.tolist(), after.last_arrival_ms.tolist(), after.idle.tolist(), strict=True)
    ) == [of_model[partition] for partition in sorted(of_model)]


class CountingRows(InProcess):
    """Counts the rows that come to the driver, and those that tasks send each other."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_to_driver = self.rows_shuffled = 0

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        def counted(number: int, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
            received = list(tables)
            self.rows_shuffled += sum(table.num_rows for table in received)
            return reduce(number, iter(received))

        parts = super().shuffle(scan, task, ranges, counted)
        self.rows_to_driver += sum(part.num_rows for part in parts)
        return parts


def test_the_driver_holds_a_row_a_tick_and_range_however_many_partitions_there_are(tmp_path: Path) -> None:
    """Every partition has a newer event in every tick, which is the worst case."""
    numbers = np.arange(TICKS * PARTITIONS)
    times = pa.array((START + numbers // PARTITIONS * TICK) * 1000).cast(TIME)
    names = pa.array([f"p{number % PARTITIONS}" for number in numbers])
    table = pa.table({"a": times, "e": times, "p": names, "k": names})
    pq.write_table(table, tmp_path / "part.parquet")
    file = InputFile("part.parquet", (), table.num_rows, 1 << 30, False)
    pipeline = Pipeline(
        name="wide",
        source=DeltaSource("t", event_time="e", arrival_time="a", source_partition="p"),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(seconds=1)).with_interval(
            timedelta(milliseconds=TICK)
        ),
        key_by="k",
        window=TumblingEventTimeWindows.of(timedelta(minutes=1)),
        select={"n": agg.count()},
        start="2020-01-01",
    )
    source = PinnedSource(str(tmp_path), 0, table.schema, None)
    scan = SliceScan(
        source, (file,), tuple(table.column_names), "a", START, START + TICKS * TICK, START - TICK
    )
    judge, transport = Judge.of(pipeline, scan), CountingRows()
    timeline, after = timeline_of(transport, scan, judge, Progress.none())
    assert transport.rows_shuffled == TICKS * PARTITIONS
    assert transport.rows_to_driver <= 32 * (TICKS + 1) + PARTITIONS < TICKS * PARTITIONS
    assert len(timeline) == TICKS and len(after.names) == PARTITIONS

    of_small_files = replace(scan, files=(replace(file, bytes=1),))
    parts = tick_maxima(InProcess(), of_small_files, judge, Progress.none())
    assert sum(part.num_rows for part in parts) == TICKS * PARTITIONS
    strategy = pipeline.watermarks
    assert timeline_from(parts, strategy, scan.from_ms, scan.to_ms, Progress.none()) == (timeline, after)
