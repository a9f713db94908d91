"""The files of a Delta log, looked at one by one: commits that are empty or missing, checkpoints that are not
where the log says.

delta-rs passes over an empty commit file in silence, so that rows are missing or stand twice, and calls a log
with a gap an error of its kernel. Here the file is named. A log whose newest commits are lost looks whole;
what the ledger has seen of each table tells it (`slackwater.jobs.tables.warehouse`).
"""

import json
import re
from collections.abc import Iterable

from pyarrow.fs import FileSelector, FileSystem

from slackwater.jobs.tables.errors import LogDamaged

LOG = "_delta_log"
_HINT = f"{LOG}/_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_NO_VERSION = -1
_EMPTY = "is empty: what that commit changed is lost, and would be passed over in silence"


def commit_path(version: int) -> str:
    """Where the commit of a version stands in a table's folder."""
    return f"{LOG}/{version:020d}.json"


def check_commits(folder: FileSystem, uri: str, newest: int, since: int | None = None) -> None:
    """Refuse a log in which a commit after version `since` (default: the last checkpoint, which holds all
    before it) up to `newest` is empty. Asks for the size of so many files.

    Raises:
        LogDamaged: with the first such file.
    """
    first = (_hinted(folder) if since is None else since) + 1
    for info in folder.get_file_info([commit_path(version) for version in range(first, newest + 1)]):
        if info.is_file and info.size == 0:
            raise empty_commit(uri, f"{LOG}/{info.base_name}")


def empty_commit(uri: str, path: str) -> LogDamaged:
    """The error for a commit file of no bytes."""
    return _damaged(uri, path, _EMPTY)


def refuse_older(uri: str, newest: int | None, version: int, seq: int) -> None:
    """Refuse a table whose newest version (None: it is not there) is below the one that a ledger row has
    seen.

    Raises:
        LogDamaged: its newest commits are lost.
    """
    if newest is None or newest < version:
        state = "the table is not there" if newest is None else f"the newest version is {newest}"
        lost = commit_path(0 if newest is None else newest + 1)
        raise _damaged(
            uri, lost, f"is missing: {state}, and row {seq} of the ledger was committed when it was {version}"
        )


def refuse_lost_rows(uri: str, newest: int | None, seq: int, rolled_forward: int) -> None:
    """Refuse a ledger that ends at the row `seq`, of which `published` has taken a later one.

    Raises:
        LogDamaged: its newest commits are lost.
    """
    lost = commit_path(0 if newest is None else newest + 1)
    raise _damaged(
        uri, lost, f"is missing: the ledger ends at row {seq}, and `published` has taken row {rolled_forward}"
    )


def damage(folder: FileSystem, uri: str) -> LogDamaged | None:
    """What is wrong with a log that delta-rs can't read, as far as names and sizes of files tell; None where
    they tell nothing.

    Raises:
        OSError: the log can't be listed.
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
    hinted, start = _hinted(folder), max(checkpoints, default=_NO_VERSION)
    if hinted not in {_NO_VERSION, *checkpoints}:
        if _is_whole(commits, start):
            return _damaged(
                uri,
                _HINT,
                f"names a checkpoint of version {hinted} that is lost; the commits are all there",
                f"rm {_HINT}",
            )
        return _damaged(
            uri,
            f"{LOG}/{hinted:020d}.checkpoint.parquet",
            "is missing or empty, and commits before it are gone",
        )
    behind = sorted(version for version in commits if version > start)
    for version in range(start + 1, behind[-1] + 1) if behind else ():
        if not commits.get(version):
            return _damaged(uri, commit_path(version), _EMPTY if version in commits else "is missing")
    return None


def _is_whole(commits: Iterable[int], start: int) -> bool:
    """Whether there is every commit from `start` on."""
    behind = sorted(version for version in commits if version > start)
    return behind == list(range(start + 1, start + 1 + len(behind)))


def _hinted(folder: FileSystem) -> int:
    """The version of the last checkpoint, by the log's own hint, which a log of few commits has not, and a
    damaged one need not have.
    """
    try:
        with folder.open_input_stream(_HINT) as stream:
            return int(json.loads(stream.read())["version"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return _NO_VERSION


def _damaged(uri: str, path: str, what: str, command: str | None = None) -> LogDamaged:
    way = (
        "Put the file back from a backup or from the storage's own versions; docs/guides/operate.md, 'When a "
        "file is lost', says how to go on without one."
        if command is None
        else f"Delete it (`{command}` in the table's folder) and repeat the command; the next "
        "`slackwater maintain` writes another."
    )
    return LogDamaged(f"{uri}: {path} {what}. {way}", uri=uri, path=path)
