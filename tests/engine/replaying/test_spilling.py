"""State leaves memory when it outgrows its bound, and its directory goes with the task, whatever happens."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.operator import range as range_work
from slackwater.engine.replaying import spilling
from slackwater.engine.replaying.spilling import (
    Spilling,
    StateFolderError,
)
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.pipelines import DeltaSource, Pipeline
from slackwater.windowing import (
    CountEvictor,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.times import to_datetime
from tests.model import records as model
from tests.properties.slices import Replayed, replay_pipeline

START = 1_000_000
RULES = model.Replay(start=START, to=START + 200, tick=10, bound=0, assigner=model.Tumbling(50))
EVENTS = [
    model.Event(START + at, START + at, "s", at, f"key{at % 7}", {"x": at % 9, "y": None})
    for at in range(160)
]


class Rows(ProcessWindowFunction):
    """The rows of the elements; raises where it is told to."""

    def __init__(self, raises: bool = False) -> None:
        self.raises = raises

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> list[Any]:
        if self.raises and context.window.start >= START + 100:
            raise LookupError("told to")
        return [[element.row for element in elements]]


PIPELINE = Pipeline(
    name="rows",
    source=DeltaSource(
        "events",
        event_time="event_time",
        arrival_time="arrival_time",
        source_partition="source",
        order_by="row",
    ),
    watermarks=WatermarkStrategy.monotonous().with_interval(timedelta(milliseconds=10)),
    key_by="key",
    window=TumblingEventTimeWindows(size_ms=50),
    evictor=CountEvictor.of(1000),  # which takes nothing away, and keeps the elements themselves in state
    process=Rows(),
    output="rows array<long>",
    start=to_datetime(START),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the databases go."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    return tmp_path / f"slackwater-state-{os.geteuid()}"


@pytest.fixture
def opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After how many elements of its range each database was opened; megabytes are kilobytes, and every
    element is followed by a look.
    """
    opened_at: list[int] = []
    elements = {"processed": 0}
    look, make_storage = Spilling.look, spilling.OperatorStorage

    def watched_look(self: Spilling, runner: Any) -> None:
        elements["processed"] = runner.elements_processed
        look(self, runner)

    def watched_storage(**places: Any) -> Any:
        storage = make_storage(**places)
        if places:
            opened_at.append(elements["processed"])
            assert len(list(folder.iterdir())) == 1, "one directory for the one operator"
        return storage

    monkeypatch.setattr(spilling, "BYTES_PER_MB", 1024)
    monkeypatch.setattr(spilling, "FIRST_LOOK", 1)
    monkeypatch.setattr(range_work, "BETWEEN_LOOKS", 1)
    monkeypatch.setattr(Spilling, "look", watched_look)
    monkeypatch.setattr(spilling, "OperatorStorage", watched_storage)
    return opened_at


def run(pipeline: Pipeline, state_memory: int, cuts: Iterable[int] = ()) -> Replayed:
    return replay_pipeline(pipeline, EVENTS, RULES, list(cuts), [1], state_memory=[state_memory])


def test_state_stays_in_memory_below_the_bound(folder: Path, opened: list[int]) -> None:
    run(PIPELINE, 1024)
    assert (opened, folder.exists()) == ([], False)


def test_state_that_outgrows_the_bound_goes_on_in_rocksdb(folder: Path, opened: list[int]) -> None:
    spilled = run(PIPELINE, 64)
    assert len(opened) == 1 and 20 < opened[0] < 160
    assert list(folder.iterdir()) == []
    in_memory = run(PIPELINE, 1024)
    assert spilled.hashes == in_memory.hashes
    assert sorted(spilled.panes, key=repr) == sorted(in_memory.panes, key=repr) != []


def test_a_bound_of_zero_is_rocksdb_from_the_start(opened: list[int]) -> None:
    run(PIPELINE, 0)
    assert opened == [0]


def test_parked_state_that_would_outgrow_the_bound_is_restored_into_rocksdb(opened: list[int]) -> None:
    run(PIPELINE, 700, cuts=[START + 149])
    assert opened == [], "there is enough memory for all"
    run(PIPELINE, 50, cuts=[START + 149])
    assert opened[-1] in (0, 149), "before the first element of the second slice"


@pytest.mark.parametrize("limit", [0, 16])
def test_a_failure_leaves_no_directory(folder: Path, opened: list[int], limit: int) -> None:
    with pytest.raises(UserCodeError, match="told to"):
        run(replace(PIPELINE, process=Rows(raises=True)), limit)
    assert len(opened) == 1
    assert list(folder.iterdir()) == []


def test_state_in_memory_is_one_part_and_state_on_disk_several(folder: Path) -> None:
    owned, one_group = KeyRange.from_groups(3, 130), KeyRange.from_groups(5, 5)
    memory, disk = Spilling(1, 0), Spilling(0, 0)
    assert memory.parts(owned) == [owned]
    parts = disk.parts(owned)
    assert [group for part in parts for group in part.key_groups] == [*range(3, 131)]
    assert 1 < len(parts) <= 16
    parts_of_group = disk.parts(one_group)
    assert 1 < len(parts_of_group) <= 16 and all(map(one_group.covers, parts_of_group))
    disk.close()
    memory.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("named", ["by Spark", "by nobody"])
def test_state_leaves_memory_for_a_folder_that_its_user_alone_may_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None if named == "by Spark" else str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path) if named == "by Spark" else "")
    before = os.umask(0)
    try:
        for _ in range(2):  # the second finds it
            Spilling(0, 0).close()
    finally:
        os.umask(before)
    [folder] = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.with_name("slackwater-state-4711").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)


def for_everybody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder.with_name("elsewhere")
    target.mkdir(mode=0o700)
    folder.symlink_to(target)


def no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("taken")


@pytest.mark.parametrize("planted", [of_another_user, for_everybody, elsewhere, no_folder])
def test_a_folder_that_somebody_else_may_write_to_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, planted: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    planted(folder, monkeypatch)
    with pytest.raises(StateFolderError, match=r"slackwater-state-\d+.* SPARK_LOCAL_DIRS") as error:
        Spilling(0, 0)
    assert error.value.exit_code == 1
