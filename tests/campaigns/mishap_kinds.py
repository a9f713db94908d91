"""What happens to the drivers of a trial: others at the same time, a stop and a wake-up, kills, a full disk,
few file handles, little memory, a small container, a clock that goes back, a lost executor or worker, a task
that runs twice.

Each kind is a function of what is prepared and a chance that the seed and the trial's name decide. It gives
what did not hold, with the problem's outcome as first words (`OUTCOMES` of `tests.campaigns.mishaps`).
"""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

from tests.campaigns.faults import Prepared, differences, problems_afterwards
from tests.campaigns.soak import clock_ahead
from tests.campaigns.watching import Reader, watched
from tests.integration.command import SCRIPT, driver, environment
from tests.integration.driver import Plan
from tests.integration.fork_server import ForkedDriver
from tests.integration.standalone import Cluster, cluster

UNCLEAR, NOT_ENDED = "unclear error", "not ended"
LEASE_S = 1.5
# Where a driver of a scenario may be stopped, or may wait for its clock.
_OF_A_RUN = (
    "after the look at the lineage",
    "before the panes are staged",
    "before the ledger commit",
    "after the ledger commit",
    "between the roll-forward commits",
)
_OF_PUBLISH = _OF_A_RUN[2:]
# Retryable, and lost to a rival.
_RETRY, _LOST = 3, 5
# Words of an error that says which means has run out, and the next step.
_NEXT_STEP = ("epeat the command", "un the same command again")
MISSING_MEANS = {
    "full": ("the disk is full", "No space left"),
    "handles": ("too many files are open", "Too many open files"),
    "memory": ("memory", "Memory", "alloc"),
}
Kind = Callable[[Prepared, random.Random], list[str]]


class NotPossible(Exception):
    """This machine has not what the trial needs, or its moment never came; with what is lacking."""


def several_drivers(prepared: Prepared, chance: random.Random) -> list[str]:
    """Two to four drivers run the same command at nearly the same time, with the lease or without. One at
    least must end its work, the others may lose; readers look on.
    """
    warehouse = prepared.copy()
    plan = Plan(lease=chance.random() < 0.5)
    with watched(prepared, warehouse) as reader:
        drivers = []
        for _ in range(chance.randint(2, 4)):
            drivers.append(prepared.start(prepared.scenario.command, warehouse, plan))
            time.sleep(chance.choice((0, 0, 0.1, 0.4, 0.8)))
        ended = [_end(one) for one in drivers]
    allowed = {*prepared.scenario.codes, _RETRY, _LOST}
    problems = [_unclear(code, text) for code, text in ended if code not in allowed or "Traceback" in text]
    if all(code for code, _ in ended):
        problems.append(f"{NOT_ENDED}: none of {len(ended)} drivers committed: {ended}")
    return problems + _afterwards(prepared, warehouse, reader)


def zombie(prepared: Prepared, chance: random.Random) -> list[str]:
    """A driver is stopped until its lease has run out, another one does its work, and it wakes up: what it
    then does must change nothing.
    """
    warehouse, command = prepared.copy(), prepared.scenario.command
    moments = _OF_PUBLISH if prepared.scenario.name == "publish" else _OF_A_RUN
    with watched(prepared, warehouse) as reader:
        first, meeting = _waiting(prepared, warehouse, chance.choice(moments), lease_s=LEASE_S)
        with suppress(ProcessLookupError):  # it may have ended without coming there
            os.kill(first.pid, signal.SIGSTOP)
        (meeting / "second").touch()
        time.sleep(LEASE_S + 0.3)
        second = prepared.run(command, warehouse, Plan(lease_s=LEASE_S))
        with suppress(ProcessLookupError):
            os.kill(first.pid, signal.SIGCONT)
        code, text = _end(first)
    problems = []
    if second.returncode not in prepared.scenario.codes:
        problems.append(f"{NOT_ENDED}: the heir ended with {second.returncode}: {second.stderr}")
    if code not in {*prepared.scenario.codes, _RETRY, _LOST} or "Traceback" in text:
        problems.append(_unclear(code, text))
    return problems + _afterwards(prepared, warehouse, reader)


def killed_while_others_read(prepared: Prepared, chance: random.Random) -> list[str]:
    """Drivers are killed at three of their writes, one after the other, while a reader looks on."""
    warehouse = prepared.copy()
    with watched(prepared, warehouse) as reader:
        for _ in range(3):
            number = chance.randint(1, prepared.writes) * chance.choice((1, -1))
            prepared.run(prepared.scenario.command, warehouse, Plan(dies_at_write=number))
        prepared.run(prepared.scenario.command, warehouse, Plan())
    return _afterwards(prepared, warehouse, reader)


def full_disk(prepared: Prepared, chance: random.Random) -> list[str]:
    """The warehouse stands on a file system of its own that runs full after some part of the work, and then
    gets room.
    """
    need = max(_size(prepared.right) - _size(prepared.before), 1 << 16)
    with _file_system(prepared.before) as (warehouse, resize):
        resize(int(chance.random() ** 2 * 1.2 * need))
        with watched(prepared, warehouse) as reader:
            done = prepared.run(prepared.scenario.command, warehouse, Plan())
        resize(need * 8 + (64 << 20))
        problems = _of_missing(prepared, done, "full")
        return problems + _afterwards(prepared, warehouse, reader)


def few_file_handles(prepared: Prepared, chance: random.Random) -> list[str]:
    """The driver may open only so many more files."""
    return _limited(prepared, "handles", {"RLIMIT_NOFILE": chance.randint(0, 24)})


def little_memory(prepared: Prepared, chance: random.Random) -> list[str]:
    """The driver may take only so much more address space. Native code that can't go on ends its process."""
    return _limited(prepared, "memory", {"RLIMIT_AS": chance.randint(0, 160) << 20})


def small_container(prepared: Prepared, chance: random.Random) -> list[str]:
    """The driver may take only so much more memory, as in a container: the kernel kills it when it needs
    more.
    """
    warehouse, mib = prepared.copy(), chance.randint(2, 96)
    with container(mib << 20) as cgroup, watched(prepared, warehouse) as reader:
        done = prepared.run(prepared.scenario.command, warehouse, Plan(cgroup=str(cgroup)))
    problems = [f"{one} with {mib} MiB" for one in _of_missing(prepared, done, "memory")]
    return problems + _afterwards(prepared, warehouse, reader)


def clock_goes_back(prepared: Prepared, chance: random.Random) -> list[str]:
    """The clock goes back, by a minute to ten days: behind what another driver has committed, or claimed
    before it was killed, or while one is at work.
    """
    warehouse, command = prepared.copy(), prepared.scenario.command
    seconds = int(60 * 240 ** (chance.random() * 1.75))
    kind = chance.choice(("behind a claim", "behind commits", "at work"))
    with watched(prepared, warehouse) as reader:
        if kind == "at work":
            clock = warehouse.parent / "clock"
            clock.write_text("+0s")
            env = _clock("+0s", FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1")
            del env["FAKETIME"]
            moments = _OF_PUBLISH if prepared.scenario.name == "publish" else _OF_A_RUN
            done = _run_while_the_clock_changes(
                prepared, warehouse, chance.choice(moments), env, lambda: clock.write_text(f"-{seconds}s")
            )
        elif kind == "behind a claim":
            number = chance.randint(1, prepared.writes)
            ahead = _clock(f"+{seconds}s")
            prepared.run(command, warehouse, Plan(dies_at_write=number), ahead)
            done = prepared.run(command, warehouse, Plan())
        else:
            done = prepared.run(command, warehouse, Plan(), _clock(f"-{seconds}s"))
    if "libfaketime:" in done.stderr:
        raise NotPossible(f"the clock could not be changed: {done.stderr.strip()}")
    problems = []
    if done.returncode not in prepared.scenario.codes:
        problems.append(f"{NOT_ENDED}: {kind}, {seconds} s: ended with {done.returncode}: {done.stderr}")
    return problems + _afterwards(prepared, warehouse, reader)


def on_a_cluster(running: Cluster, mishap: str) -> Kind:
    """A kind of mishap of a driver on a cluster: "executor killed", "worker killed", "task runs twice"."""

    def kind(prepared: Prepared, chance: random.Random) -> list[str]:
        warehouse = prepared.copy()
        command = (*prepared.scenario.command, "--partitions", "6")
        words = [str(word) for word in prepared.words(command, warehouse)]
        env = dict(running.driver)
        if mishap == "task runs twice":
            env["SLACKWATER_SPARK_CONF"] = (
                '{"spark.speculation": "true", "spark.speculation.multiplier": "1.0", '
                '"spark.speculation.quantile": "0.1", "spark.speculation.interval": "20ms", '
                '"spark.speculation.minTaskRuntime": "0ms"}'
            )
        with watched(prepared, warehouse) as reader:
            process = _on_spark(words, env)
            worker = f"worker-{chance.randint(1, 2)}"
            try:
                if mishap == "executor killed":
                    running.kill_executor(worker)
                elif mishap == "worker killed":
                    running.kill_worker(worker)
            except TimeoutError as error:
                process.kill()
                process.communicate()
                raise NotPossible(str(error)) from error
            _, text = process.communicate(timeout=500)
        problems = []
        if process.returncode not in (0, _RETRY):
            problems.append(_unclear(process.returncode, text))
        return problems + _afterwards(prepared, warehouse, reader)

    return kind


@contextmanager
def cluster_kind(work: Path, mishap: str) -> Iterator[Kind]:
    """The kind with a cluster of its own: a lost worker does not come back."""
    folder = work / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with cluster(folder) as running:
        yield on_a_cluster(running, mishap)


def _on_spark(words: list[str], env: Mapping[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(SCRIPT), *words],
        env=dict(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _waiting(prepared: Prepared, warehouse: Path, moment: str, **plan: Any) -> tuple[ForkedDriver, Path]:
    """A driver that has come to a moment, or to its end, and the folder in which it waits for a file."""
    meeting = warehouse.parent / "meeting"
    shutil.rmtree(meeting, ignore_errors=True)
    meeting.mkdir()
    first = prepared.start(prepared.scenario.command, warehouse, Plan(at=moment, meet=str(meeting), **plan))
    while first.poll() is None and not list(meeting.iterdir()):
        time.sleep(0.02)
    return first, meeting


def _run_while_the_clock_changes(
    prepared: Prepared, warehouse: Path, moment: str, env: Mapping[str, str], change: Callable[[], object]
) -> Any:
    """A driver with an environment of its own, whose clock changes at a moment."""
    meeting = warehouse.parent / "meeting"
    shutil.rmtree(meeting, ignore_errors=True)
    meeting.mkdir()

    def wait_and_change() -> None:
        while not list(meeting.iterdir()) and not has_ended.is_set():
            time.sleep(0.02)
        change()
        (meeting / "clock").touch()

    has_ended = threading.Event()
    thread = threading.Thread(target=wait_and_change, daemon=True)
    thread.start()
    try:
        plan = Plan(at=moment, meet=str(meeting))
        return prepared.run(prepared.scenario.command, warehouse, plan, env)
    finally:
        has_ended.set()
        thread.join()


def _limited(prepared: Prepared, means: str, limits: dict[str, int]) -> list[str]:
    warehouse = prepared.copy()
    with watched(prepared, warehouse) as reader:
        done = prepared.run(prepared.scenario.command, warehouse, Plan(limits=limits))
    problems = [f"{one} with {limits}" for one in _of_missing(prepared, done, means)]
    return problems + _afterwards(prepared, warehouse, reader)


def _of_missing(prepared: Prepared, done: Any, means: str) -> list[str]:
    """What is not so of a driver that had too little of something: it may have succeeded all the same, or
    must name what it lacks and the next step.
    """
    text = done.stdout + done.stderr
    if done.returncode in prepared.scenario.codes and "Traceback" not in text:
        return []
    if done.returncode < 0 and means == "memory":
        return []
    if done.returncode != _RETRY or not any(words in text for words in MISSING_MEANS[means]):
        return [_unclear(done.returncode, text)]
    return [] if any(words in text for words in _NEXT_STEP) else [_unclear(done.returncode, text)]


def _afterwards(prepared: Prepared, warehouse: Path, reader: Reader) -> list[str]:
    """What does not hold when all is over: for readers, for who repeats the command, and for upkeep a week
    later, which must leave no file that nobody names.
    """
    problems = [*reader.problems, *problems_afterwards(prepared, warehouse)]
    if problems:
        return problems
    upkeep = driver(Plan(), *prepared.words(("maintain",), warehouse), env=_clock("+8d"), timeout=600)
    if upkeep.returncode:
        return [f"{NOT_ENDED}: `maintain` ended with {upkeep.returncode}: {upkeep.stdout}{upkeep.stderr}"]
    files = orphans(prepared.stored(warehouse).warehouse / prepared.pipeline)
    problems = [f"orphans: `maintain` left {len(files)} files: {files[:3]}"] if files else []
    return problems + differences_of_published(prepared, warehouse)


def differences_of_published(prepared: Prepared, warehouse: Path) -> list[str]:
    """After upkeep, too, `published` must be what it is without faults."""
    return [one for one in differences(prepared, warehouse) if one.startswith("published")]


def orphans(folder: Path) -> list[str]:
    """Files of rows below a pipeline's folder that no commit of their table names."""
    names: list[str] = []
    for log in folder.glob("*/_delta_log"):
        live = {Path(uri).name for uri in DeltaTable(str(log.parent)).file_uris()}
        logged = "".join(path.read_text() for path in log.glob("*.json"))
        names += [
            str(path.relative_to(folder))
            for path in log.parent.rglob("*.parquet")
            if "_delta_log" not in path.parts and path.name not in live and path.name not in logged
        ]
    return names


@contextmanager
def _file_system(content: Path) -> Iterator[tuple[Path, Callable[[int], None]]]:
    """A file system of its own with a copy of a warehouse, and a function that leaves it so many bytes of
    room. It is in memory.
    """
    place = content.parent / "disk"
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise NotPossible(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        warehouse = Path(shutil.copytree(content, place / "warehouse"))

        def resize(room: int) -> None:
            used = psutil.disk_usage(str(place)).used
            size = -(-(used + room) // 4096) * 4096
            subprocess.run(["mount", "-o", f"remount,size={size}", str(place)], check=True)

        yield warehouse, resize
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def container(memory_bytes: int) -> Iterator[Path]:
    """The folder of a control group whose processes may take so much memory together.

    Raises:
        NotPossible: this process may make none.
    """
    is_second_version = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    memory = "memory.max" if is_second_version else "memory.limit_in_bytes"
    folder = Path("/sys/fs/cgroup", "" if is_second_version else "memory", f"slackwater-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        raise NotPossible(f"no control group can be made here: {error}") from error
    try:
        if not (folder / memory).exists():
            raise NotPossible("control groups limit no memory here")
        (folder / memory).write_text(str(memory_bytes))
        yield folder
    finally:
        folder.rmdir()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _clock(offset: str, **variables: str) -> dict[str, str]:
    """The environment of a process whose clock is off. The monotonic clock, by which waits are timed, is not:
    it never goes back.
    """
    return {
        **environment(),
        **clock_ahead(0),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        **variables,
    }


def _end(process: ForkedDriver) -> tuple[int, str]:
    try:
        stdout, stderr = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, "it did not end"
    code = process.poll()
    return -1 if code is None else code, stdout + stderr


def _unclear(code: int | None, text: str) -> str:
    return f"{UNCLEAR}: ended with {code}: {text[-3000:]}"


KINDS: dict[str, Kind] = {
    "several drivers at once": several_drivers,
    "a zombie wakes up": zombie,
    "killed while others read": killed_while_others_read,
    "disk full": full_disk,
    "few file handles": few_file_handles,
    "little memory": little_memory,
    "a small container": small_container,
    "the clock goes back": clock_goes_back,
}
ON_A_CLUSTER = ("executor killed", "worker killed", "task runs twice")
