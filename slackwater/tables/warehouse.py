"""A warehouse: the folder (or URI) with a folder of tables for each pipeline, and the examples' sources.
Makes the tables, and refuses tables that this version or this pipeline can't write.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from slackwater.errors import without_credentials
from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.foreign_changes import ForeignCommit, refuse_foreign
from slackwater.tables.delta.log_files import refuse_lost_rows, refuse_older
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.errors import CredentialsInUri, NoRuns, PercentInPath
from slackwater.tables.grown_columns import (
    grown_schema,
    key_columns,
    may_grow,
    shape_changed,
    source_retyped,
)
from slackwater.tables.ledger.attempts import AttemptsReader
from slackwater.tables.ledger.reader import LedgerReader, newest_row_of
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.stores import filesystem, map_concurrently, refuse_unknown_store

VARIABLE = "SLACKWATER_WAREHOUSE"
DEFAULT = "warehouse"
_LEDGER = "runs"
# Each row of the ledger is followed by a commit of each of these tables after it has recorded their versions.
_MOVED_BEHIND_LEDGER = {"attempts", "corrections", "published"}
# Doubled rows of these tables, and rows that the ledger lacks, are noticed before anything is written.
_LOOKED_AT = {"corrections", "published"}
_LATE_EVENTS = "late_events"  # the only table that has every column of the source
# The application id of the transactions with which `published` and `corrections` record in their logs up to
# which seq of the ledger they have been rolled forward.
APPLICATION = "slackwater"


@dataclass(frozen=True)
class Warehouse:
    """The folder of all pipelines' tables. `root` is an absolute local path or a URI."""

    root: str

    @classmethod
    def at(cls, location: str | None) -> "Warehouse":
        """The warehouse at `location`, else at SLACKWATER_WAREHOUSE, else in ./warehouse.

        Raises:
            CredentialsInUri: the location holds some.
            PercentInPath: delta-rs can't open it.
        """
        root = location or os.environ.get(VARIABLE) or DEFAULT
        _refuse_credentials(root)
        refuse_unknown_store(root)
        if "://" in root:
            return cls(root.rstrip("/"))
        path = str(Path(root).expanduser().absolute())
        if _PERCENT_CODE.search(path):
            raise PercentInPath(
                f"{path}: delta-rs takes a percent sign and two digits in a path for one character, and "
                "finds no table there. Rename the folder, or give the warehouse another one.",
                uri=path,
            )
        return cls(path)

    def source(self, table: str) -> str:
        """The location of a source table: `table` itself if it is absolute, else in the warehouse. Raises
        CredentialsInUri or UnknownStore.
        """
        _refuse_credentials(table)
        refuse_unknown_store(table)
        return table if "://" in table or os.path.isabs(table) else f"{self.root}/{table}"

    def tables(self, pipeline: str, shape: schemas.Shape) -> "Tables":
        """The tables of a pipeline whose columns are known from its declaration and its source."""
        return Tables(
            {
                name: Folder(
                    f"{self.root}/{pipeline}/{name}",
                    schema,
                    schemas.partitioned_by(name),
                    schemas.CLUSTERINGS.get(name),
                    is_ours=True,
                )
                for name, schema in schemas.table_schemas(shape).items()
            }
        )

    def stored_tables(self, pipeline: str, sides: Iterable[str] = ()) -> "Tables":
        """The tables of a pipeline with their columns in storage, for reading; tables of side outputs only
        for the tags in `sides`.

        Raises:
            NoRuns: the pipeline has no tables here, or not all, because its first run was killed.
            LogDamaged, ForeignCommits, ForeignFeature: see `Tables.check_logs`.
        """
        tables = self.tables_with_foreign_commits(pipeline, sides)
        refuse_foreign(tables.foreign_commits())
        return tables

    def tables_with_foreign_commits(self, pipeline: str, sides: Iterable[str] = ()) -> "Tables":
        """`stored_tables`, also where others have changed rows of other tables than the ledger."""
        every = schemas.table_columns(schemas.Shape((), (), (), ()))
        names = (*every, *map(schemas.side_table, sides))

        def existing(name: str) -> Folder | None:
            uri, clustering = f"{self.root}/{pipeline}/{name}", schemas.CLUSTERINGS.get(name)
            return Folder.existing_at(uri, schemas.partitioned_by(name), clustering, is_ours=True)

        # The ledger is read first: the other logs may move on meanwhile, but never back.
        runs = existing(_LEDGER)
        newest = None if runs is None else newest_row_of(runs)
        stored_folders = map_concurrently(lambda name: runs if name == _LEDGER else existing(name), names)
        pairs = zip(names, stored_folders, strict=True)
        folders = {name: folder for name, folder in pairs if folder is not None}
        if runs is not None:
            root, no_columns = f"{self.root}/{pipeline}", pa.schema([])
            absent_names = [name for name in every if name not in folders]
            absent = {name: Folder(f"{root}/{name}", no_columns, is_ours=True) for name in absent_names}
            Tables({**folders, **absent}).refuse_lost_commits(newest, Folder.newest_known)
        if not every.keys() <= folders.keys():
            raise NoRuns(
                f"{pipeline} has never run in the warehouse {self.root}. Run it with `slackwater run "
                f"{pipeline} --to TIME`, or name "
                f"another warehouse with --warehouse or {VARIABLE}.",
                pipeline=pipeline,
                warehouse=self.root,
            )
        return Tables(folders)


@dataclass(frozen=True)
class Tables:
    folders: Mapping[str, Folder]

    def __getitem__(self, name: str) -> Folder:
        return self.folders[name]

    @property
    def ledger(self) -> LedgerReader:
        return LedgerReader(self.folders["runs"])

    @property
    def attempts(self) -> AttemptsReader:
        return AttemptsReader(self.folders["attempts"])

    @property
    def ledger_writer(self) -> LedgerWriter:
        return LedgerWriter(self.folders["runs"], self._newest_known_versions)

    def _newest_known_versions(self) -> dict[str, int]:
        return {
            name: folder.newest_known_version
            for name, folder in self.folders.items()
            if folder.newest_known_version is not None
        }

    def records_of_sources(self) -> list[str]:
        root = f"{self.folders[_LEDGER].uri.removesuffix(_LEDGER)}{schemas.SOURCE_FILES}"
        selector = pafs.FileSelector("", allow_not_found=True)
        names = sorted(info.path.strip("/") for info in filesystem(root).get_file_info(selector))
        return [f"{root}/{name}" for name in names]

    def check_logs(self) -> None:
        """Refuse tables that are damaged or that others have changed.

        Raises:
            LogDamaged: a table is older than the ledger has recorded, or the ledger ends before the row up to
                which `published` was rolled forward; with the first missing file.
            ForeignCommits: somebody else has changed rows or columns.
            ForeignFeature: a table has a feature that reads and writes can't bear.
        """
        # The ledger is read first: tables may move on meanwhile, but never back.
        newest = newest_row_of(self.folders[_LEDGER])
        versions = {} if newest is None else newest.table_versions

        def look(folder: Folder) -> OpenTable | None:
            if folder.name == _LEDGER:
                return folder.newest_known()
            known_table = None if folder.name in _LOOKED_AT else folder.newest_known()
            is_new_enough = (
                known_table is not None
                and folder.name in versions
                and known_table.version() >= versions[folder.name] + (folder.name in _MOVED_BEHIND_LEDGER)
            )
            return known_table if is_new_enough else folder.find()

        self.refuse_lost_commits(newest, look)
        refuse_foreign(self._foreign_commits(newest))

    def foreign_commits(self) -> list[ForeignCommit]:
        """The commits of others that have changed rows or columns since the ledger's newest row."""
        return self._foreign_commits(self.ledger.newest())

    def _foreign_commits(self, newest: LedgerRow | None) -> list[ForeignCommit]:
        versions = {} if newest is None else newest.table_versions
        folders = [folder for name, folder in self.folders.items() if name in versions]
        foreign = map_concurrently(lambda folder: folder.foreign_commits(versions[folder.name]), folders)
        return [commit for commits in foreign for commit in commits]

    def refuse_lost_commits(
        self, newest: LedgerRow | None, look: Callable[[Folder], OpenTable | None]
    ) -> None:
        """Raise LogDamaged as `check_logs` does, for the `newest` row of the ledger and the tables that
        `look` returns, which were opened after the ledger was read.
        """
        seq, versions = (0, {}) if newest is None else (newest.seq, newest.table_versions)
        names = [name for name in self.folders if name in versions or name == "published"]
        folders = [self.folders[name] for name in names]
        tables = dict(zip(names, map_concurrently(look, folders), strict=True))
        for name in (name for name in names if name in versions):
            table = tables[name]
            version = None if table is None else table.version()
            refuse_older(self.folders[name].uri, version, versions[name], seq)
        if "published" in self.folders:
            table = tables["published"]
            rolled_forward = 0 if table is None else table.transaction_version(APPLICATION) or 0
            if rolled_forward > seq and (newest := self.ledger.newest()) is not None:
                seq = newest.seq  # another process may have committed and rolled forward meanwhile
            if rolled_forward > seq:
                refuse_lost_rows(
                    self.folders["runs"].uri, self.folders["runs"].version(), seq, rolled_forward
                )

    def shape(self, declared_shape: schemas.Shape) -> schemas.Shape:
        """`declared_shape` with the stored columns for results, in their order, and the columns of the source
        that `late_events` can hold.
        """
        columns = schemas.table_columns(replace(declared_shape, stored=()))
        stored_columns = {
            name: tuple((field.name, field.type) for field in folder.schema)
            for name, folder in self.folders.items()
            if name in columns and may_grow(name)
        }
        late_columns = self.folders[_LATE_EVENTS].schema
        reserved_names = {*map(str.lower, declared_shape.key_names), *schemas.LATE_EVENT_NAMES}
        return replace(
            declared_shape,
            source=tuple(
                (name, kind)
                for name, kind in declared_shape.source
                if name.lower() in reserved_names
                or (name in late_columns.names and late_columns.field(name).type.equals(kind))
            ),
            stored=tuple(item for item in stored_columns.items() if item[1] != columns[item[0]]),
        )

    def ensure(self) -> "Tables":
        """Make every table that isn't there. A column that the source has gained is added to `late_events`;
        one that the source has lost stays there, and one that has another type or case there is null in new
        rows. So it is with columns of results that the pipeline has gained or lost (`grown_columns`), and
        with columns that later versions have added at the end of `runs`.

        Returns the tables with the columns that they then have for results.

        Raises:
            ShapeChanged: a table has other columns than the pipeline declares now.
            NewerFormat, EarlierFormat: another version of the product has written here.
            WarehouseNotWritable: the warehouse can't be written.
            LogDamaged, ForeignCommits, ForeignFeature: see `check_logs`.
        """
        self.check_logs()
        folders = list(self.folders.values())
        stored_schemas = map_concurrently(Folder.stored_schema, folders)
        schema_by_name = {folder.name: schema for folder, schema in zip(folders, stored_schemas, strict=True)}
        additions = [self._addition(folder, schema_by_name[folder.name]) for folder in folders]
        for add in additions:
            add()
        return self._with_grown_columns(schema_by_name)

    def _with_grown_columns(self, stored_schemas: Mapping[str, pa.Schema]) -> "Tables":
        """The tables with the columns for results that the stored ones have beside those declared."""
        grown_folders = {
            name: folder.with_schema(grown)
            for name, folder in self.folders.items()
            if (grown := grown_schema(name, stored_schemas[name], folder.schema)) is not None
            and not grown.equals(folder.schema)
        }
        late = self.folders[_LATE_EVENTS]
        schema = pa.schema(
            [field for field in late.schema if _can_store(stored_schemas[_LATE_EVENTS], field)]
        )
        if schema != late.schema:
            grown_folders[_LATE_EVENTS] = replace(late, schema=schema)
        return Tables({**self.folders, **grown_folders}) if grown_folders else self

    def check(self) -> None:
        """Raise the errors that `ensure` would raise, and change nothing."""
        self.check_logs()
        tables = map_concurrently(Folder.find, self.folders.values())
        self.check_columns(
            {
                name: table.schema
                for name, table in zip(self.folders, tables, strict=True)
                if table is not None
            }
        )

    def check_columns(self, stored_schemas: Mapping[str, pa.Schema]) -> None:
        """Raise ShapeChanged or NewerFormat as `ensure` does, for tables with these columns in storage."""
        for name, folder in self.folders.items():
            if name in stored_schemas:
                self._addition(folder, stored_schemas[name])

    def _addition(self, folder: Folder, stored_schema: pa.Schema) -> Callable[[], None]:
        """The action that adds a table's missing columns, if any. Raises ShapeChanged or NewerFormat: that
        does not make the stored schema the declared one.
        """
        if stored_schema.equals(folder.schema):
            return partial(folder.add_columns, [])
        if folder.name == _LATE_EVENTS and self._is_late_events(stored_schema):
            stored_names = {name.lower() for name in stored_schema.names}
            return partial(
                folder.add_columns,
                [field for field in folder.schema if field.name.lower() not in stored_names],
            )
        known_columns = list(folder.schema)[: len(stored_schema)]
        if folder.name == "runs" and stored_schema.equals(pa.schema(known_columns)):
            return partial(folder.add_columns, list(folder.schema)[len(known_columns) :])
        grown = grown_schema(folder.name, stored_schema, folder.schema)
        if grown is not None:
            if any(field.type != grown.field(field.name).type for field in stored_schema):
                return folder.add_fields
            return partial(folder.add_columns, list(grown)[len(stored_schema) :])
        self._refuse_other_formats()
        self._refuse_retyped_source(stored_schema)
        raise shape_changed(folder.uri, folder.name, stored_schema, folder.schema)

    def _is_late_events(self, stored_schema: pa.Schema) -> bool:
        """Whether a table has the columns that `late_events` has for every source."""
        schema = self.folders[_LATE_EVENTS].schema
        keys = key_columns("panes", self.folders["panes"].schema)
        names = schemas.LATE_EVENT_NAMES.union(field.name for field in keys)
        fields = [field for field in schema if field.name in names]
        return all(
            field.name in stored_schema.names and stored_schema.field(field.name).equals(field)
            for field in fields
        )

    def _refuse_retyped_source(self, stored_schema: pa.Schema) -> None:
        """Refuse a source with a column of another type than in the first run, which `late_events` has: a
        table may differ only because its columns are computed from that one. Columns that `stored_schema` has
        itself are left to `shape_changed`.
        """
        late = self.folders[_LATE_EVENTS]
        table = late.find()
        own_names = schemas.LATE_EVENT_NAMES.union(stored_schema.names)
        fields = () if table is None else table.schema
        before = {field.name: field.type for field in fields if field.name not in own_names}
        retyped_fields = [
            field for field in late.schema if not before.get(field.name, field.type).equals(field.type)
        ]
        if retyped_fields:
            raise source_retyped(late.uri, before, retyped_fields)

    def _refuse_other_formats(self) -> None:
        self.ledger.columns("seq")  # opens every file, which refuses rows of other formats


def _can_store(stored_schema: pa.Schema, field: pa.Field) -> bool:
    """Whether a table has the column, or none of its name in any case."""
    same_names = [one for one in stored_schema if one.name.lower() == field.name.lower()]
    return not same_names or any(one.equals(field) for one in same_names)


# As in a URL.
_PERCENT_CODE = re.compile("%[0-9A-Fa-f]{2}")


def _refuse_credentials(uri: str) -> None:
    shown_uri = without_credentials(uri)
    if shown_uri != uri:
        raise CredentialsInUri(
            f"{shown_uri}: this URI holds credentials, which would stand in the ledger and in logs. Leave "
            "them out, and put them into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
            "AZURE_STORAGE_SAS_TOKEN, …) or into an Airflow connection.",
            uri=shown_uri,
        )
