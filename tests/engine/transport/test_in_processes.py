"""Tasks in processes of this machine give what one process gives, tell errors as Spark's do, and end with
whoever waits for them.
"""

import errno
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.engine.transport.in_processes import InProcesses
from slackwater.engine.transport.task_errors import TaskFailed
from slackwater.engine.transport.task_processes import TaskProcesses
from slackwater.errors import OutOfMemory
from slackwater.runtime.packaging import pickled
from slackwater.windowing.errors import UserCodeError
from tests.engine.transport.test_transport import (
    ROWS,
    commit,
    gathered,
    judging,
    of_groups,
    scan_of,
    shuffled,
)


def dumps(task: Callable[[], Iterable[pa.RecordBatch]]) -> bytes:
    return pickled(task, [sys.modules[__name__]])


@pytest.fixture(scope="module")
def processes() -> Iterator[InProcesses]:
    carrier = InProcesses(TaskProcesses(2, dumps))
    yield carrier
    carrier.close()


def process_of_task(number: int) -> Iterator[pa.Table]:
    yield pa.table({"number": [number], "pid": [os.getpid()]})


def pids(carrier: InProcesses, count: int = 8) -> set[int]:
    return {row["pid"] for table in carrier.each(process_of_task, count) for row in table.to_pylist()}


class TestResults:
    def test_they_give_what_one_process_gives(
        self, processes: InProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scan = scan_of(commit(tmp_path, ROWS))
        of_groups(monkeypatch, scan.files[0].bytes)
        assert len(scan.groups(2)) == 2
        assert gathered(processes, scan) == gathered(InProcess(), scan)
        assert list(shuffled(processes, scan, 5).items()) == list(shuffled(InProcess(), scan, 5).items())

    def test_a_slice_without_files_still_runs_every_range(
        self, processes: InProcesses, tmp_path: Path
    ) -> None:
        scan = scan_of(commit(tmp_path, {1: 1.0}), hours=(100, 124))
        assert shuffled(processes, scan, 3) == {0: [], 1: [], 2: []}

    def test_numbered_tasks_come_in_order_whoever_is_done_first(self, processes: InProcesses) -> None:
        def task(number: int) -> Iterator[pa.Table]:
            time.sleep(0.05 if number == 0 else 0)
            yield pa.table({"number": [number]})

        tables = processes.each(task, 6)
        assert [table.to_pylist() for table in tables] == [[{"number": number}] for number in range(6)]
        assert processes.each(task, 0) == []

    def test_two_tasks_run_beside_each_other_in_processes_that_stay(
        self, processes: InProcesses, tmp_path: Path
    ) -> None:
        def meeting(number: int) -> Iterator[pa.Table]:
            (tmp_path / str(number)).touch()
            while not (tmp_path / str(1 - number)).exists():
                time.sleep(0.001)
            return process_of_task(number)

        met = {table.column("pid")[0].as_py() for table in processes.each(meeting, 2)}
        assert len(met) == processes.slots == 2
        assert os.getpid() not in met
        assert pids(processes) <= met

    def test_each_task_has_objects_of_its_own(self, processes: InProcesses) -> None:
        seen: list[int] = []

        def task(number: int) -> Iterator[pa.Table]:
            seen.append(number)
            yield pa.table({"seen": [len(seen)]})

        assert [table.column("seen")[0].as_py() for table in processes.each(task, 4)] == [1] * 4
        assert seen == []

    def test_what_a_task_prints_is_no_output_of_the_command(
        self, processes: InProcesses, capfd: pytest.CaptureFixture[str]
    ) -> None:
        carrier = InProcesses(TaskProcesses(1, dumps))

        def talking(number: int) -> Iterator[pa.Table]:
            print("looked at a window", flush=True)
            yield pa.table({"number": [number]})

        carrier.each(talking, 1)
        carrier.close()
        assert capfd.readouterr().out == ""

    def test_tasks_have_the_variables_of_now(
        self, processes: InProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def task(number: int) -> Iterator[pa.Table]:
            yield pa.table({"value": [os.environ.get("OF_A_STORE")]})

        def values() -> set[str | None]:
            return {table.column("value")[0].as_py() for table in processes.each(task, 4)}

        before = pids(processes)
        monkeypatch.setenv("OF_A_STORE", "token")
        assert values() == {"token"}
        monkeypatch.delenv("OF_A_STORE")
        assert values() == {None}
        assert pids(processes) | before == before | pids(processes)

    def test_code_that_nobody_could_import_is_sent_along(self, processes: InProcesses) -> None:
        module = ModuleType("pipelines_of_nobody")
        code = "def doubled(number):\n    return 2 * number\n"
        exec(code, vars(module))
        module.doubled.__module__ = module.__name__
        sys.modules[module.__name__] = module
        try:
            with pytest.raises(TaskFailed, match="No module named 'pipelines_of_nobody'"):
                processes.each(partial(_doubled, module.doubled), 1)
            carrier = InProcesses(TaskProcesses(1, lambda task: pickled(task, [module])))
            [table] = carrier.each(partial(_doubled, module.doubled), 1)
            carrier.close()
        finally:
            del sys.modules[module.__name__]
        assert table.to_pylist() == [{"number": 0}]


def test_files_of_a_process_that_was_killed_a_day_ago_are_removed(
    processes: InProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass  # it has ended
    of_dead, of_this = (tmp_path / f"slackwater-tasks-{pid}-x" for pid in (process.pid, os.getpid()))
    young, foreign = tmp_path / f"slackwater-tasks-{process.pid}-y", tmp_path / "slackwater-tasks-of-others"
    for folder in (of_dead, of_this, young, foreign):
        folder.mkdir()
        (folder / "blob").write_text("rows")
    two_days_ago = time.time() - 2 * 86_400
    for folder in (of_dead, of_this, foreign):
        os.utime(folder, (two_days_ago, two_days_ago))
    shuffled(processes, scan_of(commit(tmp_path / "source", {1: 1.0})), 1)
    left = {path.name for path in tmp_path.glob("slackwater-tasks-*")}
    assert left == {of_this.name, young.name, foreign.name}


def _doubled(doubled: Callable[[int], int], number: int) -> Iterator[pa.Table]:
    yield pa.table({"number": [doubled(number)]})


def kill_this(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


class TestErrors:
    def test_an_error_is_told_as_spark_tells_it_and_the_next_slice_is_replayed(
        self, processes: InProcesses, tmp_path: Path
    ) -> None:
        def failing(number: int, received: Iterable[pa.Table]) -> Iterator[pa.Table]:
            raise UserCodeError("the sum does not fit bigint")

        scan = scan_of(commit(tmp_path, ROWS))
        with pytest.raises(
            TaskFailed,
            match=r"^a task failed: slackwater.windowing.errors.UserCodeError: the sum does not fit bigint",
        ) as error:
            processes.shuffle(scan, judging(scan.from_ms, scan.to_ms), 2, failing)
        assert "Traceback" in error.value.trace
        assert shuffled(processes, scan, 3) == shuffled(InProcess(), scan, 3)

    def test_a_function_that_would_end_python_is_an_error_of_the_task(self, processes: InProcesses) -> None:
        def ending(number: int) -> Iterator[pa.Table]:
            sys.exit("enough")

        with pytest.raises(TaskFailed, match="enough"):
            processes.each(ending, 1)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("how", "kind", "message"),
        [
            (lambda: os._exit(7), TaskFailed, "its process ended by itself, with exit code 7"),
            (lambda: kill_this(signal.SIGSEGV), TaskFailed, "its process ended with SIGSEGV"),
            (lambda: kill_this(signal.SIGKILL), OutOfMemory, "the process of a task was ended"),
        ],
        ids=["exit", "SIGSEGV", "SIGKILL"],
    )
    def test_a_process_that_dies_is_told_and_another_takes_its_place(
        self, processes: InProcesses, how: Callable[[], None], kind: type[Exception], message: str
    ) -> None:
        def dying(number: int) -> Iterator[pa.Table]:
            how()
            yield pa.table({})

        with pytest.raises(kind, match=message):
            processes.each(dying, 4)
        assert pids(processes)

    def test_a_module_that_is_not_there_is_told_by_the_first_task(self) -> None:
        carrier = InProcesses(TaskProcesses(1, dumps, modules=["no_such_engine"]))
        with pytest.raises(TaskFailed, match="No module named 'no_such_engine'"):
            pids(carrier)
        carrier.close()

    def test_one_that_can_not_be_started_for_want_of_memory_is_told_as_such(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*arguments: object, **options: object) -> None:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

        monkeypatch.setattr(subprocess, "Popen", full)
        with pytest.raises(OutOfMemory, match="Cannot allocate memory"):
            InProcesses(TaskProcesses(1, dumps)).start()

    @pytest.mark.slow
    def test_one_that_has_died_between_two_slices_is_replaced(self, processes: InProcesses) -> None:
        before = pids(processes)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not pids(processes) & before

    def test_after_an_error_no_task_is_at_work(self, processes: InProcesses, tmp_path: Path) -> None:
        def task(number: int) -> Iterator[pa.Table]:
            if number == 0:
                while not (tmp_path / "at work").exists():
                    time.sleep(0.001)
                raise UserCodeError("of number 0")
            (tmp_path / "at work").write_text(str(os.getpid()))
            time.sleep(600)
            yield pa.table({})

        with pytest.raises(TaskFailed, match="of number 0"):
            processes.each(task, 2)
        assert not Path("/proc", (tmp_path / "at work").read_text()).exists()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


WAITING = """
import sys
from functools import partial
from slackwater.engine.transport.in_processes import InProcesses
from slackwater.engine.transport.task_processes import TaskProcesses
from slackwater.runtime.packaging import pickled

def task(folder, number):
    import os, time
    from pathlib import Path
    Path(folder, str(number)).write_text(str(os.getpid()))
    time.sleep(600)

InProcesses(TaskProcesses(2, lambda task: pickled(task, []))).each(partial(task, sys.argv[1]), 2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_they_end_with_the_process_that_waits_for_them(tmp_path: Path, number: signal.Signals) -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{WAITING}"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.DEVNULL) as driver:
        files = [tmp_path / "0", tmp_path / "1"]
        wait_until(lambda: all(file.exists() and file.read_text() for file in files))
        driver.send_signal(number)
        driver.wait()
        processes = [Path("/proc", file.read_text()) for file in files]
        wait_until(lambda: not any(process.exists() for process in processes))


def test_one_that_nobody_holds_any_more_ends() -> None:
    carrier = InProcesses(TaskProcesses(1, pickle.dumps))
    [pid] = pids(carrier, 1)
    assert Path("/proc", str(pid)).exists()
    del carrier
    assert not Path("/proc", str(pid)).exists()
