"""Processes of this machine that run pickled tasks one after the other, and answer with blobs or with the
trace of an error. They end with whoever started them.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

import pyarrow as pa

from slackwater.engine.transport import task_errors
from slackwater.engine.transport.process_memory import forget_peak
from slackwater.errors import OutOfMemory, out_of_memory
from slackwater.runtime.process_end import PARENT, end_if_stalled, end_with_parent

# Makes record batches (number, data) as of `to_blobs`.
Task = Callable[[], Iterable[pa.RecordBatch]]
Blob = tuple[int, bytes]


class _TaskProcess(NamedTuple):
    process: "subprocess.Popen[bytes]"
    connection: Connection


class _TaskAnswer(NamedTuple):
    """The blobs of a task, or the trace of the error that it has raised."""

    blobs: list[Blob]
    trace: str | None


class TaskProcesses:
    """`count` processes that run tasks. They look for modules where this one does; where that has changed
    others take their place. Tasks find the variables of this process as they were when `run` was called.

    Args:
        dumps: pickles a task, with the user's own code.
        environment: their variables besides this process's.
        modules: modules that they import before their first task.
    """

    def __init__(
        self,
        count: int,
        dumps: Callable[[Task], bytes],
        environment: Mapping[str, str] | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        self.count = count
        self._dumps = dumps
        self._own_variables = dict(environment or {})
        self._modules = list(modules)
        self._search_path: list[str] = []
        self._processes: list[_TaskProcess] = []
        self._lock = threading.RLock()
        weakref.finalize(self, _end, self._processes)

    def start(self) -> None:
        """Start those that do not run, and wait for none."""
        with self._lock:
            has_died = any(item.process.poll() is not None for item in self._processes)
            if has_died or self._search_path != sys.path:
                _end(self._processes)
                self._search_path = list(sys.path)
            while len(self._processes) < self.count:
                self._processes.append(self._start_one())

    def close(self) -> None:
        with self._lock:
            _end(self._processes)

    def run(self, tasks: Iterable[Task]) -> list[Blob]:
        """The blobs of all tasks, in their order; other threads wait. Raises a SlackwaterError where a task
        has raised or its process has died, and gives the others up.
        """
        with self._lock:
            return self._run(tasks)

    def _run(self, tasks: Iterable[Task]) -> list[Blob]:
        blobs: dict[int, list[Blob]] = {}
        variables = self._variables()
        tasks_left, at_work = enumerate(tasks), dict[Connection, int]()
        try:
            self.start()
            idle = [item.connection for item in self._processes]
            while True:
                for connection in idle:
                    if (next_one := next(tasks_left, None)) is not None:
                        number, task = next_one
                        self._send(connection, pickle.dumps((variables, self._dumps(task))))
                        at_work[connection] = number
                if not at_work:
                    return [blob for number in sorted(blobs) for blob in blobs[number]]
                idle = [item for item in wait(list(at_work)) if isinstance(item, Connection)]
                for connection in idle:
                    blobs[at_work.pop(connection)] = self._answer(connection)
        except BaseException:
            self.close()
            raise

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self._own_variables}

    def _send(self, connection: Connection, message: bytes) -> None:
        try:
            connection.send_bytes(message)
        except OSError:
            raise self._death(connection) from None

    def _answer(self, connection: Connection) -> list[Blob]:
        try:
            answer: _TaskAnswer = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            raise self._death(connection) from None
        if answer.trace is not None:
            raise task_errors.error_from_trace(answer.trace)
        return answer.blobs

    def _death(self, connection: Connection) -> Exception:
        [process] = [item.process for item in self._processes if item.connection is connection]
        code = process.wait()
        if code in (-signal.SIGKILL, OutOfMemory.exit_code):  # by the kernel, or as it has stalled
            memory = out_of_memory(MemoryError("the process of a task was ended"))
            assert memory is not None
            return memory
        how = f"with {signal.Signals(-code).name}" if code < 0 else f"by itself, with exit code {code}"
        return task_errors.TaskFailed(f"a task failed: its process ended {how}", trace="")

    def _start_one(self) -> _TaskProcess:
        own_end, other_end = Pipe()
        with other_end:
            code = (
                f"import sys; sys.path[:] = {self._search_path!r}; from {__name__} import work; "
                f"work({other_end.fileno()}, {self._modules!r})"
            )
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.DEVNULL,
                    stdout=sys.__stderr__.fileno() if sys.__stderr__ is not None else subprocess.DEVNULL,
                    env={**self._variables(), PARENT: str(os.getpid())},
                    pass_fds=[other_end.fileno()],
                )
            except OSError as error:
                own_end.close()
                raise task_errors.error_from_error(
                    error, "".join(traceback.format_exception(error))
                ) from error
        return _TaskProcess(process, own_end)


def _end(processes: list[_TaskProcess]) -> None:
    while processes:
        process, connection = processes.pop()
        process.kill()
        process.wait()
        connection.close()


def work(descriptor: int, modules: Iterable[str]) -> None:
    """The main function of such a process, which tasks reach by that descriptor's connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the tasks ends this one
    end_with_parent()
    end_if_stalled()
    at_start = _answer_of(partial(_load, modules))
    with Connection(descriptor) as connection, contextlib.suppress(EOFError):
        while True:
            message = connection.recv_bytes()
            answer = _answer_of(partial(_blobs_of, message)) if at_start.trace is None else at_start
            connection.send_bytes(pickle.dumps(answer))


def _answer_of(call: Callable[[], list[Blob]]) -> _TaskAnswer:
    try:
        return _TaskAnswer(call(), None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - functions of the user's raise anything
        return _TaskAnswer([], "".join(traceback.format_exception(error)))


def _load(modules: Iterable[str]) -> list[Blob]:
    for name in modules:
        import_module(name)
    return []


def _blobs_of(message: bytes) -> list[Blob]:
    """The blobs that a pickled task makes, under the variables that came with it."""
    variables, task = pickle.loads(message)
    if variables != os.environ:
        os.environ.clear()
        os.environ.update(variables)
    forget_peak()
    return [
        (number, data.as_buffer().to_pybytes())
        for batch in pickle.loads(task)()
        for number, data in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
    ]
