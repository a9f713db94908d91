"""What a task's error becomes for the user of a command."""

import traceback

import pyarrow as pa
import pytest

from slackwater.engine.transport import task_errors
from slackwater.windowing.errors import UserCodeError


def test_a_file_that_is_gone_fails_for_good_and_says_what_to_do() -> None:
    error = task_errors.error_from_error(
        FileNotFoundError(2, "Failed to open local file '/w/x.parquet'"), "trace"
    )
    assert error.exit_code == 1 and "'/w/x.parquet'" in error.message
    assert error.message.endswith("Put the file back from a copy, then repeat the command.")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("all is taken"),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
    ],
)
def test_where_memory_lacks_the_command_can_be_repeated(error: Exception) -> None:
    trace = "".join(traceback.format_exception(error))
    for failure in (task_errors.error_from_error(error, trace), task_errors.error_from_trace(trace)):
        assert failure.exit_code == 3 and f"memory ran out ({error})" in failure.message
        assert "repeat the command" in failure.message


def test_a_function_that_takes_all_memory_fails_for_good() -> None:
    error = UserCodeError("window function failed with MemoryError: cannot allocate memory")
    trace = "".join(traceback.format_exception(error))
    assert {
        task_errors.error_from_error(error, trace).exit_code,
        task_errors.error_from_trace(trace).exit_code,
    } == {1}
