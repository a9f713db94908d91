"""Each failure of storage is reported with its cause wherever it happens, and the cause decides whether the
error is retryable.
"""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from slackwater.engine.source import pinning
from slackwater.engine.source.pinning import pin
from slackwater.engine.transport.task_errors import (
    ExecutorsLost,
    TaskFailed,
    TaskWithoutStorage,
    error_from_error,
    error_from_java,
    error_from_trace,
)
from slackwater.errors import RetryableError, SlackwaterError
from slackwater.pipelines import DeltaSource
from slackwater.tables.delta import commits, table_handles, written_files
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import (
    CredentialsExpired,
    NotADeltaTable,
    StorageFailed,
    StorageFull,
    TooManyOpenFiles,
    WarehouseNotReadable,
    WarehouseNotWritable,
)
from slackwater.tables.storage_errors import Cause, cause_of, reason, unforeseen
from slackwater.windowing.errors import UserCodeError

SCHEMA = pa.schema([("n", pa.int64())])
# As delta-rs 1.6 says it of an S3 that answers so.
STATUS = """Kernel error -> Generic S3 error
          \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:40679/b/t/_last_checkpoint in 109.8ms, \
after 10 retries, max_retries
           \x1b[31m↳\x1b[0m 10, retry_timeout
            \x1b[31m↳\x1b[0m 180s  - Server returned non-2xx status code
             \x1b[31m↳\x1b[0m {}
   0: backtrace"""
CUT = (
    "Generic S3 error: Error performing PUT http://host/b in 60s, after 10 retries - HTTP error: error "
    "sending request: {}"
)
EXPIRED_TOKEN = (
    "400 Bad Request: <Error><Code>ExpiredToken</Code><Message>The provided token has "
    "expired.</Message></Error>"
)

FULL = OSError(errno.ENOSPC, "No space left on device", "/w/p/panes/x.parquet")
OPEN_FILES = OSError(errno.EMFILE, "Too many open files", "/w/p/runs")
DENIED_ACCESS = OSError(
    "Generic LocalFileSystem error: Unable to open file /w/x: Permission denied (os error 13)"
)

CAUSES: list[tuple[Exception, Cause]] = [
    (FULL, Cause.FULL),
    (
        OSError(
            "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error "
            "28)"
        ),
        Cause.FULL,
    ),
    (DeltaError("Generic error: Disk quota exceeded"), Cause.FULL),
    (OPEN_FILES, Cause.OPEN_FILES),
    (DeltaError("Kernel error: IO error: Too many open files (os error 24)"), Cause.OPEN_FILES),
    (OSError(STATUS.format(EXPIRED_TOKEN)), Cause.EXPIRED_CREDENTIALS),
    (
        OSError(
            "Generic MicrosoftAzure error: 401 Unauthorized: Lifetime validation failed. The token is "
            "expired."
        ),
        Cause.EXPIRED_CREDENTIALS,
    ),
    *(
        (OSError(STATUS.format(words)), Cause.TRANSIENT)
        for words in ("503 Service Unavailable", "500 Internal Server Error", "429 Too Many")
    ),
    *(
        (OSError(CUT.format(words)), Cause.TRANSIENT)
        for words in ("operation timed out", "connection reset by peer", "dns error")
    ),
    (OSError(CUT.format("tcp connect error: Connection refused (os error 111)")), Cause.TRANSIENT),
    (
        OSError(
            "When reading information for key 'x': AWS Error SLOW_DOWN: Please reduce your request rate. "
            "SlowDown"
        ),
        Cause.TRANSIENT,
    ),
    (TimeoutError(), Cause.TRANSIENT),
    (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), Cause.TRANSIENT),
    (DENIED_ACCESS, Cause.NO_PERMISSION),
    (OSError(STATUS.format("403 Forbidden: <Error><Code>AccessDenied</Code></Error>")), Cause.NO_PERMISSION),
    (OSError(errno.EROFS, "Read-only file system"), Cause.NO_PERMISSION),
    (FileNotFoundError("x"), Cause.MISSING),
    (OSError(STATUS.format("404 Not Found")), Cause.MISSING),
    (OSError("Not a directory (os error 20)"), Cause.WRONG_PATH),
    (OSError(errno.EIO, "Input/output error"), Cause.UNKNOWN),
    (OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"), Cause.UNKNOWN),
    (
        DeltaError("Invalid JSON in log record, line=garbage, in /timeouts/503/_delta_log: /status 503"),
        Cause.UNKNOWN,
    ),
]
RETRYABLE_ERRORS: list[tuple[Exception, type[SlackwaterError], str]] = [
    (FULL, StorageFull, "the disk is full .*Make room"),
    (OPEN_FILES, TooManyOpenFiles, "too many files are open .*`ulimit -n 4096`"),
    (OSError(STATUS.format(EXPIRED_TOKEN)), CredentialsExpired, "the credentials have expired .*Renew them"),
    (
        OSError(STATUS.format("503 Slow Down")),
        StorageFailed,
        "did not answer as it should .*after 10 retries.*503 Slow Down",
    ),
    (
        OSError(CUT.format("connection reset")),
        StorageFailed,
        "did not answer as it should .*connection reset",
    ),
    (OSError(errno.EIO, "Input/output error"), StorageFailed, "storage failed .*Input/output error"),
]


@pytest.mark.parametrize(("error", "cause"), CAUSES)
def test_a_cause_is_known_by_number_type_or_words(error: Exception, cause: Cause) -> None:
    assert cause_of(error) is cause


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(f"{tmp_path}/t", SCHEMA)
    folder.append(pa.table({"n": [1]}))
    return folder


@contextmanager
def failing(owner: Any, name: str, error: Exception) -> Iterator[None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fail)
        yield


@pytest.mark.parametrize(("error", "kind", "words"), RETRYABLE_ERRORS)
class TestWhatMayPassIsTriedAgain:
    def test_when_a_table_is_opened(
        self, folder: Folder, error: Exception, kind: type[SlackwaterError], words: str
    ) -> None:
        with (
            failing(table_handles, "DeltaTable", error),
            pytest.raises(kind, match=rf"{folder.uri}: can't be read: .*{words}.*repeat") as raised_error,
        ):
            Folder(folder.uri, SCHEMA).read()
        assert raised_error.value.exit_code == 3 and "\n" not in str(raised_error.value)

    def test_when_a_commit_is_made(
        self, folder: Folder, error: Exception, kind: type[SlackwaterError], words: str
    ) -> None:
        with (
            failing(commits, "put_first", error),
            pytest.raises(kind, match=rf"{folder.uri}: can't be written: .*{words}.*repeat"),
        ):
            folder.append(pa.table({"n": [2]}))
        assert folder.read().num_rows == 1

    def test_when_a_file_is_written(
        self, folder: Folder, error: Exception, kind: type[SlackwaterError], words: str
    ) -> None:
        with failing(written_files, "write_sealed", error), pytest.raises(kind, match=words):
            folder.append(pa.table({"n": [2]}))

    def test_when_a_source_is_pinned(
        self, folder: Folder, error: Exception, kind: type[SlackwaterError], words: str
    ) -> None:
        source = DeltaSource("t", event_time="e", arrival_time="a")
        with failing(table_handles, "DeltaTable", error), pytest.raises(kind, match=words):
            pin(source, folder.uri)
        with failing(pinning, "DeltaTable", error), pytest.raises(kind, match=words):
            pin(source, folder.uri, 0)

    def test_when_a_task_of_this_process_meets_it(
        self, error: Exception, kind: type[SlackwaterError], words: str
    ) -> None:
        assert isinstance(error_from_error(error, "trace"), TaskWithoutStorage)
        assert error_from_error(error, "trace").exit_code == 3

    def test_when_a_task_on_spark_has_told_it(
        self, error: Exception, kind: type[SlackwaterError], words: str
    ) -> None:
        error_of_task = kind(f"/w/panes: can't be written: {error}")
        trace = (
            f"Traceback (most recent call last):\n  File x\n{kind.__module__}.{kind.__name__}: "
            f"{error_of_task.message.splitlines()[0]}\n"
        )
        error_found = error_from_trace(trace)
        assert isinstance(error_found, TaskWithoutStorage) and error_found.message.startswith(
            "a task failed: /w/panes: can't be written"
        )
        assert error_found.facts == {"trace": trace}


def test_what_is_refused_or_no_table_is_not_tried_again(folder: Folder) -> None:
    with (
        failing(table_handles, "DeltaTable", DENIED_ACCESS),
        pytest.raises(WarehouseNotReadable, match=r"can't be read .*Permission denied.*permissions"),
    ):
        Folder(folder.uri, SCHEMA).read()
    with (
        failing(commits, "put_first", DENIED_ACCESS),
        pytest.raises(WarehouseNotWritable, match="Permission denied"),
    ):
        folder.append(pa.table({"n": [2]}))
    with (
        failing(table_handles, "DeltaTable", DeltaError("garbage")),
        pytest.raises(NotADeltaTable, match="garbage"),
    ):
        Folder(folder.uri, SCHEMA).read()


class TestTasks:
    def test_an_error_of_the_system_in_a_trace_is_one_of_storage(self) -> None:
        trace = (
            "Traceback (most recent call last):\n  File x\nOSError: [Errno 28] Failed to write: No space "
            "left on device\n"
        )
        error_found = error_from_trace(trace)
        assert (
            isinstance(error_found, TaskWithoutStorage) and "No space left on device" in error_found.message
        )

    @pytest.mark.parametrize(
        "error",
        [
            UserCodeError("key 1: status code 503 Service Unavailable"),
            ValueError("connection reset"),
            FileNotFoundError(2, "No such file"),
        ],
    )
    def test_words_of_a_user_s_error_are_not_taken_for_storage_s(self, error: Exception) -> None:
        error_found = error_from_error(error, "trace")
        assert isinstance(error_found, TaskFailed) and error_found.exit_code == 1
        assert isinstance(
            error_from_trace(f"Traceback:\n{type(error).__module__}.{type(error).__name__}: {error}"),
            TaskFailed,
        )

    def test_what_java_has_met_of_storage_is_tried_again_and_nothing_else(self) -> None:
        text = (
            "An error occurred.\n: org.apache.spark.SparkException: Job aborted\n\tat "
            "x.TimeoutException(A.scala)\n"
        )
        assert error_from_java(text) is None
        error_found = error_from_java(
            f"{text}Caused by: java.io.IOException: No space left on device\n\tat java.base/x(Y.java)\n"
        )
        assert error_found is not None and error_found.exit_code == 3
        assert "java.io.IOException: No space left on device" in error_found.message
        error_found = error_from_java(  # as Spark 4.2 words it
            ": org.apache.spark.SparkException: Job aborted due to stage failure: A shuffle map stage with "
            "indeterminate output was failed and retried. However, Spark cannot rollback the ResultStage 3"
        )
        assert isinstance(error_found, ExecutorsLost) and error_found.exit_code == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FULL, 3),
        (OPEN_FILES, 3),
        (TimeoutError(), 3),
        (OSError(errno.EIO, "x"), 3),
        (PermissionError(13, "x"), 2),
        (FileNotFoundError(2, "x"), 1),
    ],
)
def test_an_error_that_nobody_expected_has_the_exit_code_of_its_cause(error: Exception, code: int) -> None:
    assert unforeseen(error).exit_code == code


class _Store(BaseHTTPRequestHandler):
    """An S3 that says the same to whatever it is asked."""

    status, body = 503, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, str], None]]:
    """Sets what the store says."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Store)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    for name, value in {**endpoint, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)

    def say(status: int, body: str = "") -> None:
        monkeypatch.setattr(_Store, "status", status)
        monkeypatch.setattr(_Store, "body", body.encode())

    yield say
    server.shutdown()
    server.server_close()


@pytest.mark.first_fast
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            400,
            "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>",
            CredentialsExpired,
        ),
        (403, "<Error><Code>AccessDenied</Code></Error>", WarehouseNotReadable),
        (501, "<Error><Code>NotImplemented</Code></Error>", StorageFailed),
    ],
)
def test_a_store_s_own_answers_are_understood(
    store: Callable[..., None],
    status: int,
    body: str,
    kind: type[SlackwaterError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By delta-rs as it is: the next version may say it in other words. It asks ten times again where it
    isn't told to do so once.
    """
    store(status, body)
    monkeypatch.setattr(
        table_handles, "DeltaTable", partial(DeltaTable, storage_options={"max_retries": "1"})
    )
    with pytest.raises(kind) as raised_error:
        Folder("s3://bucket/warehouse/p/runs", SCHEMA).read()
    assert isinstance(raised_error.value, RetryableError) == (kind is not WarehouseNotReadable)


def test_a_reason_is_without_the_names_of_rusts_values() -> None:
    error = OSError('Local path "/x" is not there! Error: Os { code: 2, kind: NotFound, message: "No file" }')
    assert reason(error) == 'Local path "/x" is not there! No file'
    assert reason(OSError("Operation failed\n   \x1b[31m↳\x1b[0m no token")) == "Operation failed: no token"
