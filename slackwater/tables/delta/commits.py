"""Writes commits, and finds out whether one that seemed to fail is in the log, by a token of its own.

A store may keep a commit and lose the answer: a time-out, a reset connection, or a conditional put that the
client repeats and that then finds the file of its own first try. All of these look like a conflict or a
failure. So before anything is committed a second time, the log is read: whose commit is the version? A run id
would not answer it, because two drivers may commit the same staged run at once.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from importlib.metadata import version as version_of
from typing import Any

from deltalake import CommitProperties, Transaction
from deltalake.transaction import AddAction, RemoveAction

from slackwater.tables.delta.foreign_changes import TOKEN, LoggedCommit
from slackwater.tables.delta.log_files import commit_path, content_of, content_of_commit, line_count
from slackwater.tables.delta.open_table import OpenTable, PlainCommit
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.stores import filesystem, put_first


class Owner(Enum):
    NOBODY = auto()
    OURS = auto()
    ANOTHER = auto()


def add_action(file: WrittenFile, now_ms: int, *, changes_data: bool) -> dict[str, Any]:
    return {
        "add": {
            "path": file.path,
            "partitionValues": file.partition,
            "size": file.bytes,
            "modificationTime": now_ms,
            "dataChange": changes_data,
            "stats": file.statistics,
        }
    }


def remove_actions(files: StoredFiles, now_ms: int, *, changes_data: bool) -> list[dict[str, Any]]:
    return [
        {
            "remove": {
                "path": path,
                "dataChange": changes_data,
                "deletionTimestamp": now_ms,
                "extendedFileMetadata": True,
                "partitionValues": partition,
                "size": size,
            }
        }
        for path, size, partition in files.descriptions()
    ]


@dataclass(frozen=True)
class PendingCommit:
    """A commit that shall become `version` of the table at `uri`. It is tried once; `token` identifies it."""

    uri: str
    version: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def write(
        self,
        table: OpenTable,
        actions: Sequence[dict[str, Any]],
        transaction: Transaction | None,
        facts: Mapping[str, str] | None = None,
    ) -> OpenTable:
        """Commit `actions` and `transaction` to `table`, with `facts` about the commit; returns the table at
        the new version. Raises OSError, DeltaError: it may be in the log all the same, see `owner`.
        """
        own_actions = [*([] if transaction is None else [_txn(transaction)]), *actions]
        info = {**self._info(table, facts), "operationMetrics": _metrics(actions)}
        commit = PlainCommit.of(content_of_commit(info, own_actions))
        if commit is not None and table.takes_plain_commits:
            put_first(self.uri, commit_path(self.version), commit.content)
            return table.after(commit)
        delta = table.as_delta_rs()
        # delta-rs must not retry: its second try would become the version after our own first one.
        properties = CommitProperties(
            custom_metadata={**(facts or {}), **line_count(1 + len(own_actions)), TOKEN: self.token},
            max_commit_retries=0,
            app_transactions=None if transaction is None else [transaction],
        )
        delta.create_write_transaction(
            [_as_delta_rs_action(action) for action in actions],
            "append",
            delta.schema(),
            list(table.partition_columns) or None,
            commit_properties=properties,
        )
        return OpenTable.of(self.uri, delta)

    def _info(self, table: OpenTable, facts: Mapping[str, str] | None) -> dict[str, Any]:
        parameters = {"mode": "Append", "partitionBy": json.dumps(table.partition_columns)}
        return {
            "timestamp": int(datetime.now(UTC).timestamp() * 1000),
            "operation": "WRITE",
            "operationParameters": parameters,
            "engineInfo": f"slackwater:{version_of('slackwater')}",
            **(facts or {}),
            TOKEN: self.token,
        }

    def owner(self) -> Owner:
        """Whose commit the version is now. Raises OSError: the log can't be read."""
        content = content_of(filesystem(self.uri), commit_path(self.version))
        if content is None:
            return Owner.NOBODY
        is_ours = LoggedCommit.without_files(self.version, content).info.get(TOKEN) == self.token
        return Owner.OURS if is_ours else Owner.ANOTHER


def _metrics(actions: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What Delta's `DESCRIBE HISTORY` says of a commit: files that come and go, and the rows that come."""
    files = [action["add"] for action in actions if "add" in action]
    rows = sum(json.loads(file["stats"]).get("numRecords", 0) for file in files)
    counts = {"numFiles": len(files), "numRemovedFiles": len(actions) - len(files), "numOutputRows": rows}
    return {name: str(count) for name, count in counts.items()}


def _txn(transaction: Transaction) -> dict[str, Any]:
    txn = {"appId": transaction.app_id, "version": transaction.version}
    if transaction.last_updated is not None:
        txn["lastUpdated"] = transaction.last_updated
    return {"txn": txn}


def _as_delta_rs_action(action: dict[str, Any]) -> AddAction | RemoveAction:
    if "add" in action:
        file = action["add"]
        return AddAction(
            path=file["path"],
            size=file["size"],
            partition_values=file["partitionValues"],
            modification_time=file["modificationTime"],
            data_change=file["dataChange"],
            stats=file["stats"],
        )
    file = action["remove"]
    return RemoveAction(
        file["path"], file["dataChange"], file["deletionTimestamp"], file["size"], file["partitionValues"]
    )
