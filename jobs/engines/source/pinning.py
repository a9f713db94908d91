"""Opens a source at its newest version, or at one that the ledger names, and refuses another table that has
taken its place.
"""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from slackwater.jobs.engines.source.parquet_folder import FolderPlace, folder_at, look_at_folder
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.errors import PermanentError, UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.sources import ParquetSource, Source
from slackwater.jobs.tables.delta.log_files import check_commits, damage
from slackwater.jobs.tables.delta.stored_files import actions_of
from slackwater.jobs.tables.delta.written_files import filesystem
from slackwater.jobs.tables.errors import LogDamaged, NotADeltaTable
from slackwater.jobs.tables.storage_errors import not_readable, reads, reason
from slackwater.jobs.tables.warehouse import Warehouse


class EmptySource(UsageError):
    """The source has no rows at all."""


class VersionGone(PermanentError):
    """A version of the source that a run was pinned to has been cleaned up."""


class SourceReplaced(UsageError):
    """The table at the source's place is not the one that runs have read. Facts: uri, table_id, read_id."""


Place = str | FolderPlace


def place_of(warehouse: Warehouse, pipeline: Pipeline, source: Source) -> Place:
    """Where a source of a pipeline stands, for `pin`."""
    uri = warehouse.source(source.table)
    if not isinstance(source, ParquetSource):
        return uri
    folder = hashlib.sha256(source.table.encode()).hexdigest()[:16]
    return FolderPlace(uri, f"{warehouse.root}/{pipeline.name}/_source_files/{folder}")


def pin(
    source: Source,
    place: Place,
    version: int | None = None,
    table_id: str | None = None,
    *,
    may_be_empty: bool = False,
    records: bool = False,
) -> PinnedSource:
    """The source at `version` (default: newest), which must be a version of the table `table_id` (None: of
    any). `may_be_empty`: whether it may have no rows at all. `records`: whether the newest version of a
    folder is recorded, so that a run may be pinned to it.

    Raises:
        NotADeltaTable, EmptySource, LogDamaged: what is at `uri` can't be read as a source.
        VersionGone: it has no such version any more.
        SourceReplaced: another table stands there.
    """
    if isinstance(place, FolderPlace):
        pinned_source: PinnedSource | None = (
            look_at_folder(place, records=records) if version is None else folder_at(place, version)
        )
        return _checked_folder(source, pinned_source, version, table_id, may_be_empty=may_be_empty)
    uri = place
    table = _open_source(source, uri)
    if version is not None:
        newest_id = str(table.metadata().id)
        try:
            table = _load_version(source, uri, table, version)
        except VersionGone:
            _refuse_other(source, uri, newest_id, table_id)
            raise
    _refuse_other(source, uri, str(table.metadata().id), table_id)
    return _pin_loaded(source, uri, table, may_be_empty=may_be_empty)


def pin_both(
    source: Source,
    place: Place,
    version: int,
    table_id: str | None = None,
    *,
    may_be_empty: bool = False,
) -> tuple[PinnedSource, PinnedSource]:
    """(the source at its newest version, the source at `version`), both versions of the table `table_id`;
    raising as `pin`. The newest version of a folder is recorded.
    """
    if isinstance(place, FolderPlace):
        newest_folder = pin(source, place, None, table_id, may_be_empty=may_be_empty, records=True)
        return newest_folder, pin(source, place, version, table_id, may_be_empty=may_be_empty)
    uri = place
    table = _open_source(source, uri, since=version)
    _refuse_other(source, uri, str(table.metadata().id), table_id)
    newest = _pin_loaded(source, uri, table, may_be_empty=may_be_empty)
    if version == newest.version:
        return newest, newest
    table_before = _load_version(source, uri, table, version)
    return newest, _pin_loaded(source, uri, table_before, may_be_empty=may_be_empty)


def _checked_folder(
    source: Source,
    pinned_source: PinnedSource | None,
    version: int | None,
    table_id: str | None,
    *,
    may_be_empty: bool,
) -> PinnedSource:
    if pinned_source is None:
        raise VersionGone(
            f"source {source.table!r}: version {version} of the list of its files is not recorded any more. "
            "A run that was pinned to it can't be repeated.",
            version=version,
        )
    if table_id is not None and pinned_source.table_id != table_id:
        raise SourceReplaced(
            f"source {source.table!r}: the list of the files that runs have read of {pinned_source.uri} is "
            f"gone; the one that is there is another ({pinned_source.table_id}, theirs was {table_id}).",
            uri=pinned_source.uri,
            table_id=pinned_source.table_id,
            read_id=table_id,
        )
    if not pinned_source.actions.num_rows and not may_be_empty:
        raise EmptySource(
            f"source {source.table!r}: there are no Parquet files in {pinned_source.uri}: there is "
            "nothing to replay yet. Write some into it, then repeat the command.",
            uri=pinned_source.uri,
        )
    return pinned_source


def _refuse_other(source: Source, uri: str, found_id: str, expected_id: str | None) -> None:
    if expected_id is not None and found_id != expected_id:
        raise SourceReplaced(
            f"source {source.table!r}: the table at {uri} is not the one that runs have read. It was dropped "
            "and made again, or replaced: "
            f"its id is {found_id}, theirs was {expected_id}.",
            uri=uri,
            table_id=found_id,
            read_id=expected_id,
        )


def _open_source(source: Source, uri: str, since: int | None = None) -> DeltaTable:
    """The source at its newest version. Commits up to the version `since` were checked before."""
    try:
        table = DeltaTable(uri)
    except (DeltaError, OSError) as error:
        if (failure := not_readable(uri, error) or _damage_of(uri, error)) is not None:
            raise failure from error
        raise NotADeltaTable(
            f"source {source.table!r}: there is no Delta table at {uri} ({reason(error)}). Load it first "
            "(for an example: "
            "`slackwater examples load NAME --from A --to B`), or mend DeltaSource(...).",
            uri=uri,
        ) from error
    with reads(uri):
        check_commits(filesystem(uri), uri, table.version(), since)
    return table


def _damage_of(uri: str, error: Exception) -> LogDamaged | None:
    with reads(uri):
        return None if isinstance(error, TableNotFoundError) else damage(filesystem(uri), uri)


def _load_version(source: Source, uri: str, table: DeltaTable, version: int) -> DeltaTable:
    try:
        table.load_as_version(version)
    except (DeltaError, OSError) as error:
        if (failure := not_readable(uri, error)) is not None:
            raise failure from error
        raise VersionGone(
            f"source {source.table!r}: version {version} can't be read any more ({reason(error)}). A run "
            "that was pinned to it can't "
            "be repeated; keep the source's log for longer (delta.logRetentionDuration).",
            uri=uri,
            version=version,
        ) from error
    return table


def _pin_loaded(source: Source, uri: str, table: DeltaTable, *, may_be_empty: bool) -> PinnedSource:
    features, metadata = set(table.protocol().reader_features or ()), table.metadata()
    mapping = metadata.configuration.get("delta.columnMapping.mode", "none")
    actions = actions_of(table)
    if not actions.num_rows and not may_be_empty:
        raise EmptySource(
            f"source {source.table!r} at {uri} is empty (version {table.version()}): there is nothing to "
            "replay yet. Load rows into it, then repeat the command.",
            uri=uri,
        )
    reasons = (
        ("deletion vectors", "deletionVectors" in features),
        ("column mapping", mapping != "none"),
        (
            "files of another table",
            pc.any(pc.match_substring_regex(actions.column("path"), "^([a-z0-9]+:|/)")).as_py(),
        ),
    )
    why_not_direct = " and ".join(reason for reason, present in reasons if present) or None
    source_at_version = PinnedSource(
        uri, table.version(), pa.schema(table.schema()), why_not_direct, str(metadata.id)
    )
    vars(source_at_version)["actions"] = actions.sort_by(
        "path"
    )  # else the table would be opened again for them
    return source_at_version
