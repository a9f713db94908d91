"""A user's own assigner, trigger, evictor and functions, from a file with a helper beside it, run on a real
standalone cluster: master and workers in processes of their own, whose interpreter finds neither the file nor
the helper nor any package of ours.
"""

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.command import environment, here, slackwater
from tests.integration.facts import outcome
from tests.integration.standalone import cluster
from tests.integration.stored import StoredTables
from tests.model.flights import HOUR_MS, flights, ms

pytestmark = [pytest.mark.slow, pytest.mark.spark]

TO = "2013-01-03"
HELPER = """
HOUR_MS = 3_600_000


def hour_of(timestamp):
    return timestamp - timestamp % HOUR_MS
"""
PIPELINES = """
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

import hours_of_mine
from slackwater.examples.departures import departures
from slackwater import Evictor, KeyedProcessFunction, Pipeline, ProcessWindowFunction, ReducingStateDescriptor
from slackwater import TimeWindow, Trigger, TriggerResult, ValueStateDescriptor, WindowAssigner


@dataclass(frozen=True)
class Hourly(WindowAssigner):
    def assign_windows(self, element, timestamp, context):
        start = hours_of_mine.hour_of(timestamp)
        return [TimeWindow(start, start + hours_of_mine.HOUR_MS)]


@dataclass(frozen=True)
class AtItsEnd(Trigger):
    def on_element(self, element, timestamp, window, context):
        if window.max_timestamp() <= context.current_watermark:
            return TriggerResult.FIRE
        context.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, timestamp, window, context):
        return TriggerResult.FIRE if timestamp == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, timestamp, window, context):
        return TriggerResult.CONTINUE

    def clear(self, window, context):
        context.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class Everything(Evictor):
    def evict_before(self, elements, size, window, context):
        pass

    def evict_after(self, elements, size, window, context):
        pass


class Longest(ProcessWindowFunction):
    def process(self, key, context, elements):
        delays = [element.dep_delay for element in elements]
        yield (len(delays), max(delays), hours_of_mine.__file__)


common = dict(
    source=departures.source, watermarks=departures.watermarks, key_by="origin", start=departures.start
)
longest = Pipeline(
    name="longest",
    window=Hourly(),
    trigger=AtItsEnd(),
    evictor=Everything(),
    allowed_lateness=departures.allowed_lateness,
    process=Longest(),
    output="flights long, longest int, helper string",
    columns=["dep_delay"],
    **common,
)


class Lane(NamedTuple):
    start: int
    end: int
    is_delayed: bool
    columns = "is_delayed boolean"

    def max_timestamp(self):
        return self.end - 1


@dataclass(frozen=True)
class HourlyLanes(WindowAssigner):
    window_type = Lane

    def assign_windows(self, element, timestamp, context):
        start = hours_of_mine.hour_of(timestamp)
        return [Lane(start, start + hours_of_mine.HOUR_MS, (element.dep_delay or 0) > 15)]


lanes = replace(departures, name="lanes", window=HourlyLanes(), expect=[])


class Carriers(KeyedProcessFunction):
    states = (
        ReducingStateDescriptor("taken_off", lambda a, b: a + b, sql_type="long"),
        ValueStateDescriptor("hour", sql_type="long"),
    )

    def open(self, runtime_context):
        self.taken_off = runtime_context.get_reducing_state(self.states[0])
        self.hour = runtime_context.get_state(self.states[1])

    def process_element(self, value, context):
        self.taken_off.add(1)
        if self.hour.value() is None:
            hour = hours_of_mine.hour_of(context.timestamp) + hours_of_mine.HOUR_MS
            self.hour.update(hour)
            context.timer_service.register_event_time_timer(hour)

    def on_timer(self, timestamp, context):
        taken_off = self.taken_off.get()
        self.taken_off.clear()
        self.hour.clear()
        yield {"taken_off": taken_off}


carriers = Pipeline(
    name="carriers", process=Carriers(), output="taken_off long", **{**common, "key_by": "carrier"}
)
"""


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running.driver


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "hours_of_mine.py").write_text(HELPER)
    (folder / "pipelines.py").write_text(PIPELINES)
    return folder / "pipelines.py"


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("flown") / "warehouse"
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-01",
            "--to",
            "2013-01-04",
            "--warehouse",
            warehouse,
        )
        == 0
    )
    return warehouse


def run(pipeline: str, executors: dict[str, str], file: Path, flown: Path, tmp_path: Path) -> StoredTables:
    warehouse = shutil.copytree(flown, tmp_path / "warehouse")
    command = (
        "run",
        pipeline,
        "--to",
        TO,
        "--partitions",
        "3",
        "--warehouse",
        warehouse,
        "--pipelines",
        file,
    )
    done = slackwater(*command, cwd=tmp_path, env=executors, timeout=400)
    assert done.returncode == 0, done.stderr
    return StoredTables(warehouse, pipeline)


def test_the_executors_interpreter_finds_nothing_of_ours(executors: dict[str, str], tmp_path: Path) -> None:
    """Else the other tests would prove nothing."""
    program = (
        "import importlib.util as u; import pyspark, pyarrow; "
        "print(*map(u.find_spec, ['slackwater', 'hours_of_mine']))"
    )
    command = [executors["PYSPARK_PYTHON"], "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment()
    )
    assert (done.returncode, done.stdout.strip()) == (0, "None None"), done.stderr


def test_windows_of_a_users_own_classes_run_there(
    executors: dict[str, str], file: Path, flown: Path, tmp_path: Path
) -> None:
    stored = run("longest", executors, file, flown, tmp_path)
    published = {
        (row["origin"], row["window_start"], row["window_end"]): row for row in stored.rows("published")
    }
    model = {(pane.key, *pane.window): pane for pane in outcome(TO).published}
    assert {window: (row["flights"], row["longest"], row["firing"]) for window, row in published.items()} == {
        window: (pane.results["flights"], pane.results["max_dep_delay"], pane.firing)
        for window, pane in model.items()
    }
    assert all(".zip/hours_of_mine.py" in row["helper"] for row in published.values()), (
        "it came from the archive"
    )


def test_windows_of_a_class_of_the_users_are_parked_and_published_there(
    executors: dict[str, str], file: Path, flown: Path, tmp_path: Path
) -> None:
    stored = run("lanes", executors, file, flown, tmp_path)
    flights_by_window: dict[tuple[str, int, int], int] = defaultdict(int)
    lanes = set()
    for row in stored.rows("published"):
        flights_by_window[row["origin"], row["window_start"], row["window_end"]] += row["flights"]
        lanes.add(row["is_delayed"])
    model = {(pane.key, *pane.window): pane.results["flights"] for pane in outcome(TO).published}
    assert flights_by_window == model
    assert lanes == {True, False}
    assert {row["is_delayed"] for row in stored.rows("window_state")} == {True, False}


def test_a_users_process_function_runs_there(
    executors: dict[str, str], file: Path, flown: Path, tmp_path: Path
) -> None:
    stored = run("carriers", executors, file, flown, tmp_path)
    counted: dict[str, int] = defaultdict(int)
    for row in stored.rows("published"):
        assert row["window_start"] is None and row["timestamp"] % HOUR_MS == 0
        counted[row["carrier"]] += row["taken_off"]
    for row in stored.rows("keyed_state"):
        if row["run_id"] == stored.ledger()[-1]["run_id"] and row["state_name"] == "taken_off":
            counted[row["carrier"]] += row["taken_off__value"]
    taken_off: dict[str, int] = defaultdict(int)
    for event in flights("2013-01-01", TO):
        if event.event_time is not None and event.arrival < ms(TO):
            taken_off[event.source] += 1
    assert counted == taken_off, "each flight is in one row, or in what is parked"
