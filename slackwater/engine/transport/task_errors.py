"""Errors of tasks as the driver raises them: permanent for code and data, retryable for storage. Spark hands
over only a traceback's text.
"""

import builtins
import re

from slackwater.errors import PermanentError, RetryableError, SlackwaterError, out_of_memory
from slackwater.tables import errors as table_errors
from slackwater.tables.delta.parquet import parse_damaged_file
from slackwater.tables.storage_errors import is_failure


class TaskFailed(PermanentError):
    """A task raised; the whole trace is in `trace`."""


class TaskWithoutStorage(RetryableError):
    """A task could not read or write: storage failed, is full, or refused an expired token."""


class ExecutorsLost(RetryableError):
    """Executors were lost with what their tasks had made, and Spark does not make it again itself."""


_SYSTEM = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, OSError)
}
_WITHOUT_MODULE = "|".join(("MemoryError", *sorted(_SYSTEM)))
_ERROR_LINE = re.compile(rf"^(?:(?:[A-Za-z_]\w*\.)+\w+|{_WITHOUT_MODULE}): .+", re.MULTILINE)
# Of a job that Spark gives up, because some of its results are there already.
_LOST = "shuffle map stage with indeterminate output was failed and retried"
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\] (.+)")
_OF_JAVA = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+\w*(?:Exception|Error): .+", re.MULTILINE)
_TABLE_ERRORS = f"{table_errors.__name__}."


def error_from_trace(trace: str) -> SlackwaterError:
    """The error of a traceback from Spark: its last line that names an error of a module or system."""
    other_python = _OTHER_PYTHON.search(trace)
    if other_python is not None:
        return TaskFailed(
            f"a task failed: {other_python[1]} PYSPARK_PYTHON names the Python of the executors.", trace=trace
        )
    error_lines = [
        line for line in _ERROR_LINE.findall(trace) if not line.startswith(("pyspark.", "org.", "py4j."))
    ]
    return _error(error_lines[-1] if error_lines else trace, trace)


def error_from_error(error: Exception, trace: str) -> SlackwaterError:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" and isinstance(error, OSError) else f"{kind.__module__}."
    return _error(f"{module}{kind.__qualname__}: {error}", trace)


def error_from_java(text: str) -> SlackwaterError | None:
    """The error of a storage failure that Java has met, or of lost executors; None for other failures."""
    if _LOST in text:
        return ExecutorsLost(f"executors were lost while others had ended already. {_REPEAT}")
    failures = [line for line in _OF_JAVA.findall(text) if is_failure(line)]
    return TaskWithoutStorage(f"a task failed: {failures[-1]} {_REPEAT}", trace=text) if failures else None


def _error(error_line: str, trace: str) -> SlackwaterError:
    if (damaged_file := parse_damaged_file(error_line)) is not None:
        return damaged_file
    name, _, message = error_line.partition(": ")
    if not name.startswith("slackwater."):
        failure = out_of_memory((MemoryError if name.endswith("MemoryError") else Exception)(message))
        if failure is not None:
            return failure
    kind = (
        getattr(table_errors, name.removeprefix(_TABLE_ERRORS), None)
        if name.startswith(_TABLE_ERRORS)
        else None
    )
    if kind is not None and issubclass(kind, RetryableError):
        return TaskWithoutStorage(f"a task failed: {message}", trace=trace)
    if name == FileNotFoundError.__name__:
        step = "Put the file back from a copy, then repeat the command."
        return TaskFailed(f"a task failed: {message}. {step}", trace=trace)
    if name in _SYSTEM and is_failure(message):
        return TaskWithoutStorage(f"a task failed: {message} {_REPEAT}", trace=trace)
    return TaskFailed(f"a task failed: {error_line}", trace=trace)


_REPEAT = "What is committed stands; repeat the command, which goes on from there."
