"""What can be wrong with a warehouse or one of its tables."""

from slackwater.jobs.errors import PermanentError, RetryableError, UsageError


class NotADeltaTable(UsageError):
    """A path that should hold a Delta table holds none."""


class WarehouseNotWritable(UsageError):
    """The warehouse can't be written."""


class WarehouseNotReadable(UsageError):
    """A path or its permissions keep what is there from being read."""


class StorageFailed(RetryableError):
    """Storage did not do what it was asked for: a time-out, a lost connection, throttling, an error of its
    own or of unknown cause.
    """


class StorageFull(RetryableError):
    """The disk is full."""


class TooManyOpenFiles(RetryableError):
    """The process, or the system, may open no more files."""


class CredentialsExpired(RetryableError):
    """The token that storage was asked with is no longer valid."""


class NewerFormat(UsageError):
    """A table or snapshot was written by a newer version of the product."""


class RunAtWork(RetryableError):
    """A run, perhaps of an earlier version, is writing to tables whose layout is to change."""


class ShapeChanged(UsageError):
    """The columns of a pipeline's tables are not those that the pipeline declares now."""


class NoRuns(UsageError):
    """The pipeline has never run in this warehouse."""


class CommitConflict(PermanentError):
    """Somebody else committed to the table since it was opened. Callers decide what that means; it never
    reaches a user.
    """


class CommitUnknown(RetryableError):
    """Storage failed during a commit and again when it was asked whether the commit stands."""


class LogDamaged(PermanentError):
    """A file of a Delta log is empty or lost. Facts: uri of the table, path of the file in its folder."""


class SnapshotGone(UsageError):
    """Retention has dropped the snapshot that somebody wants."""


class DamagedFile(PermanentError):
    """What stands in a file is not what was written into it. Facts: uri (of the table), path (below it),
    wrong.
    """


class DamagedSnapshot(PermanentError):
    """The snapshot of a run does not hold the rows that the run has parked. Facts: seq, run_id."""
