"""What an error of storage means: the one place that tells its causes apart, and with them whether the same
command may succeed later.

By the number of the operating system's error where there is one, by its Python type, and last by the words of
delta-rs, Arrow, Hadoop and the stores behind them, which hand over nothing but text. Standard library only: a
backstop of the command line asks here, too.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from slackwater.jobs.errors import PermanentError, SlackwaterError
from slackwater.jobs.tables.errors import (
    CredentialsExpired,
    StorageFailed,
    StorageFull,
    TooManyOpenFiles,
    WarehouseNotReadable,
    WarehouseNotWritable,
)


class Cause(Enum):
    """Why storage did not do what it was asked for."""

    FULL = auto()
    OPEN_FILES = auto()
    EXPIRED = auto()
    TRANSIENT = auto()
    REFUSED = auto()
    MISPLACED = auto()
    MISSING = auto()
    UNKNOWN = auto()


_OF_NUMBER = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Cause.FULL),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), Cause.OPEN_FILES),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Cause.REFUSED),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP), Cause.MISPLACED),
    errno.ENOENT: Cause.MISSING,
    **dict.fromkeys(
        (errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE),
        Cause.TRANSIENT,
    ),
    **dict.fromkeys(
        (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.EAGAIN),
        Cause.TRANSIENT,
    ),
    **dict.fromkeys((errno.EINTR, errno.EBUSY, errno.ESTALE), Cause.TRANSIENT),
}
_NUMBER = re.compile(r"\((?:os error|errno) (\d+)\)|\[errno (\d+)\]", re.IGNORECASE)
_STATUS = r"\b(?:status|code|http)\b\W{{0,5}}(?:code\W{{0,5}})?(?:{})\b"
_OF_TYPE = (
    (FileNotFoundError, Cause.MISSING),
    (PermissionError, Cause.REFUSED),
    (TimeoutError, Cause.TRANSIENT),
)
# The first that matches counts: a store may call an expired token forbidden, and says how often it has tried
# before it says why.
_OF_WORDS = tuple(
    (cause, re.compile(words, re.IGNORECASE))
    for cause, words in (
        (Cause.FULL, r"no space left|disk quota exceeded"),
        (Cause.OPEN_FILES, r"too many open files"),
        (
            Cause.EXPIRED,
            r"expired ?token|token\b.{0,40}\bexpired|token ?refresh ?required|request ?expired|credentials? "
            r".{0,20}expired",
        ),
        (Cause.TRANSIENT, _STATUS.format(r"408|425|429|5\d\d")),
        (
            Cause.REFUSED,
            _STATUS.format("401|403")
            + r"|permission denied|access ?denied|necessary privileges|unauthorized",
        ),
        (Cause.MISSING, _STATUS.format("404|410")),
        (Cause.REFUSED, r"signature ?does ?not ?match|invalid ?access ?key ?id|read-only file system"),
        (Cause.MISPLACED, r"not a directory|is a directory"),
        (
            Cause.TRANSIENT,
            r"time(?:d )?-?out|connection \w*\s?(?:reset|refused|closed|aborted|error)|broken pipe|error "
            r"sending request",
        ),
        (
            Cause.TRANSIENT,
            r"dns error|name resolution|lookup address|temporarily unavailable|service ?unavailable|slow "
            r"?down|throttl",
        ),
        (
            Cause.TRANSIENT,
            r"too many requests|internal ?(?:server ?)?error|bad gateway|incomplete ?(?:message|read)|after "
            r"\d+ retries",
        ),
        (Cause.MISSING, r"no such file|no ?such ?(?:key|bucket)|not ?found"),
    )
)
# A path may hold any word. The tags of a store's XML are none.
_PATH = re.compile(r"[^\s<>]*(?<!<)/[^\s<>]*")


def cause_of(error: BaseException | str) -> Cause:
    """The cause of an error, or of one of which only the text is left."""
    number = getattr(error, "errno", None)
    text = error if isinstance(error, str) else reason(error)
    if not isinstance(number, int):
        match = _NUMBER.search(text)
        number = None if match is None else int(match[1] or match[2])
    if number in _OF_NUMBER:
        return _OF_NUMBER[number]
    for kind, cause in _OF_TYPE:
        if isinstance(error, kind):
            return cause
    words = _PATH.sub(" ", text)
    return next((cause for cause, pattern in _OF_WORDS if pattern.search(words)), Cause.UNKNOWN)


def reason(error: BaseException) -> str:
    """What delta-rs, Arrow or the system says is wrong, on one line: without colours and without a backtrace
    of delta-rs.
    """
    return " ".join(_COLOUR.sub("", str(error)).split("\n   0: ")[0].split())


def is_failure(error: BaseException | str) -> bool:
    """Whether storage itself has failed, by an error or its text. Where the cause is not known the error must
    be one of a system call or a store: Arrow calls damage within a file an OSError, too."""
    cause = cause_of(error)
    if cause is not Cause.UNKNOWN:
        return cause in _FAILURES
    return getattr(error, "errno", None) is not None or (
        isinstance(error, str | OSError) and _STORE.search(str(error)) is not None
    )


def storage_error(uri: str, action: str, error: BaseException) -> SlackwaterError | None:
    """The error to raise where storage itself has failed. None where it has answered, and its answer is what
    is wrong: something is missing or refused, or is not what it should be. Callers know what that means.

    Args:
        action: what was tried, as a participle ("written").
    """
    if not is_failure(error):
        return None
    kind, told, way = _FAILURES[cause_of(error)]
    return kind(f"{uri}: can't be {action}: {told} ({reason(error)}). {way}", uri=uri)


def not_writable(uri: str, error: BaseException) -> SlackwaterError:
    """The error to raise for what could not be written."""
    return storage_error(uri, "written", error) or WarehouseNotWritable(
        f"{uri}: can't be written ({reason(error)}). Check the warehouse's path and permissions.", uri=uri
    )


def not_readable(uri: str, error: BaseException) -> SlackwaterError | None:
    """As `storage_error`, for what was to be read; a refusal is an error, too."""
    if cause_of(error) is Cause.REFUSED:
        return WarehouseNotReadable(
            f"{uri}: can't be read ({reason(error)}). Check its path and permissions.", uri=uri
        )
    return storage_error(uri, "read", error)


def unforeseen(error: BaseException) -> SlackwaterError:
    """The error to end a command with where one of storage has come through from a place that does not expect
    it.
    """
    where = str(getattr(error, "filename", None) or "storage")
    if cause_of(error) is Cause.MISSING:
        return PermanentError(f"{where}: a file that is needed is not there ({reason(error)}).")
    return not_readable(where, error) or PermanentError(f"{where}: can't be used ({reason(error)}).")


@contextmanager
def reads(uri: str) -> Iterator[None]:
    """Errors of storage in the block become those of `not_readable`; others stay what they are."""
    try:
        yield
    except OSError as error:
        failure = not_readable(uri, error)
        if failure is None:
            raise
        raise failure from error


_STORE = re.compile(
    r"generic \w+ error|error performing|(?:input/output|i/o) error|os error \d|errno \d", re.IGNORECASE
)
_COLOUR = re.compile(r"\x1b\[\d*m")
_REPEAT = "What is committed stands; repeat the command, which goes on from there."
_FAILURES: dict[Cause, tuple[type[SlackwaterError], str, str]] = {
    Cause.FULL: (StorageFull, "the disk is full", f"Make room on it. {_REPEAT}"),
    Cause.OPEN_FILES: (
        TooManyOpenFiles,
        "too many files are open",
        f"Let the process open more of them (`ulimit -n 4096`). {_REPEAT}",
    ),
    Cause.EXPIRED: (CredentialsExpired, "the credentials have expired", f"Renew them. {_REPEAT}"),
    Cause.TRANSIENT: (StorageFailed, "storage did not answer as it should", _REPEAT),
    Cause.UNKNOWN: (StorageFailed, "storage failed", _REPEAT),
}
