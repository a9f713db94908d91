"""Answers a statement in a process of its own, which is ended when its time or its memory is used up.

DuckDB looks for an interruption between two vectors only. Some functions fill one vector for minutes, or with
gigabytes, and meanwhile no other thread of the same Python runs.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.locked_database import RowBatches
from slackwater.inspection.sql.select_statements import NotAStatement, error_of_statement
from slackwater.inspection.sql.sql_answers import SqlAnswer, answer_in_batches, answers, last_answer
from slackwater.inspection.sql.views import LineageViews
from slackwater.runtime.process_end import PARENT, end_with_parent

_MEMORY_BYTES: Final = 1 << 30  # beside what libraries reserve: DuckDB's own limit and what it does not count
_START_SECONDS: Final = 60.0  # for the process to start and to open the tables
_READY: Final = "ready"


@dataclass(frozen=True, kw_only=True)
class StatementQuestion:
    """A statement about one pipeline, as of a ledger row. `limit`: how many rows to answer with; None: all,
    in batches. It is stopped after `seconds`.
    """

    pipeline: str
    warehouse: str
    seq: int
    sql: str
    limit: int | None
    seconds: float


def answer_in_process(question: StatementQuestion) -> SqlAnswer:
    """Raises NotAStatement also where the first rows take more than the question's seconds."""
    with _replies_to(question) as replies:
        return last_answer(iter(replies.__next__, None))


@contextmanager
def batches_in_process(question: StatementQuestion) -> Iterator[RowBatches]:
    with _replies_to(question) as replies:
        schema = next(replies)
        yield RowBatches(schema, iter(replies.__next__, None))


@contextmanager
def _replies_to(question: StatementQuestion) -> Iterator[Iterator[Any]]:
    """The replies of a process to a question; it is ended with the block. An error that the process sends is
    raised here.
    """
    own_end, other_end = Pipe()
    with closing(own_end):
        with closing(other_end):
            main = f"from {__name__} import work; work({other_end.fileno()})"
            process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {main}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, PARENT: str(os.getpid())},
                pass_fds=[other_end.fileno()],
            )
        try:
            with suppress(BrokenPipeError):
                own_end.send(question)
            yield _replies(own_end, question)
        finally:
            process.kill()
            process.wait()


def _replies(connection: Connection, question: StatementQuestion) -> Iterator[Any]:
    is_ready, deadline = False, time.monotonic() + _START_SECONDS
    while True:
        if not connection.poll(max(0.0, deadline - time.monotonic())):
            raise NotAStatement(
                f"the statement was stopped after {question.seconds:g} s. Ask for less: a condition on the "
                "key or on run_seq, or fewer columns."
            )
        try:
            reply = connection.recv()
        except (EOFError, ConnectionResetError):
            # The process has died without a word: what it allocated went beyond its limit.
            raise error_of_statement("Out of Memory Error: ", question.sql) from None
        if isinstance(reply, Exception):
            raise reply
        if is_ready:
            yield reply
        else:
            is_ready, deadline = True, time.monotonic() + question.seconds


def work(descriptor: int) -> None:
    end_with_parent()
    with Connection(descriptor) as connection, suppress(BrokenPipeError):
        question = connection.recv()
        try:
            _reply(connection, question)
        except MemoryError:
            connection.send(error_of_statement("Out of Memory Error: ", question.sql))
        except Exception as error:  # noqa: BLE001 - raised again where the question was asked
            connection.send(error)


def _reply(connection: Connection, question: StatementQuestion) -> None:
    inspection = Inspection.of(question.pipeline, question.warehouse)
    with LineageViews.over(inspection, inspection.run(question.seq)) as views:
        _limit_memory()
        connection.send(_READY)
        if question.limit is not None:
            for result in answers(views, question.sql, question.limit):
                connection.send(result)
        else:
            with answer_in_batches(views, question.sql) as stream:
                connection.send(stream.schema)
                for batch in stream.batches:
                    connection.send(batch)
        connection.send(None)


def _limit_memory() -> None:
    """Let the process have `_MEMORY_BYTES` more than now. Only Linux says how much that is."""
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmData:")]
        limit = int(line.split()[1]) * 1024 + _MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
