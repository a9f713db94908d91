"""What a commit of an object store carries of its table's log, beside its own actions: the commits since the
last checkpoint, and the columns. Who knows a table's version opens it by this one file, which also shows that
the newest commit is not lost; of a table to which rows are only appended no other file is read.

    store   …09.checkpoint.parquet   …10.json   …11.json (carries 10)   …12.json (carries 10, 11)
                                                                            |
    opened by one request   <-----------------------------------------------+

It stands in Delta's commitInfo, which readers of Delta tables pass over, compressed to a fifth: the commits
of a table are much alike, and each stands in up to nineteen later ones. Each carried commit has its count of
lines and their checksum with it (`log_files`), and is compared with them like the commit's own file. Only
plain commits carry it (`slackwater.tables.delta.open_table`), and only commits of tables whose version
somebody records. A log of large commits is not carried; then its files are read.
"""

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import Schema

from slackwater.tables.delta.log_files import SEAL, check_commit, commit_path, log_damaged

KEY = "slackwaterPackedLog"
_INFO = "commitInfo"
_CHANGE = "was changed: the commits that it carries are not those that were written"
# A commit that carries more takes longer to write and to read than some small ones.
_MOST_BYTES = 64 << 10
# Who has written the last of so many commits puts a checkpoint.
CARRIED_COMMITS = 20


class CarriedLog(NamedTuple):
    """The log of a table up to a version, and its columns then.

    Attributes:
        checkpoint_version: of the last checkpoint; -1 where there is none.
        commits: the contents of the commits since, of whose commitInfo only the seal is left.
        delta_schema: the columns, as JSON in Delta's form.
        partition_columns: their names.
    """

    checkpoint_version: int
    commits: tuple[bytes, ...]
    delta_schema: str
    partition_columns: tuple[str, ...]

    @property
    def version(self) -> int:
        return self.checkpoint_version + len(self.commits)

    @property
    def is_small(self) -> bool:
        """Whether a commit can carry it."""
        return sum(map(len, self.commits)) <= _MOST_BYTES

    @property
    def ends_small(self) -> bool:
        """Whether a commit can carry the last of its commits."""
        return sum(map(len, self.commits[-1:])) <= _MOST_BYTES

    def with_checkpoint(self) -> "CarriedLog":
        """The same log, of which the last version has a checkpoint."""
        return self._replace(checkpoint_version=self.version, commits=())

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema(Schema.from_json(self.delta_schema))

    def to_facts(self) -> dict[str, str]:
        """What a commit says of itself that carries this; nothing where it would be too large."""
        if not self.is_small:
            return {}
        carried_log = {
            "checkpoint": self.checkpoint_version,
            "commits": list(map(_actions, self.commits)),
            "schema": json.loads(self.delta_schema),
            "partitionColumns": list(self.partition_columns),
        }
        return {KEY: pack(carried_log)}

    @classmethod
    def of(cls, uri: str, version: int, content: bytes) -> "CarriedLog | None":
        """What the commit of `version` with this content carries, and the commit itself; None where it
        carries nothing.

        Raises:
            LogDamaged: it or a commit that it carries is empty, cut off or changed.
        """
        path = commit_path(version)
        check_commit(uri, path, content)
        try:
            text = next((info[KEY] for info in map(_info, content.splitlines()) if KEY in info), None)
        except ValueError:
            return None
        if text is None:
            return None
        try:
            log = unpack(text)
            carried_commits = tuple(
                "\n".join(map(json.dumps, actions)).encode() for actions in log["commits"]
            )
            carried_log = cls(
                log["checkpoint"],
                (*carried_commits, without_facts(content)),
                json.dumps(log["schema"]),
                tuple(log["partitionColumns"]),
            )
        except (KeyError, TypeError, ValueError, zlib.error):
            raise log_damaged(uri, path, _CHANGE) from None
        for commit in carried_commits:
            check_commit(uri, path, commit)
        if carried_log.version != version:
            raise log_damaged(uri, path, _CHANGE)
        return carried_log


def pack(value: Any) -> str:
    """A value of JSON as a shorter text."""
    return b85encode(zlib.compress(json.dumps(value).encode(), level=9)).decode()


def unpack(text: str) -> Any:
    """The value that `pack` took."""
    return json.loads(zlib.decompress(b85decode(text)))


def without_facts(content: bytes) -> bytes:
    """The content of a commit, of whose commitInfo only the seal is left."""
    return b"\n".join(filter(None, map(_without_facts, content.splitlines())))


def _without_facts(line: bytes) -> bytes:
    info = _info(line)
    return (
        json.dumps({_INFO: {key: info[key] for key in SEAL if key in info}}).encode()
        if info
        else line.strip()
    )


def _info(line: bytes) -> dict[str, Any]:
    info: dict[str, Any] = json.loads(line).get(_INFO, {}) if f'"{_INFO}"'.encode() in line else {}
    return info


def _actions(content: bytes) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]
