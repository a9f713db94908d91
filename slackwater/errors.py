"""The one root of all errors of commands, and the five ways in which a command can fail.

Standard library only. Whether to try again is a type, and each type is an exit code; 0 means done, or nothing
to do.
"""

import re
from collections.abc import Iterable

_PASSWORD = re.compile(r"(?<=://)([^/\s\"':@]*):[^/\s\"']*@")
_SECRET = re.compile(
    r"([?&;](?:sig|signature|token|password|accountkey|x-amz-[a-z-]+)=)[^&;\s\"']+", re.IGNORECASE
)
_NO_MEMORY = re.compile(
    r"can't start new thread|can't spawn worker thread|failed to launch worker thread|failed to map segment|"
    r"cannot allocate memory",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """`text` with *** in place of the passwords and signatures of its URLs. Everything that is printed or
    recorded goes through this function.
    """
    return _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))


def did_you_mean(name: str, names: Iterable[str], written: str = "{}") -> str:
    """``did you mean where=?`` for the nearest of `names`, as `written` (``{}=``); "" where none is near."""
    import difflib  # of use to few processes

    nearest = difflib.get_close_matches(name, list(names), 1)
    return f"did you mean {written.format(nearest[0])}?" if nearest else ""


class SlackwaterError(Exception):
    """The root of all errors. The message says what went wrong, where, and the next step; facts are
    given by keyword and become attributes of the error.

    `exit_code` is that of the process that this error ends. Raise one of the five classes below or a
    subclass, never this one.
    """

    exit_code: int = 1

    def __init__(self, message: str, **facts: object) -> None:
        message = without_credentials(message)
        super().__init__(message)
        self.message = message
        self.facts = facts
        vars(self).update(facts)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross from executors and worker processes to the driver: keep the facts."""
        return _restore, (type(self), self.message, self.facts)


def _restore(kind: type[SlackwaterError], message: str, facts: dict[str, object]) -> SlackwaterError:
    error = kind.__new__(kind, message)
    SlackwaterError.__init__(error, message, **facts)
    return error


class PermanentError(SlackwaterError):
    """The data, the environment or we are at fault, and the same command would fail again."""

    exit_code = 1


class UsageError(SlackwaterError):
    """The user asked for something that cannot be: a wrong option, pipeline file, table or range."""

    exit_code = 2


class RetryableError(SlackwaterError):
    """The environment was not ready (network, a table not yet settled): the same command may succeed
    later.
    """

    exit_code = 3


class OutOfMemory(RetryableError):
    """The process or a task could take no more memory."""


def out_of_memory(error: BaseException) -> OutOfMemory | None:
    """The error to raise where Python, Arrow or delta-rs could take no more memory, the stack of a new thread
    and the code of a library included; None for another error.
    """
    words = " ".join(str(error).split())
    if not isinstance(error, MemoryError) and not _NO_MEMORY.search(words):
        return None
    return OutOfMemory(
        f"memory ran out ({words or 'no more could be taken'}). What is committed stands. Give the process "
        "more memory, or let a run take less (SLACKWATER_STATE_MEMORY_MB, a nearer --to), and repeat the "
        "command."
    )


class RejectedError(SlackwaterError):
    """Validation rejected the run: nothing was published."""

    exit_code = 4


class LostRaceError(SlackwaterError):
    """Another run committed first, or holds the lease: this one changed nothing."""

    exit_code = 5
