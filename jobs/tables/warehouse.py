"""A warehouse: the folder (or URI) below which each pipeline has a folder of tables, and the examples'
sources stand.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa

from slackwater.jobs.tables import schemas
from slackwater.jobs.tables.delta.concurrency import map_concurrently
from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.log_files import refuse_lost_rows, refuse_older
from slackwater.jobs.tables.delta.migration import is_partitioned_otherwise, repartition
from slackwater.jobs.tables.errors import NoRuns, RunAtWork, ShapeChanged
from slackwater.jobs.tables.ledger.attempts import AttemptsReader
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.rows import refuse_newer
from slackwater.jobs.tables.ledger.writer import LedgerWriter

VARIABLE = "SLACKWATER_WAREHOUSE"
DEFAULT = "warehouse"
_LATE = "late_events"  # it has every column of the source
# Under this name `published` and `corrections` say in their logs how far they have been rolled forward: the
# seq of a ledger row.
APPLICATION = "slackwater"


@dataclass(frozen=True)
class Warehouse:
    """Where tables stand. `root` is an absolute local path or a URI."""

    root: str

    @classmethod
    def at(cls, location: str | None) -> "Warehouse":
        """The warehouse at `location`, else at SLACKWATER_WAREHOUSE, else in the folder ``warehouse`` of the
        current one.
        """
        wanted = location or os.environ.get(VARIABLE) or DEFAULT
        return cls(wanted.rstrip("/") if "://" in wanted else str(Path(wanted).expanduser().absolute()))

    def source(self, table: str) -> str:
        """Where a source stands: `table` itself if it is absolute, else below the warehouse."""
        return table if "://" in table or os.path.isabs(table) else f"{self.root}/{table}"

    def tables(self, pipeline: str, shape: schemas.Shape) -> "Tables":
        """The tables of a pipeline whose columns are known from its declaration and its source."""
        return Tables(
            {
                name: Folder(f"{self.root}/{pipeline}/{name}", schema, schemas.partitioned_by(name))
                for name, schema in schemas.table_schemas(shape).items()
            }
        )

    def stored(self, pipeline: str, sides: Iterable[str] = ()) -> "Tables":
        """The tables of a pipeline as they are stored, for reading; those of side outputs only as far as
        their tags are named.

        Raises:
            NoRuns: the pipeline has no tables here, or not all of them: the first run was killed while it
                made them.
            LogDamaged: see `Tables.check_logs`.
        """
        found: dict[str, Folder] = {}
        every = schemas.table_columns(schemas.Shape((), (), (), ()))
        for name in (*every, *map(schemas.side_table, sides)):
            folder = Folder.existing_at(f"{self.root}/{pipeline}/{name}", schemas.partitioned_by(name))
            if folder is not None:
                found[name] = folder
        if "runs" in found:
            absent = {
                name: Folder(f"{self.root}/{pipeline}/{name}", pa.schema([]))
                for name in every
                if name not in found
            }
            Tables({**found, **absent}).check_logs()
        if not every.keys() <= found.keys():
            raise NoRuns(
                f"{pipeline} has never run in the warehouse {self.root}. Run it with `slackwater run "
                f"{pipeline} --to TIME`, or name "
                f"another warehouse with --warehouse or {VARIABLE}.",
                pipeline=pipeline,
                warehouse=self.root,
            )
        return Tables(found)


@dataclass(frozen=True)
class Tables:
    """The tables of one pipeline."""

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
        return LedgerWriter(self.folders["runs"], self._versions_seen)

    def _versions_seen(self) -> dict[str, int]:
        return {
            name: folder.newest_known_version
            for name, folder in self.folders.items()
            if folder.newest_known_version is not None
        }

    def check_logs(self) -> None:
        """Refuse tables whose logs have lost commits that the ledger knows of, and a ledger that `published`
        is ahead of.

        Raises:
            LogDamaged: with the first file that is missing.
        """
        newest = self.ledger.newest()  # read first: tables only move on
        seq, versions = (0, {}) if newest is None else (newest.seq, newest.table_versions)
        seen = {name: folder for name, folder in self.folders.items() if name in versions}
        for (name, folder), version in zip(
            seen.items(), map_concurrently(Folder.version, seen.values()), strict=True
        ):
            refuse_older(folder.uri, version, versions[name], seq)
        if "published" in self.folders:
            with self.folders["published"].handle() as published:
                rolled_forward = 0 if published is None else published.transaction_version(APPLICATION) or 0
            if rolled_forward > seq and (newest := self.ledger.newest()) is not None:
                seq = newest.seq  # another process may have committed and rolled forward meanwhile
            if rolled_forward > seq:
                refuse_lost_rows(
                    self.folders["runs"].uri, self.folders["runs"].version(), seq, rolled_forward
                )

    def ensure(self) -> None:
        """Make every table that isn't there; give one of an earlier format what it lacks of
        `schemas.ADDED_COLUMNS` and `ADDED_FIELDS`, and today's partition columns. A column that the source
        has gained becomes one of `late_events`; one that it lost stays.

        Raises:
            ShapeChanged: a table has other columns than the pipeline declares now.
            NewerFormat: a newer version of the product has written here.
            WarehouseNotWritable: the warehouse can't be written.
            LogDamaged: see `check_logs`.
        """
        self.check_logs()
        layouts = list(
            zip(
                self.folders.values(),
                map_concurrently(Folder.stored_layout, self.folders.values()),
                strict=True,
            )
        )
        for folder, (stored, _) in layouts:
            self._addition(folder, stored)()
        if any(folder.partition_by != layout.partition_by for folder, layout in layouts):
            self.repartition()

    def check(self) -> None:
        """Refuse what `ensure` would, and change nothing.

        Raises:
            ShapeChanged, NewerFormat, LogDamaged: see `ensure`.
        """
        self.check_logs()
        for folder, table in zip(
            self.folders.values(), map_concurrently(Folder.find, self.folders.values()), strict=True
        ):
            if table is not None:
                self._addition(folder, pa.schema(table.schema()))

    def _addition(self, folder: Folder, stored: pa.Schema) -> Callable[[], None]:
        """What gives a table that has the columns `stored` those that it lacks and may be given; it does
        nothing where it lacks none.
        """
        if stored.equals(folder.schema):
            return partial(folder.add_columns, [])
        known = [field for field in folder.schema if field.name in stored.names]
        if folder.name == _LATE and all(stored.field(field.name).equals(field) for field in known):
            return partial(folder.add_columns, [field for field in folder.schema if field not in known])
        if folder.name in schemas.ADDED_FIELDS and schemas.has_all(folder.schema, stored):
            return (
                partial(folder.add_columns, [])
                if schemas.has_all(stored, folder.schema)
                else folder.add_fields
            )
        added = [
            folder.schema.field(column)
            for column in schemas.ADDED_COLUMNS.get(folder.name, ())
            if column not in stored.names
        ]
        if added and pa.schema([*stored, *added]).equals(folder.schema):
            return partial(folder.add_columns, added)
        self._refuse_newer()
        self._refuse_retyped_source(stored)
        raise _shape_changed(folder, stored)

    def _refuse_retyped_source(self, stored: pa.Schema) -> None:
        """Where a column of the source has another type, of which a table with `stored` has only what is
        computed from it, say so.
        """
        late = self.folders[_LATE]
        table = late.find()
        before = (
            {}
            if table is None
            else {
                field.name: field.type
                for field in pa.schema(table.schema())
                if field.name not in stored.names
            }
        )
        retyped = [
            field for field in late.schema if not before.get(field.name, field.type).equals(field.type)
        ]
        if retyped:
            listed = ", ".join(
                f"{field.name} (it was {before[field.name]}, and is {field.type})" for field in retyped
            )
            raise ShapeChanged(
                f"{late.uri}: the source's columns have other types than when the pipeline first ran: "
                f"{listed}. Give them their types "
                "back, or give the pipeline another name (it then starts a lineage of its own).",
                table=_LATE,
                differing=[field.name for field in retyped],
            )

    def repartition(self) -> None:
        """Give every table today's partition columns, those of a table that has others with all its rows.

        Raises:
            NewerFormat: a newer version of the product has written here.
            RunAtWork: a run that may be of an earlier version would stage rows in the layout of before, which
                nobody would find.
            WarehouseNotWritable: the warehouse can't be written.
        """
        self._refuse_newer()
        others = [folder for folder in self.folders.values() if is_partitioned_otherwise(folder)]
        at_work = (
            [holder for holder in self.attempts.holders(datetime.now(UTC)) if not holder.is_upkeep]
            if others
            else []
        )
        if at_work:
            raise RunAtWork(
                f"{others[0].uri}: an earlier version has written this table, and it is to be written anew, "
                f"but {at_work[0].owner} has "
                f"claimed a run until {at_work[0].expires_at:%Y-%m-%dT%H:%M:%SZ}. Nothing was changed; run "
                "the same command again when "
                "that run has ended.",
                uri=others[0].uri,
            )
        for folder in others:
            repartition(folder)

    def _refuse_newer(self) -> None:
        columns = ["seq", "run_id", "format_version", "version"]
        for values in self.folders["runs"].read(columns).to_pylist():
            refuse_newer(values)


def _shape_changed(folder: Folder, stored: pa.Schema) -> ShapeChanged:
    there = {field.name: str(field.type) for field in stored}
    wanted = {field.name: str(field.type) for field in folder.schema}
    differing = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    differences = ", ".join(
        f"{name} (stored {there.get(name, 'not')}, declared {wanted.get(name, 'not')})" for name in differing
    )
    return ShapeChanged(
        f"{folder.uri}: its columns are not those that the pipeline declares now: "
        f"{differences or 'their order differs'}. Undo the "
        "change, or give the pipeline another name (it then starts a lineage of its own).",
        table=folder.name,
        differing=differing,
    )
