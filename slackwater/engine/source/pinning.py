"""Opens a source at its newest version or one that the ledger names; refuses another table in its place."""

import hashlib
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from slackwater.engine.source.commit_dated_source import CommitDatedSource
from slackwater.engine.source.computed_columns import schema_with_computed_columns
from slackwater.engine.source.dated_file_list import COMMIT_COLUMNS
from slackwater.engine.source.deletion_vectors import VECTOR, DeletionVector
from slackwater.engine.source.files import actions_with_vectors, as_list
from slackwater.engine.source.parquet_folder import FolderPlace, folder_at, look_at_folder
from slackwater.engine.source.pinned_source import DeltaPlace, PinnedSource
from slackwater.engine.source.row_tracking import COLUMN_PROPERTY
from slackwater.errors import PermanentError, UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import COMMIT_TIME, ParquetSource, Source
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.table_handles import newest_table
from slackwater.tables.errors import NotADeltaTable
from slackwater.tables.schemas import SOURCE_FILES
from slackwater.tables.storage_errors import not_readable, reason
from slackwater.tables.warehouse import Warehouse


class EmptySource(UsageError):
    """A folder has no files, so nothing says which columns it has."""


class VersionGone(PermanentError):
    """A version of the source that a run was pinned to has been cleaned up."""


class CommitTimesNotReadable(UsageError):
    """Only Spark can read a source whose rows arrive with their commits."""


class SourceReplaced(UsageError):
    """The table at the source's place is not the one that runs have read. Facts: uri, table_id, read_id."""


Place = str | DeltaPlace | FolderPlace


def place_of(warehouse: Warehouse, pipeline: Pipeline, source: Source) -> DeltaPlace | FolderPlace:
    uri = warehouse.source(source.table)
    folder = hashlib.sha256(source.table.encode()).hexdigest()[:16]
    record_uri = f"{warehouse.root}/{pipeline.name}/{SOURCE_FILES}/{folder}"
    return FolderPlace(uri, record_uri) if isinstance(source, ParquetSource) else DeltaPlace(uri, record_uri)


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
    any). `may_be_empty`: whether a folder may have no files, and so no columns. `records`: whether the newest
    version of a folder is recorded, so that a run may be pinned to it.

    Raises:
        NotADeltaTable, EmptySource, LogDamaged: what is at `uri` can't be read as a source.
        VersionGone: it has no such version any more.
        SourceReplaced: another table is there.
    """
    if isinstance(place, FolderPlace):
        by_commit = source.arrives_by_commit
        pinned_source: PinnedSource | None = (
            look_at_folder(place, records=records, arrives_by_commit=by_commit)
            if version is None
            else folder_at(place, version, arrives_by_commit=by_commit)
        )
        return _checked_folder(source, pinned_source, version, table_id, may_be_empty=may_be_empty)
    uri = _uri_of(place)
    table = _open_source(source, uri)
    if version is not None:
        newest_id = table.table_id
        try:
            table = _load_version(source, uri, table, version)
        except VersionGone:
            _refuse_other(source, uri, newest_id, table_id)
            newest = _pin_loaded(source, place, _open_source(source, uri))
            recorded_source = newest.recorded_at(version)
            if recorded_source is None:
                raise
            return recorded_source
    _refuse_other(source, uri, table.table_id, table_id)
    return _pin_loaded(source, place, table)


def pin_both(
    source: Source,
    place: Place,
    version: int,
    table_id: str | None = None,
    *,
    may_be_empty: bool = False,
) -> tuple[PinnedSource, PinnedSource]:
    """(the source at its newest version, recorded, and at `version`), both of `table_id`; raises as `pin`."""
    if isinstance(place, FolderPlace):
        newest_folder = pin(source, place, None, table_id, may_be_empty=may_be_empty, records=True)
        return newest_folder, pin(source, place, version, table_id, may_be_empty=may_be_empty)
    uri = _uri_of(place)
    table = _open_source(source, uri, since=version)
    _refuse_other(source, uri, table.table_id, table_id)
    newest = _pin_loaded(source, place, table)
    if version == newest.version:
        return newest, newest
    try:
        table_before = _load_version(source, uri, table, version)
    except VersionGone:
        recorded_source = newest.recorded_at(version)
        if recorded_source is None:
            raise
        return newest, recorded_source
    return newest, _pin_loaded(source, place, table_before)


def as_recorded(source: PinnedSource) -> PinnedSource:
    """A source as the run has read it that was pinned to its version. Raises VersionGone where nothing says
    any more what it was.
    """
    if not isinstance(source, CommitDatedSource):
        return source
    recorded_source = source.as_recorded()
    if recorded_source is source and source.files_dated_as_a_whole():
        raise VersionGone(
            f"source {source.uri}: nothing says any more when rows of version {source.version} arrived: they "
            "were written again together, the files from before are gone (VACUUM), and no run has recorded "
            "them.",
            uri=source.uri,
            version=source.version,
        )
    return recorded_source


def _uri_of(place: str | DeltaPlace) -> str:
    return place if isinstance(place, str) else place.uri


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
    schema = schema_with_computed_columns(source, pinned_source.schema, files_say_zone=True)
    if schema is pinned_source.schema:
        return pinned_source
    computing = replace(pinned_source, schema=schema)
    vars(computing).update({name: value for name, value in vars(pinned_source).items() if name == "actions"})
    return computing


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


def _open_source(source: Source, uri: str, since: int | None = None) -> OpenTable:
    """The source at its newest version. Commits up to `since` were checked before."""
    cause: NotADeltaTable | None = None
    try:
        table = newest_table(uri, since)
    except NotADeltaTable as error:
        table, cause = None, error
    if table is None:
        raise NotADeltaTable(
            f"source {source.table!r}: there is no Delta table at {uri}"
            f"{'' if cause is None else f' ({cause.message})'}. Load it first (for an example: `slackwater "
            "examples load NAME --from A --to B`), or mend DeltaSource(...).",
            uri=uri,
        ) from cause
    return table


def _load_version(source: Source, uri: str, newest: OpenTable, version: int) -> OpenTable:
    if version == newest.version():
        return newest
    try:
        table = DeltaTable(uri, version=version)
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
    return OpenTable.of(uri, table)


def _pin_loaded(source: Source, place: str | DeltaPlace, table: OpenTable) -> PinnedSource:
    uri, schema, protocol = _uri_of(place), table.schema, table.base.protocol()
    configuration = table.base.metadata().configuration
    mapping = configuration.get("delta.columnMapping.mode", "none")
    has_vectors = "deletionVectors" in (protocol.reader_features or ())
    actions = actions_with_vectors(table.as_delta_rs(), uri) if has_vectors else table.actions.sort_by("path")
    reasons = (
        ("column mapping by numbers", mapping == "id"),
        ("column mapping of nested columns", mapping == "name" and any(map(_is_nested, schema.types))),
        (
            "files of another table",
            pc.any(pc.match_substring_regex(actions.column("path"), "^([a-z0-9]+:|/)")).as_py()
            or any(vector.storage == "p" for vector in _vectors_of(actions)),
        ),
    )
    why_not_direct = " and ".join(reason for reason, present in reasons if present) or None
    arrives_by_commit = source.arrives_by_commit and COMMIT_TIME not in schema.names
    if arrives_by_commit and why_not_direct is not None:
        raise CommitTimesNotReadable(
            f"source {source.table!r}: only Spark can read it ({why_not_direct}), which does not know the "
            "commits of rows. Let the table's writer fill a column with their arrivals, and name it: "
            'arrival_time="…".',
            uri=uri,
        )
    if arrives_by_commit:
        schema = pa.schema([*schema, *COMMIT_COLUMNS])
    source_at_version = PinnedSource(
        uri=uri,
        version=table.version(),
        schema=schema_with_computed_columns(source, schema),
        why_not_direct=why_not_direct,
        table_id=table.table_id,
        file_record_uri=place.record_uri if isinstance(place, DeltaPlace) else None,
    )
    if arrives_by_commit:
        source_at_version = CommitDatedSource(
            **vars(source_at_version), tracking_column=configuration.get(COLUMN_PROPERTY)
        )
    # Else the table would be opened again for them.
    vars(source_at_version)["log_files" if arrives_by_commit else "actions"] = actions
    return source_at_version


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _vectors_of(actions: pa.Table) -> list[DeletionVector]:
    if VECTOR not in actions.column_names:
        return []
    return [DeletionVector.from_json(text) for text in as_list(actions.column(VECTOR).drop_null())]
