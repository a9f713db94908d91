"""Whatever is snapshot as files, restored, rescaled and moved to another state back end in between: results,
state, timers and content hash are those of operators that never stopped.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    EventTimeTrigger,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderMode,
    ProcessingTimeoutTrigger,
    ReducingStateDescriptor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from slackwater.windowing.errors import WindowingError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot, take_snapshot
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import (
    ContentHash,
    SnapshotCodec,
    SnapshotLayout,
    SnapshotTables,
    read_tables,
    write_tables,
)
from tests.properties.search import searched
from tests.properties.windowing_choices import Choice, choices
from tests.properties.windowing_replays import KEYS, MAX_PARALLELISM, Play, Step, elements, scripts

PLACES = st.sampled_from(["memory", "memory", "rocksdb"])


class Cut(NamedTuple):
    """Before which step operators are replaced, by how many, and where those keep state and timers."""

    parallelism: int
    state: str
    timers: str


CUTS = st.dictionaries(
    st.integers(0, 30), st.builds(Cut, st.integers(1, 4), PLACES, PLACES), min_size=1, max_size=3
)


def files_and_back(codec: SnapshotCodec, snapshots: Sequence[OperatorSnapshot]) -> OperatorSnapshot:
    """What several operators leave, each in files of its own, as one snapshot."""
    read = [read_tables(write_tables(codec.to_tables(snapshot)))[0] for snapshot in snapshots]
    return codec.from_tables(SnapshotTables(*(pa.concat_tables(parts) for parts in zip(*read, strict=True))))


def content_hash(codec: SnapshotCodec, snapshots: Sequence[OperatorSnapshot]) -> str:
    total = ContentHash()
    for snapshot in snapshots:
        for name, rows in codec.to_tables(snapshot)._asdict().items():
            total.add(name, rows, without=())
    return str(total)


def remembered(snapshots: Sequence[OperatorSnapshot]) -> tuple[Counter[str], Counter[str]]:
    """Entries and timers, without an order; sessions and maps have none either."""
    entries: Counter[str] = Counter()
    for snapshot in snapshots:
        for entry in snapshot.entries:
            value = sorted(entry.value.items(), key=repr) if entry.kind == "map" else entry.value
            entries[
                repr(
                    entry._replace(value=sorted(value) if entry.state_name == "merging-window-set" else value)
                )
            ] += 1
    timers = Counter(
        repr((part.service, *timer))
        for snapshot in snapshots
        for part in snapshot.timers
        for timer in part.event
    )
    timers += Counter(
        repr((part.service, *timer, 0))
        for snapshot in snapshots
        for part in snapshot.timers
        for timer in part.processing
    )
    return entries, timers


class StoredPlay(Play):
    """Operators of a subject that are replaced through files, where each cut says. `close` when done."""

    def __init__(self, subject: WindowOperatorConfig | type[KeyedProcessFunction], folder: Path) -> None:
        self._subject, self._folder = subject, folder
        self._storages: list[OperatorStorage] = []
        self._place = ("memory", "memory")
        layout = (
            SnapshotLayout.for_windows(subject)
            if isinstance(subject, WindowOperatorConfig)
            else SnapshotLayout.for_process(STRING, states=STATES)
        )
        self.codec = SnapshotCodec(layout)
        super().__init__(self._make_stored)

    def snapshots(self) -> list[OperatorSnapshot]:
        return [
            take_snapshot(operator, owned)
            for operator, owned in zip(self.operators, self._ranges, strict=True)
        ]

    def replace(self, cut: Cut) -> None:
        snapshots = self.snapshots()
        now, [watermark] = (
            self._clocks[0].current_processing_time,
            {snapshot.watermark for snapshot in snapshots},
        )
        before, carried = remembered(snapshots), files_and_back(self.codec, snapshots)
        assert remembered([carried]) == before
        super().close()
        self._place = (cut.state, cut.timers)
        self._start(cut.parallelism, now, [carried])
        for operator in self.operators:
            operator.initialize_watermark(watermark)
        assert remembered(self.snapshots()) == before

    def close(self) -> None:
        super().close()
        for storage in self._storages:
            storage.close()

    def _make_stored(self, output: Any, clock: Any, owned: KeyGroupRange) -> Any:
        state, timers = self._place
        storage = OperatorStorage(state=state, timers=timers, parent=self._folder, memory_mb=16)  # type: ignore[arg-type]  # both are places
        self._storages.append(storage)
        options = {
            "key_groups": owned,
            "max_parallelism": MAX_PARALLELISM,
            "storage": storage,
        }
        if isinstance(self._subject, WindowOperatorConfig):
            return WindowOperator(self._subject, output, clock, order_mode=OrderMode.ROCKSDB, **options)
        return KeyedProcessOperator(self._subject(), STRING, output, clock, **options)


@contextmanager
def playing(subject: Any) -> Iterator[StoredPlay]:
    with tempfile.TemporaryDirectory() as folder:
        play = StoredPlay(subject, Path(folder))
        try:
            yield play
        finally:
            play.close()


def assert_cuts_do_not_show(subject: Any, script: Sequence[Step], cuts: dict[int, Cut]) -> None:
    with playing(subject) as whole, playing(subject) as cut:
        for number, step in enumerate(script):
            if number in cuts:
                cut.replace(cuts[number])
            expected, got = whole.step(step), cut.step(step)
            assert got.error == expected.error
            assert got.by_key_group() == expected.by_key_group()
            assert got.held == expected.held
            if expected.error is not None:
                return
        assert remembered(cut.snapshots()) == remembered(whole.snapshots())
        assert content_hash(cut.codec, cut.snapshots()) == content_hash(whole.codec, whole.snapshots())


@pytest.mark.slow
@settings(max_examples=150)
@given(choices(), scripts(elements(st.integers(-5, 60))), CUTS)
def test_windows_of_every_kind_go_on_from_files(
    choice: Choice, script: list[Step], cuts: dict[int, Cut]
) -> None:
    assert_cuts_do_not_show(choice.config(), script, cuts)


STATES = (
    ValueStateDescriptor("last", sql_type="bigint"),
    MapStateDescriptor("counts", sql_type="int"),
    ListStateDescriptor("all", sql_type="double"),
    ValueStateDescriptor("plain"),
)


class Remembering(KeyedProcessFunction):
    """Keeps state of every kind, declared and not, and timers of both domains; emits all that it remembers,
    but no order of a map.
    """

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(STATES[0])
        self.counts = runtime_context.get_map_state(STATES[1])
        self.all = runtime_context.get_list_state(STATES[2])
        self.plain = runtime_context.get_state(STATES[3])
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b))
        self.nested = runtime_context.get_map_state(MapStateDescriptor("nested"))

    def process_element(self, value: int, context: Any) -> Any:
        self.counts.put(value % 3, (self.counts.get(value % 3) or 0) + 1)
        self.nested.put((value, None), {"seen": [self.last.value()]})
        self.all.add(value / 7)
        self.total.add((value,))
        if value == 9:
            self.all.clear()
            self.counts.remove(0)
            self.plain.clear()
        else:
            self.plain.update({value: float("inf"), "b": bytes([value])})
        self.last.update(value * 10**15)
        context.timer_service.register_event_time_timer(value * 5)
        context.timer_service.register_processing_time_timer(40 - value)
        yield self._everything()

    def on_timer(self, timestamp: int, context: Any) -> Any:
        self.last.update(timestamp)
        yield (timestamp, context.time_domain, self._everything())

    def _everything(self) -> Any:
        maps = sorted(self.counts.items()), sorted(self.nested.items(), key=repr)
        return (self.last.value(), maps, self.all.get(), self.plain.value(), self.total.get())


@searched(20, long=100)
@given(scripts(elements(st.integers(-5, 60))), CUTS)
def test_process_functions_go_on_from_files(script: list[Step], cuts: dict[int, Cut]) -> None:
    assert_cuts_do_not_show(Remembering, script, cuts)


TICK, END = 10, 90
GROUPS = {key: key_group_of(key, STRING, MAX_PARALLELISM) for key in KEYS}
SILENT = [
    "reduce",
    "aggregate",
    "reduce in order",
    "aggregate in order",
    "apply",
    "process with state",
]  # without a side output
Arrival = tuple[str, int, int, int]  # key, value, timestamp, arrival


class Rises(NamedTuple):
    """The watermarks of a slice."""

    initial: int
    tick_ends: Any
    watermarks: Any
    collected_mark: int = LONG_MIN


def rises(arrivals: Sequence[Arrival], bound: int, from_ms: int, to_ms: int) -> Rises:
    """Bounded out-of-orderness over all arrivals before each tick's end."""
    ends = range(TICK, END + 1, TICK)
    greatest = [
        max((timestamp for _, _, timestamp, arrival in arrivals if arrival < end), default=None)
        for end in ends
    ]
    known = [(end, time - bound - 1) for end, time in zip(ends, greatest, strict=True) if time is not None]
    inside = [(end, watermark) for end, watermark in known if from_ms < end <= to_ms]
    initial = max((watermark for end, watermark in known if end <= from_ms), default=LONG_MIN)
    return Rises(
        initial,
        np.array([end for end, _ in inside], np.int64),
        np.array([watermark for _, watermark in inside], np.int64),
    )


class Replayed(NamedTuple):
    """What the slices of a replay left together."""

    rows: Counter[str]
    counts: dict[str, int]
    content_hash: str
    error: str | None = None


def replay(
    config: WindowOperatorConfig,
    arrivals: Sequence[Arrival],
    bound: int,
    cuts: Sequence[int],
    ranges: Sequence[int],
) -> Replayed:
    """Slices between the cuts, slice i with ranges[i % n] runners; files hold what is parked in between."""
    codec = SnapshotCodec(SnapshotLayout.for_windows(config))
    rows: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    parked: list[OperatorSnapshot] = []
    bounds = [0, *cuts, END]
    for number, (from_ms, to_ms) in enumerate(itertools.pairwise(bounds)):
        restored = files_and_back(codec, parked) if parked else OperatorSnapshot((), (), LONG_MIN, ())
        parked, held = [], Counter[str]()
        for owned in KeyGroupRange.ranges(ranges[number % len(ranges)], MAX_PARALLELISM):
            runner = KeyGroupRunner(
                config,
                key_groups=owned,
                max_parallelism=MAX_PARALLELISM,
                order_mode=OrderMode.ROCKSDB,
                timeline=rises(arrivals, bound, from_ms, to_ms),
                from_ms=from_ms,
            )
            runner.restore(restored)
            try:
                for key, value, timestamp, arrival in arrivals:
                    if from_ms <= arrival < to_ms and GROUPS[key] in owned:
                        runner.process_element(key, value, timestamp, arrival)
                runner.finish(to_ms)
            except WindowingError as error:
                return Replayed(Counter(), {}, "", type(error).__name__)
            late = [
                element._replace(position=0) for element in runner.late_elements
            ]  # counted from the start of each slice
            rows += Counter(map(repr, [*runner.panes, *late]))
            for name, count in runner.counts().items():
                (held if name in ("windows_open", "timers_pending") else counts)[name] += count
            parked.append(runner.snapshot())
    return Replayed(rows, {**counts, **held}, content_hash(codec, parked))


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Elements of few keys close to each other, some of them late, so that windows merge, fire again and are
    collected.
    """
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    gaps = st.tuples(st.sampled_from(keys), st.integers(0, 9), st.integers(-3, 30), st.integers(0, 5))
    rows, now = [], 0
    for key, value, delay, gap in draw(st.lists(gaps, min_size=6, max_size=40)):
        now += gap
        if now < END:
            rows.append((key, value, now - delay, now))
    return rows


def test_a_window_that_has_lost_its_timer_for_cleanup_stays_over_a_cut_as_it_does_without() -> None:
    """Cleared by its timeout, the trigger deletes the timer of the window's end, which without lateness is
    that for cleanup too.
    """
    trigger = ProcessingTimeoutTrigger.of(
        EventTimeTrigger(), timedelta(milliseconds=4), clears_on_timeout=True
    )
    choice = Choice(
        TumblingEventTimeWindows.of(timedelta(milliseconds=10)),
        trigger,
        None,
        "aggregate",
        has_late_output=False,
    )
    arrivals = [("", 0, 0, 0), ("", 0, -1, 0)]
    whole, cut = (replay(choice.config(), arrivals, 0, cuts, [1]) for cuts in ([], [10]))
    assert whole.counts["windows_open"] == 2 and whole.counts["windows_cleaned"] == 0
    assert cut == whole


@pytest.mark.slow
@settings(max_examples=200)
@given(
    choices(SILENT),
    arrivals(),
    st.sampled_from([0, 12]),
    st.sets(st.integers(1, END - 1), min_size=1, max_size=4).map(sorted),
    st.lists(st.sampled_from([1, 2, 8]), min_size=1, max_size=3),
)
def test_slices_of_a_replay_leave_what_one_run_leaves(
    choice: Choice, arrivals: list[Arrival], bound: int, cuts: list[int], ranges: list[int]
) -> None:
    config = choice.config()
    whole, cut = replay(config, arrivals, bound, [], [1]), replay(config, arrivals, bound, cuts, ranges)
    assert cut.error == whole.error
    assert cut.rows == whole.rows
    assert cut.counts == whole.counts
    assert cut.content_hash == whole.content_hash
