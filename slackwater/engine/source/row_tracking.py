"""Row tracking of a Delta table: the commits that brought the rows of a file that was written again.

By Delta's protocol ("Row Tracking") the commit version of a row is what the file's materialized column says,
which a property of the table names; where that is null, or the file lacks it, it is the
`defaultRowCommitVersion` of the action that has added the file. Files from before the table tracked rows have
that of the commit that enabled it; so the account of commits says which commit a version stands for.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.source.file_list import bounds_of_chunks
from slackwater.tables.delta.parquet import open_verified
from slackwater.tables.stores import filesystem

# The column of a list of files that has the row tracking of those with rows of several commits, as JSON.
TRACKING = "tracking"
COLUMN_PROPERTY = "delta.rowTracking.materializedRowCommitVersionColumnName"
Int64s = npt.NDArray[np.int64]


class TrackedCommit(NamedTuple):
    """A commit version of rows, and the commit that has brought them, with its time in microseconds."""

    row_version: int
    version: int
    time_us: int


class RowTracking(NamedTuple):
    """Which rows of a file came with which of `commits`, which ascend by the commit versions of the rows.

    Attributes:
        column: the materialized column.
        default_version: the commit version of rows that have none there.
    """

    column: str
    default_version: int | None
    commits: tuple[TrackedCommit, ...]

    @property
    def is_mixed(self) -> bool:
        return len(self.commits) > 1

    def to_json(self) -> str:
        return json.dumps(self)

    @classmethod
    @lru_cache(maxsize=1 << 12)  # many files have those of one commit
    def from_json(cls, text: str) -> "RowTracking":
        column, default_version, commits = json.loads(text)
        return cls(column, default_version, tuple(TrackedCommit(*commit) for commit in commits))

    def commits_of(self, row_versions: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
        """(version, time in microseconds) of the commit of each row, by the materialized column. Raises
        KeyError where that names a commit which is none of the file's.
        """
        if self.default_version is not None:
            row_versions = row_versions.fill_null(self.default_version)
        versions_of_rows = row_versions.to_numpy()
        row_version, version, time_us = (
            np.array(column, np.int64) for column in zip(*self.commits, strict=True)
        )
        places = np.searchsorted(row_version, versions_of_rows)
        is_other = row_version[np.minimum(places, len(row_version) - 1)] != versions_of_rows
        if is_other.any():
            raise KeyError(int(versions_of_rows[is_other][0]))
        return version[places], time_us[places]


class RowVersions(NamedTuple):
    """The least and the greatest value of a file's materialized column, and whether it has nulls."""

    least: int | None
    greatest: int | None
    has_nulls: bool

    def commits_among(
        self, commits: Mapping[int, TrackedCommit], default_version: int | None
    ) -> tuple[TrackedCommit, ...] | None:
        """Those of `commits`, by the commit versions of rows, that may have brought rows of the file,
        ascending; None where others have.
        """
        versions = [self.least, self.greatest, *([default_version] if self.has_nulls else [])]
        versions_held = {version for version in versions if version is not None}
        if (
            not versions_held
            or not versions_held <= commits.keys()
            or (self.has_nulls and default_version is None)
        ):
            return None
        if self.least is not None and self.greatest is not None:
            versions_held |= {version for version in commits if self.least < version < self.greatest}
        return tuple(commits[version] for version in sorted(versions_held))


@lru_cache(maxsize=1 << 16)  # a file of a Delta table never changes
def row_versions(uri: str, path: str, column: str) -> RowVersions | None:
    """What the footer of a file says of its materialized column; None where the file lacks it, or has no
    statistics of it. Raises FileNotFoundError.
    """
    with open_verified(uri, filesystem(uri), path) as parquet:
        metadata = parquet.metadata
    places = [
        number for number in range(metadata.num_columns) if metadata.schema.column(number).path == column
    ]
    if not places or not metadata.num_rows:
        return None
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(places[0]).statistics for group in groups if group.num_rows]
    least, greatest, nulls = bounds_of_chunks(chunks, pa.int64())
    if nulls is None or (least is None and nulls < metadata.num_rows):
        return None
    return RowVersions(least, greatest, nulls > 0)
