"""Tasks are sized by what one may take: the ranges of a slice, the parts of a range, and the bound that the
source's log gives.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.columnar import range as columnar_range
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying import results, sent_elements
from slackwater.engine.replaying.replay import Engine, Outcome
from slackwater.engine.replaying.results import name_of
from slackwater.engine.replaying.task_memory import (
    ROWS_WORTH_A_PART,
    ROWS_WORTH_A_RANGE,
    most_partials,
    most_rows_of_range,
    parts_of,
    ranges_for,
    rows_at_once,
    rows_in,
    rows_merged,
    rows_of_range,
)
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess, MapTask, RangeTask
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.written_files import write_file
from slackwater.windowing import (
    CountTrigger,
    CumulateEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.integration.stored import ROOT
from tests.model import records as model
from tests.properties.slices import Replayed, pipeline_of, replay_pipeline
from tests.properties.test_split_and_parallelism import left

TIME = pa.timestamp("us", tz="UTC")
START = datetime(2024, 1, 1, tzinfo=UTC)
RULES = model.Replay(0, 400, 10, 20, model.Tumbling(100), allowed_lateness=50)
EVENTS = [
    model.Event(
        10 * n - (60 if n % 7 == 0 else 0), 10 * n, "s", n, f"key {n % 5}", {"x": n % 5, "y": float(n)}
    )
    for n in range(1, 40)
]


def test_a_range_that_does_not_fit_is_merged_in_parts_and_leaves_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged: list[KeyRange] = []

    def recorded_parts(key_range: KeyRange, rows: int, limit_mb: int) -> list[KeyRange]:
        parts = parts_of(key_range, rows, limit_mb)
        merged.extend(parts)
        return parts

    monkeypatch.setattr(columnar_range, "parts_of", recorded_parts)
    pipeline = pipeline_of(RULES, purging=False)
    in_one_part = replay_pipeline(pipeline, EVENTS, RULES, [190], [1], engines=[ColumnarEngine()])
    assert merged == [KeyRange.from_groups(0, 127)] * 2
    parts = replay_pipeline(
        pipeline, EVENTS, RULES, [190], [1], file_rows=1, engines=[ColumnarEngine()], state_memory=[0]
    )
    assert len(merged) - 2 > 20
    assert {**left(parts), "hashes": parts.hashes} == {**left(in_one_part), "hashes": in_one_part.hashes}


@pytest.mark.parametrize("engine", [ColumnarEngine(), OperatorEngine()], ids=["columnar", "operator"])
@pytest.mark.parametrize(
    ("file_rows", "driver_bytes", "by_range"),
    [(4, 10_000, [6, 6, 6]), (7, 10_000, []), (7, 1_000, [6, 6, 6])],
    ids=["many", "few", "few that are large"],
)
def test_unusable_rows_are_shared_out_to_ranges_and_stay_there_as_files_where_they_are_many(
    engine: Engine, file_rows: int, driver_bytes: int, by_range: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "DRIVER_BYTES", driver_bytes)
    outcomes: list[Outcome] = []
    replay = type(engine).replay
    monkeypatch.setattr(
        type(engine), "replay", lambda *arguments: outcomes.append(replay(*arguments)) or outcomes[-1]
    )
    unusable = [model.Event(100, 100 + n, "s", 100 + n, None if n % 2 else "key", {}) for n in range(36)]
    pipeline = pipeline_of(RULES, purging=False)
    left = replay_pipeline(pipeline, [*EVENTS, *unusable], RULES, [], [3], file_rows, engines=[engine])
    [outcome] = outcomes
    assert [file.rows for file in outcome.files.get("quarantine", [])] == by_range
    assert sum(part.num_rows for part in outcome.rows.get("quarantine", [])) == 18 - sum(by_range)
    assert {(row["reason_code"], row["source_version"]) for row in left.quarantined} == {("null_key", 0)}
    assert len({row["row_json"] for row in left.quarantined}) == outcome.counts["rows_quarantined"] == 18


class OneByOne(InProcess):
    """Gives a range one table after the other, and notes how many rows it has at most that it only
    passes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most_held = self.largest = 0

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        def arguments(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
            for table in tables:
                rows = table.num_rows if name_of(table) in ("late_events", "quarantine") else 0
                self.held, self.largest = self.held + rows, max(self.largest, rows)
                self.most_held = max(self.most_held, self.held)
                yield table

        def noted(number: int, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
            for table in reduce(number, arguments(tables)):
                self.held -= (
                    sum(file["rows"] for file in table.to_pylist())
                    if name_of(table).startswith("files of ") and self.held
                    else 0
                )
                yield table

        return super().shuffle(scan, task, ranges, noted)


@pytest.mark.parametrize("engine", [ColumnarEngine(), OperatorEngine()], ids=["columnar", "operator"])
def test_rows_that_are_passed_on_become_files_before_more_are_taken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(RULES, purging=False)
    late = [model.Event(10 * n - 390, 10 * n, "s", n, "key", {"x": n}) for n in range(20, 40)]
    unusable = [model.Event(100, 200 + n, "s", 200 + n, None, {}) for n in range(36)]

    def run(transport: OneByOne) -> Replayed:
        return replay_pipeline(
            pipeline, [*EVENTS, *late, *unusable], RULES, [], [1], 1, engines=[engine], transport=transport
        )

    together, one_by_one = OneByOne(), OneByOne()
    in_one_part = run(together)
    assert (together.most_held, together.held) == ({"columnar": 20, "operator": 0}[engine.name] + 36, 0)
    monkeypatch.setattr(sent_elements, "MOST_WAITING_BYTES", 0)
    monkeypatch.setattr(results, "PASSING_BYTES", 1)
    parts = run(one_by_one)
    assert one_by_one.most_held == one_by_one.largest == 18 and one_by_one.held == 0
    assert {**left(parts), "hashes": parts.hashes} == {**left(in_one_part), "hashes": in_one_part.hashes}
    assert (len(parts.late), len(parts.quarantined)) == (20, 36)


@pytest.mark.slow
def test_memory_is_that_of_the_process_and_not_of_the_one_that_started_it() -> None:
    script = (
        "from slackwater.engine.replaying.results import collect, range_counts; "
        "print(collect([range_counts({})]).memory_mb)"
    )
    large = (
        "import subprocess, sys; held = bytearray(b'x') * (700 << 20); subprocess.run([sys.executable, "
        "'-c', sys.argv[1]], check=True)"
    )
    process = subprocess.run(
        [sys.executable, "-c", large, script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert 20 < int(process.stdout) < 600


@pytest.mark.parametrize(("count", "number"), [(1, 1), (2, 2), (3, 4), (5, 8), (32, 32), (60, 60), (200, 60)])
def test_parts_divide_the_key_groups_of_a_range(count: int, number: int) -> None:
    owned = KeyRange.from_groups(40, 99)
    parts = parts_of(owned, count * rows_of_range(1), 1)
    assert [group for part in parts for group in part.key_groups] == [*range(40, 100)]
    assert len(parts) == number, "a power of two, but more than there are key groups only where that pays"
    assert len(parts_of(owned, count << 20, 1 << 20)) == 1 << (count - 1).bit_length(), (
        "not too many rows at once, however much memory there is"
    )


@pytest.mark.parametrize(("rows", "number"), [(1 << 20, 1), (1 << 21, 2), (1 << 24, 16)])
def test_parts_divide_a_key_group_of_many_rows(rows: int, number: int) -> None:
    parts = parts_of(KeyRange.from_groups(7, 7), rows, 1024)
    assert len(parts) == number and {*parts[0].key_groups, *parts[-1].key_groups} == {7}
    assert len(parts_of(KeyRange.from_groups(7, 7), rows, 1)) == rows // ROWS_WORTH_A_PART


def test_few_rows_are_one_range_many_keep_all_slots_busy_and_none_is_too_large() -> None:
    pipeline, most = sized(TumblingEventTimeWindows.of(timedelta(seconds=10)), None), rows_of_range(1024)
    assert ranges_for(pipeline, 0, most, 16) == ranges_for(pipeline, 150_000, most, 16) == 1
    assert ranges_for(pipeline, 1_000_000, most, 2) == 2
    assert ranges_for(pipeline, 100_000_000, most, 2) % 2 == 0
    assert 100_000_000 / ranges_for(pipeline, 100_000_000, most, 3) <= most
    assert rows_at_once(0) == 1 < rows_at_once(16) < rows_at_once(1024)


@pytest.mark.parametrize("max_parallelism", [1, 2, 128])
def test_ranges_divide_key_groups_where_the_rows_need_it_but_not_a_single_key(max_parallelism: int) -> None:
    window = TumblingEventTimeWindows.of(timedelta(seconds=10))
    pipeline = replace(sized(window, None), max_parallelism=max_parallelism)
    most, one = rows_of_range(1024), rows_of_range(0)
    # 2^30 bytes hold 2,684,354 rows of 400 bytes.
    assert [ranges_for(pipeline, rows, most, 2) for rows in (10**8, 10**10)] == [38, 3726]
    assert ranges_for(pipeline, 10**8, one, 2) == 10**8 // ROWS_WORTH_A_RANGE
    assert ranges_for(pipeline, 50_000, one, 2) == max_parallelism, "so few rows are no more than its groups"
    assert ranges_for(replace(pipeline, key_by=None), 10**10, most, 2) == max_parallelism


NARROW = {"n": agg.count(), "least": agg.min("code")}


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        # A third of 2^30 bytes holds 8,947,848 waiting rows of 40 bytes, beside 2^20 rows that are merged.
        ({"select": NARROW}, 8_947_848),
        ({"select": {**NARROW, "total": agg.sum("code")}}, 2_684_354),
        ({"select": {"distinct": agg.count_distinct("code")}}, 2_684_354),
        ({"select": {"last": agg.last("code")}}, 2_684_354),
        ({"key_by": ["name"]}, 2_684_354),
        ({"window": EventTimeSessionWindows.with_gap(timedelta(seconds=10))}, 2_684_354),
        ({"trigger": CountTrigger.of(3)}, 2_684_354),
        ({"distinct_by": ["code"]}, 2_684_354),
    ],
    ids=["narrow", "more numbers", "sets", "any value", "texts", "sessions", "elements", "rows"],
)
def test_a_range_takes_more_rows_than_it_merges_at_once_where_they_wait_as_few_integers(
    changes: dict[str, Any], most: int, tmp_path: Path
) -> None:
    pipeline = replace(sized(TumblingEventTimeWindows.of(timedelta(seconds=10)), None), **changes)
    source(tmp_path, pa.array(range(3)), [0, 1, 2])
    pinned = pin(pipeline.source, str(tmp_path / "events"))
    assert most_rows_of_range(pipeline, [pinned], ColumnarEngine(), 1024) == most
    assert most_rows_of_range(pipeline, [pinned], ColumnarEngine(), 24) == rows_of_range(24)
    assert most_rows_of_range(pipeline, [pinned], OperatorEngine(), 1024) == 2_684_354


def source(folder: Path, keys: pa.Array, seconds: list[int]) -> None:
    times = pa.array([START + timedelta(seconds=second) for second in seconds], TIME)
    numbers = pa.array([7] * len(keys))
    rows = pa.table({"key": keys, "code": numbers, "name": numbers.cast(pa.string()), "event_time": times})
    table = Folder(str(folder / "events"), rows.schema)
    table.ensure()
    table.commit_files([write_file(table.uri, "part-0.parquet", rows, {})])


@pytest.mark.parametrize(
    ("window", "most"),
    [
        (TumblingEventTimeWindows.of(timedelta(seconds=10)), 3 * (2 + 2)),
        (SlidingEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=5)), 3 * (4 + 2)),
        (SlidingEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=4)), 3 * (5 + 2) * 2),
        (CumulateEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=5)), 3 * (4 + 2)),
        (EventTimeSessionWindows.with_gap(timedelta(seconds=10)), 1_000),
    ],
)
def test_keys_and_times_between_the_bounds_of_a_file_limit_what_is_sent(
    window, most: int, tmp_path: Path
) -> None:
    source(tmp_path, pa.array([n % 3 + 5 for n in range(1_000)]), [n % 21 for n in range(1_000)])
    assert partials(tmp_path, window) == most


def test_keys_without_bounds_limit_nothing(tmp_path: Path) -> None:
    source(tmp_path, pa.array([f"{n % 3}" for n in range(1_000)]), [0] * 1_000)
    assert partials(tmp_path, TumblingEventTimeWindows.of(timedelta(seconds=10))) == 1_000


@pytest.mark.parametrize(
    ("trigger", "most"), [(CountTrigger.of(3), 1_000), (PurgingTrigger.of(EventTimeTrigger()), 12)]
)
def test_a_trigger_that_sees_elements_one_by_one_is_sent_all(trigger, most: int, tmp_path: Path) -> None:
    source(tmp_path, pa.array([n % 3 + 5 for n in range(1_000)]), [n % 21 for n in range(1_000)])
    assert partials(tmp_path, TumblingEventTimeWindows.of(timedelta(seconds=10)), trigger) == most


@pytest.mark.parametrize(
    ("window", "trigger", "worth"),
    [
        (TumblingEventTimeWindows.of(timedelta(seconds=10)), None, 1),
        (
            SlidingEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=4)),
            PurgingTrigger.of(EventTimeTrigger()),
            1,
        ),
        (TumblingEventTimeWindows.of(timedelta(seconds=10)), CountTrigger.of(3), 2),
        (
            SlidingEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=4)),
            PurgingTrigger.of(CountTrigger.of(3)),
            4,
        ),
        (GlobalWindows.create(), EventTimeTrigger(), 2),
    ],
)
def test_elements_that_travel_are_worth_a_row_and_one_for_each_of_their_windows(
    window, trigger, worth: int
) -> None:
    assert rows_merged(sized(window, trigger), 1_000) == worth * 1_000


def partials(folder: Path, window, trigger=None) -> int:
    pipeline = sized(window, trigger)
    pinned = pin(pipeline.source, str(folder / "events"))
    files = pinned.files(0, 2**50, "event_time", None)
    assert rows_in(files) == 1_000
    return most_partials(pipeline, pinned, files)


def sized(window, trigger) -> Pipeline:
    return Pipeline(
        name="sized",
        source=DeltaSource("events", event_time="event_time", order="event"),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)),
        key_by=["key", "code"],
        window=window,
        trigger=trigger,
        select={"n": agg.count()},
        start="2024-01-01",
    )
