"""A try that does not end well keeps its watermark pass; the next one at the same rows by the same rules
makes none and gives the same.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.fs import DeltaStorageHandler
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import PyFileSystem

from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress, one_a_tick
from slackwater.engine.rows.tick_pass import tick_maxima, timeline_from, timeline_of
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess, MapTask, RangeTask
from slackwater.inspection.inspection import Inspection
from slackwater.pipelines import DeltaSource, Pipeline, agg, expect
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.publishing.publish import Publisher
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.redrive import Redrive
from slackwater.runs.staging import tick_cache, validation
from slackwater.runs.staging.rejection import SliceRejected
from slackwater.runs.staging.run import Runner, StageOfSlice
from slackwater.runs.staging.tick_cache import FILE, TickCache
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.attempts import Attempt
from slackwater.tables.ledger.overrides import count_known_to
from slackwater.tables.warehouse import Tables
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy
from tests.runs.world import DAILY, HOUR, START, TIME, Event, World, every_hour, ms


class Broken(Exception):
    """A task fails."""


class Counting(InProcess):
    """Counts passes; fails behind them as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.passes, self.failures = 0, 0

    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        self.passes += 1
        return super().gather(scan, task)

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        if self.failures:
            self.failures -= 1
            raise Broken
        return super().shuffle(scan, task, ranges, reduce)


class Trying(World):
    """A world whose passes are counted."""

    def __init__(self, folder: Path, pipeline: Pipeline = DAILY) -> None:
        super().__init__(folder, pipeline)
        self.transport = Counting()

    def runner(self, **changes: Any) -> Runner:
        return super().runner(**{"transport": self.transport, **changes})

    @property
    def kept(self) -> Path:
        return self.folder / self.pipeline.name / FILE

    def fail(self, work: Callable[[], Any]) -> None:
        """`work`, whose first replay fails behind its pass."""
        self.transport.failures = 1
        with pytest.raises(Broken):
            work()
        assert self.kept.is_file()

    def passes_of(self, work: Callable[[], Any]) -> int:
        before = self.transport.passes
        work()
        return self.transport.passes - before

    def facts(self) -> list[tuple[Any, ...]]:
        """What of each run depends on its watermarks."""
        return [
            (row.state_hash, row.output_hash, row.watermark_out, row.rows_late)
            for row in self.ledger.rows()
            if row.kind == "run"
        ]


LATE = Event(3.25, 20.2, 100)
DAY = [*every_hour(0, 24), LATE]


@pytest.fixture
def world(tmp_path: Path) -> Trying:
    world = Trying(tmp_path / "w")
    world.append(DAY)
    return world


def as_without_a_failure(world: World, folder: Path, last: float = 24) -> bool:
    fresh = Trying(folder, replace(world.pipeline, source=replace(world.pipeline.source, table=world.source)))
    fresh.run(last)
    assert not fresh.kept.exists(), "what succeeds at once keeps nothing"
    return fresh.facts() == world.facts() and fresh.left() == world.left()


def test_what_a_failed_try_has_found_serves_the_next_one(
    world: Trying, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world.fail(lambda: world.run(24))
    world.fail(lambda: world.run(24))
    assert world.transport.passes == 1, "nor does the next one that fails need a pass"
    caplog.clear()
    with caplog.at_level(logging.INFO, "slackwater"):
        assert world.passes_of(lambda: world.run(24)) == 0
    [said] = [record for record in caplog.records if record.message == "ticks are known from an earlier try"]
    assert (said.__dict__["pipeline"], said.__dict__["attempt"]) == ("daily", 3)
    assert world.main.attempt == 3 and world.main.rows_late == 1
    assert not world.kept.exists(), "a commit needs it no more"
    assert as_without_a_failure(world, tmp_path / "f")


def test_a_later_slice_is_tried_again_on_its_parent_without_a_pass(world: Trying, tmp_path: Path) -> None:
    world.append([*every_hour(24, 48), replace(LATE, row=200)])
    world.run(24)
    world.append(
        [Event(23.75, 23.9, 300)]
    )  # read by the next run, as if it had arrived when its slice starts
    world.fail(lambda: world.run(48))
    assert world.passes_of(lambda: world.run(48)) == 0
    fresh = World(tmp_path / "f")
    fresh.append([*DAY, *every_hour(24, 48), replace(LATE, row=200)])
    fresh.run(24)
    fresh.append([Event(23.75, 23.9, 300)])
    fresh.run(48)
    assert fresh.left() == world.left() and fresh.main.rows_folded == world.main.rows_folded == 1


@pytest.fixture
def strict(world: Trying, monkeypatch: pytest.MonkeyPatch) -> Trying:
    """A world whose expectations are all failed, which takes no time to find out."""
    failed = validation.Check("n is small", "n", "reject", False, "24", 1, 12, None)
    monkeypatch.setattr(validation, "check_panes", lambda expectations, *panes: [failed] * len(expectations))
    world.pipeline = replace(DAILY, expect=[expect.between("n", max=1)])
    return world


def test_a_rejected_slice_runs_without_a_pass_once_the_expectation_is_mended(
    strict: Trying, tmp_path: Path
) -> None:
    world = strict
    with pytest.raises(SliceRejected):
        world.run(24)
    assert world.kept.is_file()
    world.pipeline = DAILY
    assert world.passes_of(lambda: world.run(24)) == 0
    assert not world.kept.exists()
    assert as_without_a_failure(world, tmp_path / "f")


def test_a_rejected_slice_that_is_accepted_needs_it_no_more(strict: Trying) -> None:
    world = strict
    with pytest.raises(SliceRejected):
        world.run(24)
    assert world.kept.is_file()
    [rejected] = world.tables.attempts.newest_rows()
    Publisher(
        "daily", world.tables, RollForward.of(DAILY, world.tables, world.runner().prepare().shape)
    ).publish(rejected.run_id, "it is so")
    assert world.main.verdict == "accepted: it is so" and not world.kept.exists()


def append(world: Trying) -> None:
    world.append([Event(23, 23.9, 300)])


def make_another_table(world: Trying) -> None:
    """Another table in the place of the source, with the same versions and files of the same names."""
    [commit] = (world.folder / "events" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["id"] = "00000000-0000-4000-8000-000000000000"
    commit.write_text("\n".join(map(json.dumps, actions)))


def declare(**changes: Any) -> Callable[[Trying], None]:
    def change(world: Trying) -> None:
        world.pipeline = replace(world.pipeline, **changes)

    return change


def spoil(spoilt: Callable[[bytes], bytes]) -> Callable[[Trying], None]:
    return lambda world: void(world.kept.write_bytes(spoilt(world.kept.read_bytes())))


def void(_: object) -> None:
    """No result."""


CHANGES: dict[str, Callable[[Trying], None]] = {
    "another source table": make_another_table,
    "rows appended": append,
    "bound": declare(watermarks=replace(DAILY.watermarks, out_of_orderness_ms=30 * 60_000)),
    "interval": declare(watermarks=DAILY.watermarks.with_interval(timedelta(minutes=20))),
    "filter": declare(where="row < 20"),
    "max_ahead": declare(max_ahead=timedelta(minutes=1)),
    "max_behind": declare(max_behind=timedelta(minutes=1)),
    "source partition": declare(source=replace(DAILY.source, source_partition="k")),
    "half a file": spoil(lambda content: content[: len(content) // 2]),
    "an empty file": spoil(lambda content: b""),
    "one bit of the digest": spoil(lambda content: bytes([content[0] ^ 1]) + content[1:]),
    "one bit of a time": spoil(lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:]),
    "no file": lambda world: world.kept.unlink(),
}


def test_whatever_the_pass_depends_on_makes_it_anew(world: Trying, tmp_path: Path) -> None:
    def run() -> None:
        world.run(24)

    world.fail(run)
    for name, change in CHANGES.items():
        change(world)
        assert world.passes_of(lambda: world.fail(run)) == 1, name
        assert world.passes_of(lambda: world.fail(run)) == 0, name
    assert world.passes_of(run) == 0
    assert as_without_a_failure(world, tmp_path / "f")


def test_another_version_of_the_product_makes_it_anew(world: Trying, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fail(lambda: world.run(24))
    monkeypatch.setattr(tick_cache, "product_version", lambda: "another")
    assert world.passes_of(lambda: world.run(24)) == 1


def test_a_redriven_row_makes_it_anew(tmp_path: Path) -> None:
    """[2, 4) closes at 8:40, so the row counts as of 8:30."""
    world = Trying(tmp_path / "w")
    world.append(DAY)
    world.run(24)

    def restate() -> None:
        world.backfill(0, 24)

    world.fail(restate)
    world.fail(restate)
    assert world.transport.passes == 2, "one of main, one of the branch"
    tables = world.tables
    rolling = RollForward.of(DAILY, tables, world.runner().prepare().shape)
    [late] = world.live("late_events")
    assert late["row"] == LATE.row
    done = Redrive(world.warehouse, DAILY, rolling, InProcess).run(
        Inspection("daily", tables).late(None).rows, "a reason"
    )
    assert done.new == 1
    assert world.passes_of(restate) == 1
    [row] = world.ledger.live_runs(world.main)
    assert (count_known_to(row), row.rows_late) == (1, 0)


def test_a_file_that_cannot_be_written_changes_nothing(
    world: Trying, caplog: pytest.LogCaptureFixture
) -> None:
    world.runner().prepare()
    world.kept.mkdir()
    world.transport.failures = 1
    with pytest.raises(Broken):
        world.run(24)
    assert [record.message[:20] for record in caplog.records if record.levelno == logging.WARNING] == [
        "ticks are not kept: "
    ]
    assert [row.outcome for row in world.tables.attempts.newest_rows()] == ["failed"]
    assert world.passes_of(lambda: world.run(24)) == 1


def test_it_is_kept_on_object_stores_too(world: Trying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_cache, "filesystem", lambda uri: PyFileSystem(DeltaStorageHandler(uri)))
    world.fail(lambda: world.run(24))
    assert world.passes_of(lambda: world.run(24)) == 0
    assert not world.kept.exists()


def test_a_try_that_fails_before_its_pass_keeps_nothing(
    world: Trying, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: StageOfSlice) -> None:
        raise Broken

    monkeypatch.setattr(StageOfSlice, "pin_inputs", broken)
    with pytest.raises(Broken):
        world.run(24)
    assert world.transport.passes == 0 and not world.kept.exists()


def test_verify_makes_its_own_pass(world: Trying, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fail(lambda: world.run(24))
    content = world.kept.read_bytes()
    world.run(24)
    world.kept.write_bytes(content)
    runner = world.runner()
    verifier = Verifier(world.warehouse, DAILY, runner.code, runner.engine, world.transport)
    monkeypatch.setattr("slackwater.runs.lineage.verify.config_hash", lambda pipeline: runner.config_hash)
    assert world.passes_of(lambda: verifier.verify(world.main.seq)) == 1


def test_slices_that_are_only_staged_use_it_and_their_commit_removes_it(world: Trying) -> None:
    world.fail(lambda: world.run(24, publish=False))
    assert world.passes_of(lambda: world.run(24, publish=False)) == 0
    assert world.kept.is_file()
    Publisher(
        "daily", world.tables, RollForward.of(DAILY, world.tables, world.runner().prepare().shape)
    ).publish()
    assert world.main.attempt == 2 and not world.kept.exists()


MINUTE = timedelta(minutes=1)
PARTITIONED = Pipeline(
    name="p",
    source=DeltaSource("t", event_time="e", arrival_time="a", source_partition="p"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(MINUTE).with_interval(2 * MINUTE),
    key_by="k",
    window=TumblingEventTimeWindows.of(HOUR),
    select={"n": agg.count()},
    start=START,
)


class NoPass(InProcess):
    def gather(self, scan: SliceScan, task: MapTask) -> list[pa.Table]:
        raise AssertionError("there was a pass")

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        raise AssertionError("there was a pass")


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_is_kept_gives_the_timeline_and_the_progress_of_the_pass(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Two slices, cut anywhere; rows of several source partitions, some of which fall idle, in several files;
    rows that arrived in the first slice and appear in the second; unusable ones."""
    folder = tmp_path_factory.mktemp("ticks")
    pipeline = PARTITIONED
    if data.draw(st.booleans()):
        pipeline = replace(
            pipeline, watermarks=pipeline.watermarks.with_idleness(data.draw(st.integers(1, 9)) * MINUTE)
        )
    row = st.tuples(
        st.integers(0, 1199),
        st.integers(-5, 600),
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from("kkkkn"),
    )
    files = []
    for number, rows in enumerate(
        data.draw(st.lists(st.lists(row, min_size=1, max_size=30), min_size=1, max_size=3))
    ):
        moments, delays, partitions, keys = zip(*rows, strict=True)
        seconds = [timedelta(seconds=moment) for moment in moments]
        table = pa.table(
            {
                "a": pa.array([START + second for second in seconds], TIME),
                "e": pa.array(
                    [
                        START + second - timedelta(seconds=delay)
                        for second, delay in zip(seconds, delays, strict=True)
                    ],
                    TIME,
                ),
                "p": pa.array(partitions, pa.string()),
                "k": pa.array([None if key == "n" else key for key in keys], pa.string()),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=7)
        files.append(InputFile(f"{number}.parquet", (), len(rows), 1, data.draw(st.booleans())))
    source = PinnedSource(str(folder), 0, table.schema, None)
    tables = Tables({"attempts": Folder(f"{folder}/attempts", pa.schema([]))})
    attempt = Attempt(run_id="r", parent_seq=None, slice_start=START, slice_end=START, at=START)
    before, cut = Progress.none(), data.draw(st.integers(1, 1199)) / 3600
    for from_ms, to_ms in ((ms(0), ms(cut)), (ms(cut), ms(1 / 3))):
        unread = tuple(
            replace(file, may_hold_unread=file.may_hold_unread and from_ms > ms(0)) for file in files
        )
        scan = SliceScan(source, unread, tuple(table.column_names), "a", from_ms, to_ms, ms(0))
        judge = Judge.of(pipeline, scan)
        timeline, after = timeline_of(InProcess(), scan, judge, before)
        first = TickCache(tables, attempt)
        assert timeline_of(InProcess(), scan, judge, before, first)[0] == timeline
        first.keep_ticks()
        known_timeline, known_after = timeline_of(
            NoPass(), scan, judge, before, TickCache(tables, replace(attempt, attempt=2))
        )
        assert known_timeline == timeline
        assert (known_after.names, known_after.per_partition, known_after.watermark) == (
            after.names,
            after.per_partition,
            after.watermark,
        )
        maxima = one_a_tick(tick_maxima(InProcess(), scan, judge, before), pipeline.watermarks)
        ticks = [
            (name, last // 120_000)
            for name, _, last in zip(*(column.to_pylist() for column in maxima.columns), strict=True)
        ]
        assert ticks == sorted(set(ticks)), "one row a tick"
        assert timeline_from([maxima, maxima], pipeline.watermarks, from_ms, to_ms, before)[0] == timeline

        large_scan = replace(scan, files=tuple(replace(file, bytes=1 << 30) for file in scan.files))
        of_large = TickCache(tables, attempt)
        assert timeline_of(InProcess(), large_scan, judge, before, of_large) == (timeline, after)
        of_large.keep_ticks()
        second_try = TickCache(tables, replace(attempt, attempt=2))
        assert timeline_of(NoPass(), large_scan, judge, before, second_try) == (timeline, after)
        with pytest.raises(AssertionError, match="there was a pass"):  # the lowest ones are of this parent
            another_parent = replace(before, clock=to_ms)
            timeline_of(NoPass(), large_scan, judge, another_parent, second_try)
        before = after
