"""Finds damage in a Delta log: commits that are empty, missing, cut off or changed, and lost checkpoints.

delta-rs passes over an empty commit in silence, takes the first lines of one that was cut for all of it, and
calls a gap an error of its kernel. The errors here name the file. The first line of each of our commits (its
commitInfo) says how many lines the file has, and, where we write it ourselves, the checksum of the others:

    {"commitInfo": {…, "slackwaterLines": "3", "slackwaterChecksum": "8c736521"}}
    {"txn": …}                                                          }  checksum
    {"add": …}                                                          }

Commits of other writers say neither. A log that has lost its newest commits looks complete; the table
versions in the ledger show it (`slackwater.tables.warehouse`).
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pyarrow.fs import FileSelector, FileSystem

from slackwater.tables.errors import LogDamaged
from slackwater.tables.stores import is_local, map_concurrently

LOG = "_delta_log"
HINT = f"{LOG}/_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_PLAIN_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")
NO_VERSION = -1
# What a commit says of its lines.
LINES, CHECKSUM = "slackwaterLines", "slackwaterChecksum"
_EMPTY = "is empty: what that commit changed is lost, and would be passed over in silence"


def commit_path(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """The path of a version's checkpoint in a table's folder, if it is one file."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def check_commits(folder: FileSystem, uri: str, newest: int, since: int | None = None) -> None:
    """Read the commits of the versions in (since, newest], by default since the last checkpoint. Raises
    LogDamaged: with the first damaged one.
    """
    first = (last_checkpoint(folder).version if since is None else since) + 1
    paths = [commit_path(version) for version in range(first, newest + 1)]
    read = partial(content_of, folder)
    contents = map(read, paths) if is_local(uri) else map_concurrently(read, paths)
    for path, content in zip(paths, contents, strict=True):
        if content is not None:
            check_commit(uri, path, content)


def content_of(folder: FileSystem, path: str) -> bytes | None:
    try:
        with folder.open_input_stream(path) as stream:
            content: bytes = stream.read()
            return content
    except (FileNotFoundError, NotADirectoryError):
        return None


def content_of_commit(info: Mapping[str, Any], actions: Sequence[dict[str, Any]]) -> bytes:
    """The content of a commit: its commitInfo with line count and checksum, and the actions."""
    following_lines = "\n".join(map(json.dumps, actions)).encode()
    seal = {**line_count(1 + len(actions)), CHECKSUM: f"{zlib.crc32(following_lines):08x}"}
    first_line = json.dumps({"commitInfo": {**info, **seal}}).encode()
    return b"\n".join([first_line, following_lines]) if actions else first_line


def line_count(lines: int) -> dict[str, str]:
    return {LINES: str(lines)}


def check_commit(uri: str, path: str, content: bytes) -> None:
    """Compare a commit's content with its line count and checksum. Raises LogDamaged: it differs."""
    if not content.strip():
        raise log_damaged(uri, path, _EMPTY)
    first_line, _, following_lines = content.lstrip().partition(b"\n")
    if first_line.startswith(b"{") and not first_line.rstrip().endswith(b"}"):
        raise log_damaged(uri, path, "was cut off within its first line")
    if LINES.encode() not in first_line:
        return
    try:
        info = json.loads(first_line)["commitInfo"]
        lines, checksum = int(info[LINES]), info.get(CHECKSUM)
    except (ValueError, KeyError, TypeError):
        raise log_damaged(uri, path, "was changed: its first line can't be read") from None
    present_lines = 1 + sum(not line.isspace() for line in following_lines.splitlines())
    if present_lines != lines:
        raise log_damaged(uri, path, f"was cut off: it has {present_lines} of its {lines} lines")
    if checksum is not None and checksum != f"{zlib.crc32(following_lines):08x}":
        raise log_damaged(uri, path, "was changed: its lines are not those that were written")


def refuse_older(uri: str, newest: int | None, version: int, seq: int) -> None:
    """Raise LogDamaged where the table's newest version (None: there is no table) is below `version`, which
    the ledger row `seq` has recorded: its newest commits are lost.
    """
    if newest is None or newest < version:
        state = "the table is not there" if newest is None else f"the newest version is {newest}"
        raise log_damaged(
            uri,
            commit_path(0 if newest is None else newest + 1),
            f"is missing: {state}, and row {seq} of the ledger was committed when it was {version}",
        )


def refuse_lost_rows(uri: str, newest: int | None, seq: int, rolled_forward: int) -> None:
    """Raise LogDamaged for a ledger that ends at the row `seq`, while `published` has taken the later row
    `rolled_forward`: the ledger's newest commits are lost.
    """
    raise log_damaged(
        uri,
        commit_path(0 if newest is None else newest + 1),
        f"is missing: the ledger ends at row {seq}, and `published` has taken row {rolled_forward}",
    )


def damage(folder: FileSystem, uri: str) -> LogDamaged | None:
    """What is wrong with a log that delta-rs can't read, by its files' names and its commits; None where they
    show nothing. Raises OSError: the log can't be listed.
    """
    sizes = {
        info.base_name: info.size
        for info in folder.get_file_info(FileSelector(LOG, allow_not_found=True))
        if info.is_file
    }
    commits = {int(match[1]): size for name, size in sizes.items() if (match := _COMMIT.fullmatch(name))}
    checkpoints = {
        int(match[1]) for name, size in sizes.items() if (match := _CHECKPOINT.fullmatch(name)) and size
    }
    hinted_version, start = last_checkpoint(folder).version, max(checkpoints, default=NO_VERSION)
    if hinted_version not in {NO_VERSION, *checkpoints}:
        if _has_every_commit_after(commits, start):
            return log_damaged(
                uri,
                HINT,
                f"names a checkpoint of version {hinted_version} that is lost; the commits are all there",
                f"rm {HINT}",
            )
        return log_damaged(
            uri,
            checkpoint_path(hinted_version),
            "is missing or empty, and commits before it are gone",
        )
    later_versions = sorted(version for version in commits if version > start)
    for version in range(start + 1, later_versions[-1] + 1) if later_versions else ():
        if not commits.get(version):
            return log_damaged(uri, commit_path(version), _EMPTY if version in commits else "is missing")
    try:
        check_commits(folder, uri, max(later_versions, default=start), start)
    except LogDamaged as error:
        return error
    return None


def _has_every_commit_after(commits: Iterable[int], start: int) -> bool:
    """Whether the commits after the version `start` have no gap."""
    later_versions = sorted(version for version in commits if version > start)
    return later_versions == list(range(start + 1, start + 1 + len(later_versions)))


def newest_commit(folder: FileSystem) -> int:
    """The newest version that has a commit, by the names of the log's files; NO_VERSION for none."""
    names = (info.base_name for info in folder.get_file_info(FileSelector(LOG, allow_not_found=True)))
    return max((int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))), default=NO_VERSION)


class Checkpoint(NamedTuple):
    """A checkpoint as the log's hint describes it; `version` is NO_VERSION without a readable hint, which a
    young log does not have yet. `actions` counts above all one for each file.
    """

    version: int
    actions: int


def last_checkpoint(folder: FileSystem) -> Checkpoint:
    try:
        hint = json.loads(content_of(folder, HINT) or b"")
        return Checkpoint(int(hint["version"]), int(hint.get("size", 0)))
    except (ValueError, KeyError, TypeError):
        return Checkpoint(NO_VERSION, 0)


def superseded_checkpoints(folder: FileSystem, interval: int) -> list[str]:
    """The paths of checkpoints that can be deleted, because together they would grow with the square of the
    commits. The newest two stay, the last but one for readers that are opening the table from it; so do those
    that do not end an `interval`, which `maintain` and other writers have made, and the first one where
    commits before it are gone. Earlier versions are read from the commits.
    """
    paths = {info.path for info in folder.get_file_info(FileSelector(LOG, allow_not_found=True))}
    versions = sorted(int(match[1]) for path in paths if (match := _PLAIN_CHECKPOINT.fullmatch(path)))
    oldest = 0 if commit_path(0) in paths else 1
    superseded_versions = [version for version in versions[oldest:-2] if (version + 1) % interval == 0]
    return [checkpoint_path(version) for version in superseded_versions]


def log_damaged(uri: str, path: str, what: str, command: str | None = None) -> LogDamaged:
    next_step = (
        "Put the file back from a backup or from the storage's own versions; docs/guides/operate.md, 'When a "
        "file is lost', says how to go on without one."
        if command is None
        else f"Delete it (`{command}` in the table's folder) and repeat the command; the next "
        "`slackwater maintain` writes another."
    )
    return LogDamaged(f"{uri}: {path} {what}. {next_step}", uri=uri, path=path)
