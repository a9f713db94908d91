"""What a task's error becomes for the user of a command."""

from slackwater.jobs.engines.transport import task_errors


def test_a_file_that_is_gone_fails_for_good_and_says_what_to_do() -> None:
    error = task_errors.of_error(FileNotFoundError(2, "Failed to open local file '/w/x.parquet'"), "trace")
    assert error.exit_code == 1 and "'/w/x.parquet'" in error.message
    assert error.message.endswith("Put the file back from a copy, then repeat the command.")
