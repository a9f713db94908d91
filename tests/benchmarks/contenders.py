"""Who is measured: the reference loops, the window operator bare and as replays run it, and bytewax where it
is installed.

Each takes a workload and its rows and gives what it has fired, dropped and still holds. No clocks and no
tables here.
"""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from slackwater.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from slackwater.windowing.folds import AggregateFunction
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import LONG
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from tests.benchmarks.reference import Firing, generic_loop, inlined_loop
from tests.benchmarks.workloads import START, TICK, Rows, Workload

MAX_PARALLELISM = 128


class Outcome(NamedTuple):
    """What a contender came to.

    Attributes:
        firings: of every window, late ones included, in any order.
        dropped: rows that no window took.
        still_open: windows that are left; None if the contender does not tell.
    """

    firings: list[Firing]
    dropped: int
    still_open: int | None


# Prepares; returns what is to be measured, and that returns what reads the outcome out of it.
Contender = Callable[[Workload, Rows], Callable[[], Callable[[], Outcome]]]


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, int]:
        return accumulator[0], accumulator[1]


def _config(workload: Workload) -> WindowOperatorConfig:
    if workload.size == workload.slide:
        assigner: Any = TumblingEventTimeWindows(size_ms=workload.size)
    else:
        assigner = SlidingEventTimeWindows(size_ms=workload.size, slide_ms=workload.slide)
    return (
        WindowOperatorBuilder(LONG, assigner).allowed_lateness_ms(workload.lateness).aggregate(CountAndSum())
    )


class _Firings:
    """An operator's output."""

    def __init__(self) -> None:
        self.firings: list[Firing] = []

    def collect(self, value: tuple[int, int], timestamp: int | None, window: Any, key: Any) -> None:
        self.firings.append((key, window.start, *value))

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        raise AssertionError("late elements have no side output here")

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        raise AssertionError("there are no side outputs here")


class _Timeline:
    """The rows' watermarks, as a runner takes them."""

    def __init__(self, rows: Rows) -> None:
        self.initial = -(1 << 62)
        self.collected_mark = -(1 << 63)
        self.tick_ends = array("q", (START + TICK * (tick + 1) for tick in range(len(rows.watermarks))))
        self.watermarks = array("q", rows.watermarks)


Loop = Callable[[Workload, Rows], tuple[list[Firing], int, int]]


def reference(loop: Loop) -> Contender:
    """A plain loop."""

    def prepare(workload: Workload, rows: Rows) -> Callable[[], Callable[[], Outcome]]:
        def run() -> Callable[[], Outcome]:
            outcome = Outcome(*loop(workload, rows))
            return lambda: outcome

        return run

    return prepare


def operator(workload: Workload, rows: Rows) -> Callable[[], Callable[[], Outcome]]:
    """The window operator without a listener."""

    def run() -> Callable[[], Outcome]:
        output = _Firings()
        machine = WindowOperator(
            _config(workload), output, ReplayProcessingTimeService(START), max_parallelism=MAX_PARALLELISM
        )
        machine.open()
        process_element = machine.process_element
        tick = 0
        for key, timestamp, value, at in zip(
            rows.keys, rows.timestamps, rows.values, rows.ticks, strict=True
        ):
            while tick < at:
                machine.process_watermark(rows.watermarks[tick])
                tick += 1
            process_element(key, value, timestamp)
        for watermark in rows.watermarks[tick:]:
            machine.process_watermark(watermark)
        return lambda: Outcome(
            output.firings,
            machine.late_records_dropped,
            sum(len(state) for state in machine.backend.states()),
        )

    return run


def replay(workload: Workload, rows: Rows) -> Callable[[], Callable[[], Outcome]]:
    """What a Spark task runs: the operator under a KeyGroupRunner, which moves the clock and logs every
    window's life.
    """

    def run() -> Callable[[], Outcome]:
        runner = KeyGroupRunner(
            _config(workload),
            key_groups=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            order_mode=OrderMode.ROCKSDB,
            timeline=_Timeline(rows),
            from_ms=START,
        )
        process_element = runner.process_element
        for key, timestamp, value, arrival in zip(
            rows.keys, rows.timestamps, rows.values, rows.arrivals, strict=True
        ):
            process_element(key, value, timestamp, arrival)
        runner.finish(START + TICK * len(rows.watermarks))

        def read() -> Outcome:
            firings = [(pane.key, pane.window.start, *pane.result) for pane in runner.panes]
            return Outcome(firings, len(runner.late_elements), runner.counts()["windows_open"])

        return read

    return run


def bytewax_is_installed() -> bool:
    return importlib.util.find_spec("bytewax") is not None


def bytewax(workload: Workload, rows: Rows) -> Callable[[], Callable[[], Outcome]]:
    """Bytewax's `fold_window`: every window once, at its end. It waits long enough for all rows, so that
    nothing is late.
    """
    from datetime import UTC, datetime, timedelta

    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators.windowing import EventClock, SlidingWindower, TumblingWindower, fold_window
    from bytewax.testing import TestingSink, TestingSource, run_main

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    milliseconds = timedelta(milliseconds=1)
    times = [epoch + timestamp * milliseconds for timestamp in rows.timestamps]
    source = list(zip(map(str, rows.keys), zip(times, rows.values, strict=True), strict=True))
    clock = EventClock(
        ts_getter=lambda row: row[0],
        wait_for_system_duration=max(workload.late_by) * milliseconds,
        now_getter=lambda: epoch,
        to_system_utc=lambda timestamp: None,
    )
    if workload.size == workload.slide:
        windower: Any = TumblingWindower(align_to=epoch, length=workload.size * milliseconds)
    else:
        windower = SlidingWindower(
            align_to=epoch, length=workload.size * milliseconds, offset=workload.slide * milliseconds
        )

    def add(accumulator: list[int], row: tuple[Any, int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += row[1]
        return accumulator

    def run() -> Callable[[], Outcome]:
        rows_out: list[Any] = []
        late: list[Any] = []
        flow = Dataflow("benchmark")
        stream = op.input("rows", flow, TestingSource(source, batch_size=1000))
        windows = fold_window(
            "windows", stream, clock, windower, lambda: [0, 0], add, lambda a, b: [a[0] + b[0], a[1] + b[1]]
        )
        op.output("out", windows.down, TestingSink(rows_out))
        op.output("late", windows.late, TestingSink(late))
        run_main(flow)

        def read() -> Outcome:
            firings = [
                (int(key), index * workload.slide, counted, total)
                for key, (index, (counted, total)) in rows_out
            ]
            return Outcome(firings, len(late), None)

        return read

    return run


CONTENDERS: dict[str, Contender] = {
    "reference loop, generic": reference(generic_loop),
    "reference loop, inlined": reference(inlined_loop),
    "window operator": operator,
    "replay (operator and log)": replay,
}
