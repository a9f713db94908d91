"""Tells whether a commit that seemed to fail is in the log: each commit carries a token by which the process
that made it knows it from somebody else's.

A store may keep a commit and lose the answer: a time-out, a reset connection, or a conditional put that the
client repeats and that then finds the file of its own first try. All of these look like a conflict or a
failure, and the commit stands. So before anything is committed a second time, the log is read for whose
commit the version is. A run id would not tell: two drivers may commit the same staged run at once.
"""

import json
import uuid
from dataclasses import dataclass, field
from enum import Enum, auto

from deltalake import CommitProperties, Transaction
from pyarrow.fs import FileSystem

from slackwater.jobs.tables.delta.log_files import commit_path

TOKEN = "slackwaterCommit"


class Owner(Enum):
    """Whose commit stands as a version of a table."""

    NOBODY = auto()
    OURS = auto()
    ANOTHER = auto()


@dataclass(frozen=True)
class PendingCommit:
    """A commit that is to become `version` of the table in `folder`. It is tried once, and `token` tells it
    from other commits.
    """

    folder: FileSystem
    version: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def properties(self, transaction: Transaction | None = None) -> CommitProperties:
        """What delta-rs writes into the commit. delta-rs must not retry: its second try would become the
        version after our own first one.
        """
        return CommitProperties(
            custom_metadata={TOKEN: self.token},
            max_commit_retries=0,
            app_transactions=[transaction] if transaction is not None else None,
        )

    def owner(self) -> Owner:
        """Whose commit the version is now.

        Raises:
            OSError: the log can't be read, so it is not known whether the commit stands.
        """
        try:
            with self.folder.open_input_stream(commit_path(self.version)) as stream:
                lines = stream.read().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return Owner.NOBODY
        infos = (json.loads(line).get("commitInfo") for line in lines if b'"commitInfo"' in line)
        is_ours = any(info is not None and info.get(TOKEN) == self.token for info in infos)
        return Owner.OURS if is_ours else Owner.ANOTHER
