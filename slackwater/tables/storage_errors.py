"""Classifies errors of storage by their cause: may the same command succeed later?

The number of the operating system's error decides, then the Python type, and last the words of the message:
delta-rs, Arrow, Hadoop and the stores hand over nothing but text. Standard library only, for the command
line.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from slackwater.errors import PermanentError, SlackwaterError
from slackwater.tables.errors import (
    CredentialsExpired,
    StorageFailed,
    StorageFull,
    TooManyOpenFiles,
    WarehouseNotReadable,
    WarehouseNotWritable,
)


class Cause(Enum):
    """Why storage failed or refused. TRANSIENT: the next try may succeed. WRONG_PATH: no file can have this
    path, such as one below a file.
    """

    FULL = auto()
    OPEN_FILES = auto()
    EXPIRED_CREDENTIALS = auto()
    TRANSIENT = auto()
    NO_PERMISSION = auto()
    WRONG_PATH = auto()
    MISSING = auto()
    UNKNOWN = auto()


_CAUSE_BY_NUMBER = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Cause.FULL),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), Cause.OPEN_FILES),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Cause.NO_PERMISSION),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP), Cause.WRONG_PATH),
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
_RUST_ERROR = re.compile(r'(?:Error: )?Os \{ code: \d+, kind: \w+, message: "([^"]*)" \}')
_STATUS = r"\b(?:status|code|http)\b\W{{0,5}}(?:code\W{{0,5}})?(?:{})\b"
_CAUSE_BY_TYPE = (
    (FileNotFoundError, Cause.MISSING),
    (PermissionError, Cause.NO_PERMISSION),
    (TimeoutError, Cause.TRANSIENT),
)
# The first pattern that matches counts: a store may call an expired token forbidden, and its message may say
# how often it has tried before it says why.
_CAUSE_BY_WORDS = tuple(
    (cause, re.compile(words, re.IGNORECASE))
    for cause, words in (
        (Cause.FULL, r"no space left|disk quota exceeded"),
        (Cause.OPEN_FILES, r"too many open files"),
        (
            Cause.EXPIRED_CREDENTIALS,
            r"expired ?token|token\b.{0,40}\bexpired|token ?refresh ?required|request ?expired|credentials? "
            r".{0,20}expired",
        ),
        (Cause.TRANSIENT, _STATUS.format(r"408|425|429|5\d\d")),
        (
            Cause.NO_PERMISSION,
            _STATUS.format("401|403")
            + r"|permission denied|access ?denied|necessary privileges|unauthorized",
        ),
        (Cause.MISSING, _STATUS.format("404|410")),
        (Cause.NO_PERMISSION, r"signature ?does ?not ?match|invalid ?access ?key ?id|read-only file system"),
        (Cause.WRONG_PATH, r"not a directory|is a directory"),
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
# Paths are cut out of a message, because they may hold any word. The tags of a store's XML are no paths.
_PATH = re.compile(r"[^\s<>]*(?<!<)/[^\s<>]*")


def cause_of(error: BaseException | str) -> Cause:
    number = getattr(error, "errno", None)
    text = error if isinstance(error, str) else reason(error)
    if not isinstance(number, int):
        match = _NUMBER.search(text)
        number = None if match is None else int(match[1] or match[2])
    if number in _CAUSE_BY_NUMBER:
        return _CAUSE_BY_NUMBER[number]
    for kind, cause in _CAUSE_BY_TYPE:
        if isinstance(error, kind):
            return cause
    words = _PATH.sub(" ", text)
    return next((cause for cause, pattern in _CAUSE_BY_WORDS if pattern.search(words)), Cause.UNKNOWN)


def reason(error: BaseException) -> str:
    """An error's message on one line, without colours, delta-rs' backtrace and the names of Rust's values."""
    text = _COLOUR.sub("", str(error)).split("\n   0: ")[0].replace("↳", ":")
    return " ".join(_RUST_ERROR.sub(r"\1", text).split()).replace(" : ", ": ")


def is_failure(error: BaseException | str) -> bool:
    """Whether an error, or its text, says that storage itself has failed. With an unknown cause it must come
    from a system call or a store: Arrow raises OSError also for damage within a file.
    """
    cause = cause_of(error)
    if cause is not Cause.UNKNOWN:
        return cause in _FAILURES
    return getattr(error, "errno", None) is not None or (
        isinstance(error, str | OSError) and _STORE.search(str(error)) is not None
    )


def storage_error(uri: str, action: str, error: BaseException) -> SlackwaterError | None:
    """The error for storage that has failed, with `action` as a participle ("written"). None where storage
    has answered: the file is missing, access is refused, or the contents are wrong.
    """
    if not is_failure(error):
        return None
    kind, explanation, next_step = _FAILURES[cause_of(error)]
    return kind(f"{uri}: can't be {action}: {explanation} ({reason(error)}). {next_step}", uri=uri)


def not_writable(uri: str, error: BaseException) -> SlackwaterError:
    return storage_error(uri, "written", error) or WarehouseNotWritable(
        f"{uri}: can't be written ({reason(error)}). Check the warehouse's path and permissions.", uri=uri
    )


def not_readable(uri: str, error: BaseException) -> SlackwaterError | None:
    """`storage_error` for a failed read; also where access is refused."""
    if cause_of(error) is Cause.NO_PERMISSION:
        return WarehouseNotReadable(
            f"{uri}: can't be read ({reason(error)}). Check its path and permissions.", uri=uri
        )
    return storage_error(uri, "read", error)


def unforeseen(error: BaseException) -> SlackwaterError:
    """The error to end a command with after an error of storage that nobody has caught."""
    where = str(getattr(error, "filename", None) or "storage")
    if cause_of(error) is Cause.MISSING:
        return PermanentError(f"{where}: a file that is needed is not there ({reason(error)}).")
    return not_readable(where, error) or PermanentError(f"{where}: can't be used ({reason(error)}).")


@contextmanager
def reads(uri: str) -> Iterator[None]:
    """Replaces an OSError of the block by the error of `not_readable`, if there is one."""
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
    Cause.EXPIRED_CREDENTIALS: (CredentialsExpired, "the credentials have expired", f"Renew them. {_REPEAT}"),
    Cause.TRANSIENT: (StorageFailed, "storage did not answer as it should", _REPEAT),
    Cause.UNKNOWN: (StorageFailed, "storage failed", _REPEAT),
}
