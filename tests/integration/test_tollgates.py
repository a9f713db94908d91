"""The drivers of the example `tollgates` are killed at random moments, by the clock and at the steps of the
protocol; afterwards Redis holds the right count of every window, each of them final.

The counts come from a brute force over the raw records of the source, what Redis holds from redis-py.
"""

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from slackwater.examples import find_example
from slackwater.examples.vehicles import START, records_arrived
from tests.examples.vehicle_counts import counts_of
from tests.integration.command import environment, here, start_driver
from tests.integration.driver import MOMENTS, Plan
from tests.integration.stored import ROOT, StoredTables
from tests.sinks.servers import redis_binary, redis_server

END = START + timedelta(minutes=15)
STEPS = [step for step in MOMENTS if not step.endswith(("SQL", "appended"))]
KILLED = -signal.SIGKILL
FAST = (2, 3)  # one dies at a step, one by the clock


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("tollgates")
    find_example("tollgates").load(str(warehouse), START, END)
    return warehouse


@pytest.fixture(scope="module")
def final_counts() -> dict[str, int]:
    """By the key in Redis."""
    counts = counts_of(records_arrived(START, END).to_pylist(), END)
    return {f"tollgates:{tollgate}:{start}": count for (tollgate, start), count in counts.final.items()}


@dataclass
class Drivers:
    """The two drivers of a history, `run` and `state close`, one of which is killed."""

    warehouse: Path
    url: str

    def __post_init__(self) -> None:
        redis.Redis.from_url(self.url).flushall()

    def killed_by_the_clock(self, seconds: float) -> bool:
        """Whether one was alive after so long."""
        deadline, kills = time.monotonic() + seconds, 0
        for verb in (self.run, self.close):
            process = start_driver(self.plan(), *verb)
            while (exit_code := process.poll()) is None and time.monotonic() < deadline:
                time.sleep(0.002)
            if exit_code is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            kills += process.poll() == KILLED
            if process.poll() == KILLED:
                deadline = float("inf")
                self.drive(verb)
        return kills == 1

    def killed_at(self, step: str, nth: int) -> bool:
        """Whether the step came so often."""
        exit_codes = [self.drive(verb, at=step, nth=nth) for verb in (self.run, self.close)]
        return KILLED in exit_codes

    def drive(self, verb: tuple[object, ...], at: str | None = None, nth: int = 1) -> int:
        """Run a verb; where it dies, once more. Gives the first exit code."""
        process = start_driver(self.plan(at, nth), *verb)
        _, errors = process.communicate()
        exit_code = process.poll()
        if exit_code == KILLED:
            assert self.drive(verb) == 0
        else:
            assert exit_code == 0, errors
        return exit_code

    def plan(self, at: str | None = None, nth: int = 1) -> Plan:
        """State in RocksDB from the first element on, batches of 40 corrections."""
        variables = {"REDIS_URL": self.url, "SLACKWATER_STATE_MEMORY_MB": "0"}
        return Plan(at=at, nth=nth, batch_rows=40, variables=variables)

    @property
    def run(self) -> tuple[object, ...]:
        return "run", "tollgates", "--to", END.isoformat(), "--warehouse", self.warehouse

    @property
    def close(self) -> tuple[object, ...]:
        return "state", "close", "tollgates", "--warehouse", self.warehouse

    def in_redis(self) -> dict[str, int]:
        client = redis.Redis.from_url(self.url, decode_responses=True)
        return {key: int(client.hget(key, "vehicles")) for key in client.keys("tollgates:*")}

    def assert_every_window_is_final(self) -> None:
        head = max(StoredTables(self.warehouse, "tollgates").ledger(), key=lambda row: row["seq"])
        assert (head["kind"], head["windows_open"], head["timers_pending"]) == ("close", 0, 0)


@pytest.mark.first_fast
@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in range(20)]
)
def test_redis_ends_with_every_count_when_a_driver_was_killed(
    number: int, source: Path, redis_url: str, final_counts: dict[str, int], tmp_path: Path
) -> None:
    chance = random.Random(number)
    seconds, nth = chance.uniform(0.02, 3), chance.randint(1, 2)
    for attempt in range(10):
        drivers = Drivers(shutil.copytree(source, tmp_path / str(attempt)), redis_url)
        if number % 2:
            is_killed = drivers.killed_by_the_clock(seconds / (attempt + 1))
        else:
            is_killed = drivers.killed_at(chance.choice(STEPS), max(1, nth - attempt))
        assert drivers.in_redis() == final_counts
        drivers.assert_every_window_is_final()
        if is_killed:
            return
    pytest.fail("no driver was killed")


@pytest.mark.slow
@pytest.mark.spark
def test_the_one_command_counts_into_its_own_redis_and_goes_on_after_a_kill(
    final_counts: dict[str, int], tmp_path: Path
) -> None:
    redis_binary()
    command = [sys.executable, "-m", "slackwater.cli.tollgates_demo", "--to", END.isoformat()]
    command += ["--folder", str(tmp_path)]
    killed_process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
    ledger = tmp_path / "warehouse" / "tollgates" / "runs" / "_delta_log"
    while not (ledger / "00000000000000000001.json").exists():
        assert killed_process.poll() is None
        time.sleep(0.01)
    killed_process.kill()
    killed_process.wait()
    for _ in range(2):  # the second has nothing left to do
        result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        sentence = f"Redis holds {len(final_counts):,} windows with {sum(final_counts.values()):,} vehicles"
        assert sentence in result.stdout
        counts_by_key = dict(re.findall(r"^(tollgates:\w+:\d+) +(\d+)$", result.stdout, flags=re.MULTILINE))
        assert len(counts_by_key) == 10
        assert {key: int(count) for key, count in counts_by_key.items()}.items() <= final_counts.items()
    commands = re.findall(r"^  \S+/slackwater (.+)$", result.stdout, flags=re.MULTILINE)
    assert len(commands) == 5
    assert [here(*shlex.split(command)) for command in commands] == [0] * 5
    assert not is_alive(int((tmp_path / "redis" / "port").read_text()))


def is_alive(port: int) -> bool:
    try:
        return bool(redis.Redis(port=port).ping())
    except redis.ConnectionError:
        return False
