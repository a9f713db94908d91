"""The errors of a warehouse and its tables."""

from slackwater.errors import PermanentError, RetryableError, UsageError


class NotADeltaTable(UsageError):
    """A path that should hold a Delta table holds none."""


class UnknownStore(UsageError):
    """A URI names a kind of storage that nothing here can read. Facts: uri."""


class CatalogManaged(UsageError):
    """A Delta table whose catalog alone knows its newest version. Facts: uri."""


class ForeignFeature(UsageError):
    """A table has a feature or a property that our reads and writes can't bear. Facts: uri, features."""


class ForeignCommits(UsageError):
    """Somebody else has changed rows or columns of a pipeline's tables. Facts: commits."""


class WarehouseNotWritable(UsageError):
    """The warehouse can't be written."""


class WarehouseNotReadable(UsageError):
    """The path, or permissions on it, keep the warehouse from being read."""


class StorageFailed(RetryableError):
    """Storage failed for a while or for an unknown cause: a time-out, a lost connection, throttling, an error
    of its own.
    """


class StorageFull(RetryableError):
    """The disk is full."""


class TooManyOpenFiles(RetryableError):
    """The process, or the system, is at its limit of open files."""


class CredentialsExpired(RetryableError):
    """The token that storage was asked with is no longer valid."""


class NewerFormat(UsageError):
    """A table or snapshot was written by a newer version of the product."""


class EarlierFormat(UsageError):
    """A table was written by a version before 0.2.0, with which format 1 begins."""


class RunAtWork(RetryableError):
    """A run is at work that may write more of what is to be erased."""


class ShapeChanged(UsageError):
    """The columns of a pipeline's stored tables are not those that the pipeline declares now."""


def new_lineage(pipeline: str) -> str:
    """The way on, as a clause, where no run can continue what the pipeline's tables hold."""
    return (
        f"begin a new lineage: move the folder {pipeline} out of the warehouse, then run `slackwater run "
        f"{pipeline} --to TIME`"
    )


class CredentialsInUri(UsageError):
    """A URI holds a password or a signature, which would be recorded and logged."""


class NoRuns(UsageError):
    """The pipeline has never run in this warehouse."""


class NoWarehouse(UsageError):
    """The folder of the warehouse is not there."""


class CommitConflict(PermanentError):
    """Somebody else has committed to the table since it was opened. Callers try again or give up; the error
    never reaches a user.
    """


class CommitUnknown(RetryableError):
    """Storage failed during a commit and again when the log was read for it."""


class LogDamaged(PermanentError):
    """A file of a Delta log is empty, missing, cut off or changed. Facts: uri of the table, path of the file
    in its folder.
    """


class PercentInPath(UsageError):
    """A local path has a percent sign with two digits behind it, which delta-rs takes for one character."""


class SnapshotGone(UsageError):
    """Upkeep has dropped the snapshot that a command needs."""


class DamagedFile(PermanentError):
    """A file's contents are not what was written. Facts: uri, path in the table, wrong (a text)."""


class DamagedSnapshot(PermanentError):
    """The snapshot of a run does not hold the rows that the run has written. Facts: seq, run_id."""
