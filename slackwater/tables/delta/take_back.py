"""Takes a table of ours back to what we have written, when others have changed it, in one commit:

    version      7 ours     8 ours     9 DELETE of theirs     10 taken back
    files        base       applied    passed over            as of 8

The state of the base is the log's own, as delta-rs writes it into a checkpoint; commits of ours, and those
that change neither rows nor columns (OPTIMIZE), are applied to it. Protocol, columns and properties are those
of the base, as far as they can be borne. Files that others have taken out of the table are there until
somebody vacuums it; from then on the log names files that are gone, and readers say which.
"""

import json
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSelector, FileType

from slackwater.tables.delta.foreign_changes import (
    TAKEN_BACK,
    TOKEN,
    LoggedCommit,
    commits_behind_ours,
    commits_between,
    is_borne_property,
    is_foreign,
    unbearable_features,
)
from slackwater.tables.delta.log_files import (
    LOG,
    commit_path,
    content_of_commit,
    newest_commit,
)
from slackwater.tables.storage_errors import reason
from slackwater.tables.stores import filesystem, put_first

_PLAIN_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_NTZ = "timestampNtz"
_NTZ_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": [_NTZ],
    "writerFeatures": [_NTZ],
}
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_MAPPING = "delta.columnMapping."
File = dict[str, Any]
# Path and deletion vector: the same file with another vector is another file of the table.
FileKey = tuple[str, str]


class TakenBack(NamedTuple):
    """What was done to a table: features taken off, versions passed over, and how many files are gone."""

    uri: str
    features: tuple[str, ...]
    commits: tuple[int, ...]
    lost_files: int


class _State(NamedTuple):
    metadata: dict[str, Any]
    files: dict[FileKey, File]


def take_back(uri: str, known_version: int, *, is_rebuilt: bool = False) -> TakenBack | None:
    """Take the table at `uri` back to what we have written, where others have changed rows or columns behind
    `known_version`, or have given it features that can't be borne. None where there is nothing to do. Of a
    table that `is_rebuilt` from others, files that are gone from storage are left out.

    Raises:
        FileExistsError: somebody else has committed meanwhile.
        OSError, DeltaError: storage failed, or the log lacks what is needed.
    """
    newest, features = newest_commit(filesystem(uri)), _features(uri)
    commits = commits_between(uri, min(known_version, newest), newest)
    if commits and TAKEN_BACK in commits[0].info:
        known_version = commits.pop(0).version
    foreign_versions = tuple(commit.version for commit in commits if is_foreign(uri, commit))
    if not foreign_versions and not features:
        return None
    base = _state(uri, min(known_version, newest))
    current_files = dict(base.files)
    for commit in commits:
        _apply(commit, current_files)
        if commit.version not in foreign_versions and (commit.is_ours or _removes_only(commit, base.files)):
            _apply(commit, base.files)
    # A deletion vector is of somebody else: we have written the file without it.
    files = {_key(file): file for file in map(_without_vector, base.files.values())}
    lost_keys = _lost_keys(uri, files)
    if is_rebuilt:
        files = {key: file for key, file in files.items() if key not in lost_keys}
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    metadata = _plain_metadata(_newest_metadata(commits, base))
    actions = [
        {"protocol": _NTZ_PROTOCOL if "timestamp_ntz" in metadata["schemaString"] else _PLAIN_PROTOCOL},
        {"metaData": metadata},
        *({"remove": _remove(file, now_ms)} for key, file in current_files.items() if key not in files),
        *({"add": file} for key, file in files.items() if key not in current_files),
    ]
    info = {
        "timestamp": now_ms,
        "operation": "RESTORE",
        "operationParameters": {"version": str(known_version)},
        "engineInfo": "slackwater",
        TOKEN: uuid.uuid4().hex,
        TAKEN_BACK: str(known_version),
    }
    put_first(uri, commit_path(newest + 1), content_of_commit(info, actions))
    return TakenBack(uri, features, foreign_versions, len(lost_keys))


def _features(uri: str) -> tuple[str, ...]:
    """What the table has that can't be borne; what delta-rs says of it where it can't open the table."""
    try:
        return tuple(feature.name for feature in unbearable_features(DeltaTable(uri)))
    except DeltaError as error:
        return (reason(error),)


def version_before_others(uri: str) -> int:
    """The version before the first commit of others since the last checkpoint."""
    newest = newest_commit(filesystem(uri))
    commits = commits_behind_ours(uri, newest)
    return next((commit.version - 1 for commit in commits if not commit.is_ours), newest)


def _state(uri: str, version: int) -> _State:
    """The state of a version: delta-rs writes a checkpoint of it beside a copy of the log."""
    store = filesystem(uri)
    with tempfile.TemporaryDirectory(prefix="slackwater-log-") as folder:
        for info in store.get_file_info(FileSelector(LOG, recursive=True)):
            path = f"{LOG}/{info.path.split(f'{LOG}/', 1)[1]}"
            is_later = info.base_name[:20].isdigit() and int(info.base_name[:20]) > version
            if info.type is FileType.File and not is_later and info.base_name != "_last_checkpoint":
                target = Path(folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                with store.open_input_stream(path) as stream:
                    target.write_bytes(stream.read())
        DeltaTable(folder, version=version).create_checkpoint()
        rows = pq.read_table(
            Path(folder, LOG, f"{version:020d}.checkpoint.parquet"), columns=["metaData", "add"]
        ).to_pylist()
    [metadata] = (row["metaData"] for row in rows if row["metaData"] is not None)
    adds = map(_as_logged, (row["add"] for row in rows if row["add"] is not None))
    return _State(_as_logged(metadata), {_key(file): file for file in adds})


def _as_logged(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action of a checkpoint as a commit has it: maps are objects, and what is null is left out."""
    maps = {"partitionValues", "configuration", "tags", "options"}
    logged_action: dict[str, Any] = {}
    for name, value in action.items():
        if name in maps:
            logged_action[name] = dict(value or {})
        elif isinstance(value, Mapping):
            logged_action[name] = _as_logged(value)
        elif value is not None and not name.endswith("_parsed"):
            logged_action[name] = value
    return logged_action


def _key(file: Mapping[str, Any]) -> FileKey:
    return file["path"], json.dumps(file.get("deletionVector"), sort_keys=True)


def _removes_only(commit: LoggedCommit, files: Mapping[FileKey, File]) -> bool:
    """Whether a commit takes out none but these files: others hold rows of somebody else."""
    return all(_key(action["remove"]) in files for action in commit.actions if "remove" in action)


def _apply(commit: LoggedCommit, files: dict[FileKey, File]) -> None:
    for action in commit.actions:
        if "remove" in action:
            files.pop(_key(action["remove"]), None)
    for action in commit.actions:
        if "add" in action:
            files[_key(action["add"])] = action["add"]


def _newest_metadata(commits: Iterable[LoggedCommit], base: _State) -> dict[str, Any]:
    own_metadata = [
        action["metaData"]
        for commit in commits
        if commit.is_ours
        for action in commit.actions
        if "metaData" in action
    ]
    return dict(own_metadata[-1]) if own_metadata else base.metadata


def _plain_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata without unbearable properties and the mapping of columns, which have kept their names."""
    properties = {
        key: value
        for key, value in metadata.get("configuration", {}).items()
        if is_borne_property(key, value) and not key.startswith(_MAPPING)
    }
    schema = json.loads(metadata["schemaString"])
    schema["fields"] = [_column_of_files(column) for column in schema["fields"]]
    return {**metadata, "configuration": properties, "schemaString": json.dumps(schema)}


def _column_of_files(column: dict[str, Any]) -> dict[str, Any]:
    """A column under the name that it has in files."""
    facts = column.get("metadata", {})
    return {
        **column,
        "name": facts.get(_PHYSICAL_NAME, column["name"]),
        "metadata": {key: value for key, value in facts.items() if not key.startswith(_MAPPING)},
    }


def _without_vector(file: File) -> File:
    return {key: value for key, value in file.items() if key != "deletionVector"}


def _remove(file: File, now_ms: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        key: file[key] for key in ("path", "partitionValues", "size", "deletionVector") if key in file
    }
    return {**facts, "dataChange": True, "deletionTimestamp": now_ms, "extendedFileMetadata": True}


def _lost_keys(uri: str, files: Mapping[FileKey, File]) -> set[FileKey]:
    """The files that are gone from storage."""
    infos = filesystem(uri).get_file_info([unquote(path) for path, _ in files]) if files else []
    return {key for key, info in zip(files, infos, strict=True) if info.type is FileType.NotFound}
