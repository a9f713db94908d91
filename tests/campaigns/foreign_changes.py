"""What other tools do to a Delta table, each as an administrator or a notebook may do it: features and
properties, rows that are deleted, put back, doubled or written anew, columns that are added or renamed, files
that are merged, sorted and deleted.

Knows no verb. Changes of delta-rs, DuckDB and polars need no JVM; those of Spark are called with its session.
"""

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Change = Callable[[Path], object]
_LOG = "_delta_log"
_DAY = "arrival_time"


class Protocol(NamedTuple):
    """A protocol by its reader and writer versions and its features."""

    reader: int
    writer: int
    features_of_readers_and_writers: tuple[str, ...] = ()
    features_of_writers: tuple[str, ...] = ()

    def action(self) -> dict[str, Any]:
        features: dict[str, Any] = {}
        if self.reader == 3:
            features["readerFeatures"] = list(self.features_of_readers_and_writers)
        if self.writer == 7:
            features["writerFeatures"] = [*self.features_of_readers_and_writers, *self.features_of_writers]
        return {"protocol": {"minReaderVersion": self.reader, "minWriterVersion": self.writer, **features}}


def log_metadata(table: Path) -> dict[str, Any]:
    """The newest metaData action of a log that has all of its commits."""
    lines = (line for file in sorted((table / _LOG).glob("*.json")) for line in file.read_text().splitlines())
    actions = [json.loads(line) for line in lines if '"metaData"' in line]
    return dict(actions[-1]["metaData"])


def commit(table: Path, *actions: dict[str, Any], operation: str = "SET TBLPROPERTIES") -> None:
    """The next commit of a log, as another writer writes it."""
    version = DeltaTable(table).version() + 1
    info = {"commitInfo": {"operation": operation, "engineInfo": "another/1.0"}}
    path = table / _LOG / f"{version:020d}.json"
    path.write_text("\n".join(map(json.dumps, [info, *actions])))


def give_feature(protocol: Protocol, **properties: str) -> Change:
    """Give a table a protocol and properties."""

    def change(table: Path) -> None:
        metadata = log_metadata(table)
        configuration = {
            **metadata["configuration"],
            **{f"delta.{name}": value for name, value in properties.items()},
        }
        commit(table, protocol.action(), {"metaData": {**metadata, "configuration": configuration}})

    return change


def set_property(**properties: str) -> Change:
    return lambda table: DeltaTable(table).alter.set_table_properties(
        {f"delta.{name}": value for name, value in properties.items()}, raise_if_not_exists=False
    )


def map_and_rename_last_column(table: Path) -> None:
    """Turn column mapping on and give the last column another name, as Spark does."""
    metadata = log_metadata(table)
    schema = json.loads(metadata["schemaString"])
    for number, column in enumerate(schema["fields"], 1):
        facts = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": column["name"]}
        column["metadata"] = {**column.get("metadata", {}), **facts}
    schema["fields"][-1]["name"] = "renamed"
    configuration = {
        **metadata["configuration"],
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": str(len(schema["fields"])),
    }
    renamed = {**metadata, "schemaString": json.dumps(schema), "configuration": configuration}
    commit(table, Protocol(2, 5).action(), {"metaData": renamed}, operation="RENAME COLUMN")


def rows_of(table: Path) -> pa.Table:
    return DeltaTable(table).to_pyarrow_table()


def append_nulls(table: Path) -> None:
    """Append a row of nulls."""
    schema = rows_of(table).schema
    nulls = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    write_deltalake(table, nulls, mode="append")


def append_again(table: Path) -> None:
    """Append all rows once more."""
    write_deltalake(table, rows_of(table), mode="append")


def delete_all(table: Path) -> None:
    DeltaTable(table).delete()


def delete_one_file(table: Path) -> None:
    """Take one file's rows out."""
    [path, *_] = DeltaTable(table).to_pyarrow_dataset().files
    delta = DeltaTable(table)
    adds = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    removed_file = next(add for add in adds if path.endswith(add["path"].rsplit("/", 1)[-1]))
    partition = {
        name.removeprefix("partition."): str(value)
        for name, value in removed_file.items()
        if name.startswith("partition.")
    }
    remove = {
        "path": removed_file["path"],
        "dataChange": True,
        "deletionTimestamp": 1,
        "partitionValues": partition,
    }
    commit(table, {"remove": remove}, operation="DELETE")


def restore_one_version(table: Path) -> None:
    delta = DeltaTable(table)
    delta.restore(max(0, delta.version() - 1))


def restore_to_first_version(table: Path) -> None:
    DeltaTable(table).restore(0)


def overwrite_unpartitioned(table: Path) -> None:
    """Write the same rows anew without partitions."""
    rows = rows_of(table)
    write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", partition_by=[])


def overwrite_by_polars(table: Path) -> None:
    """Write the same rows anew with polars."""
    pl.read_delta(str(table)).write_delta(table, mode="overwrite")


def append_by_polars(table: Path) -> None:
    """Append one row once more with polars."""
    pl.read_delta(str(table)).head(1).write_delta(table, mode="append")


def overwrite_by_duckdb(table: Path) -> None:
    """Write a query of DuckDB over the rows into the table."""
    rows = rows_of(table)
    with duckdb.connect() as connection:
        connection.register("stored_rows", rows)
        first_half = connection.sql(f"FROM stored_rows LIMIT {max(1, rows.num_rows // 2)}").to_arrow_table()
    write_deltalake(table, first_half.cast(rows.schema), mode="overwrite")


def leave_a_file_of_duckdb(table: Path) -> None:
    """Leave a Parquet file with the same rows in the folder, which no commit names."""
    with duckdb.connect() as connection:
        connection.register("stored_rows", rows_of(table))
        connection.sql(f"COPY (FROM stored_rows) TO '{table}/part-{uuid.uuid4().hex}.parquet'")


def leave_a_file_of_polars(table: Path) -> None:
    pl.read_delta(str(table)).write_parquet(table / f"part-{uuid.uuid4().hex}.parquet")


def add_column(table: Path) -> None:
    DeltaTable(table).alter.add_columns([Field("note_of_others", "string")])


def sort_by_first_column(table: Path) -> None:
    """Z-order by the first column that is no partition column."""
    delta = DeltaTable(table)
    partition_columns = delta.metadata().partition_columns
    name = next(field.name for field in delta.schema().fields if field.name not in partition_columns)
    delta.optimize.z_order([name])


def vacuum_everything(table: Path) -> None:
    delta = DeltaTable(table)
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


def optimize_and_vacuum(table: Path) -> None:
    DeltaTable(table).optimize.compact()
    vacuum_everything(table)


def checkpoint_behind(change: Change) -> Change:
    """The change, and a checkpoint of the version that it has made."""

    def change_and_checkpoint(table: Path) -> None:
        change(table)
        DeltaTable(table).create_checkpoint()

    return change_and_checkpoint


FEATURES: dict[str, Change] = {
    "deletion vectors": give_feature(Protocol(3, 7, ("deletionVectors",)), enableDeletionVectors="true"),
    "row tracking": give_feature(
        Protocol(1, 7, (), ("rowTracking", "domainMetadata")), enableRowTracking="true"
    ),
    "in-commit timestamps": give_feature(
        Protocol(1, 7, (), ("inCommitTimestamp",)), enableInCommitTimestamps="true"
    ),
    "type widening": give_feature(Protocol(3, 7, ("typeWidening",)), enableTypeWidening="true"),
    "v2 checkpoints": give_feature(Protocol(3, 7, ("v2Checkpoint",)), checkpointPolicy="v2"),
    "clustering": give_feature(Protocol(1, 7, (), ("clustering", "domainMetadata"))),
    "vacuum protocol check": give_feature(Protocol(3, 7, ("vacuumProtocolCheck",))),
    "checkpoint protection": give_feature(Protocol(1, 7, (), ("checkpointProtection",))),
    "a feature of tomorrow": give_feature(Protocol(3, 7, ("ofTomorrow",))),
    "column mapping and a rename": map_and_rename_last_column,
    "append only": set_property(appendOnly="true"),
    "a constraint": give_feature(Protocol(1, 3), **{"constraints.never": "1 = 2"}),
    "change data feed": give_feature(
        Protocol(1, 7, (), ("appendOnly", "invariants", "changeDataFeed")), enableChangeDataFeed="true"
    ),
}
PROPERTIES: dict[str, Change] = {
    "no statistics": set_property(dataSkippingNumIndexedCols="0"),
    "no statistics in a checkpoint": checkpoint_behind(set_property(dataSkippingNumIndexedCols="0")),
    "statistics of one column": set_property(dataSkippingStatsColumns="run_id"),
    "a checkpoint for each commit": set_property(checkpointInterval="1"),
    "a log of no retention": set_property(logRetentionDuration="interval 0 hours"),
    "files of no retention": set_property(deletedFileRetentionDuration="interval 0 hours"),
}
ROWS: dict[str, Change] = {
    "a row of nulls": append_nulls,
    "all rows doubled": append_again,
    "all rows deleted": delete_all,
    "a file deleted": delete_one_file,
    "a file deleted before a checkpoint": checkpoint_behind(delete_one_file),
    "restored by one version": restore_one_version,
    "restored to the first version": restore_to_first_version,
    "written anew without partitions": overwrite_unpartitioned,
    "written anew by polars": overwrite_by_polars,
    "a row of polars": append_by_polars,
    "half of it by DuckDB": overwrite_by_duckdb,
    "a column added": add_column,
}
FILES: dict[str, Change] = {
    "OPTIMIZE": lambda table: DeltaTable(table).optimize.compact(),
    "ZORDER": sort_by_first_column,
    "VACUUM 0": vacuum_everything,
    "OPTIMIZE and VACUUM 0": optimize_and_vacuum,
    "a checkpoint": lambda table: DeltaTable(table).create_checkpoint(),
    "a file of DuckDB in the folder": leave_a_file_of_duckdb,
    "a file of polars in the folder": leave_a_file_of_polars,
}
CHANGES: dict[str, Change] = {**FEATURES, **PROPERTIES, **ROWS, **FILES}

_ROWS_KEPT = {
    "a column added",
    "written anew without partitions",
    "written anew by polars",
}
_ROWS_CHANGED_BY_SPARK = {
    "Spark: deletion vectors and a DELETE",
    "Spark: a DELETE",
    "Spark: an UPDATE",
    "Spark: an INSERT",
    "Spark: RESTORE",
}


def changes_rows(name: str) -> bool:
    """Whether the table has other rows after a change: of a source, others are to be read then."""
    return name in _ROWS_CHANGED_BY_SPARK or (name in ROWS and name not in _ROWS_KEPT)


_SPARK_ON_ROWS = re.compile("DELETE|UPDATE|INSERT|RESTORE|COLUMN|anew")
_SPARK_ON_FILES = re.compile("OPTIMIZE|VACUUM")


def kind_of(name: str) -> str:
    """What a change is counted under."""
    kinds = {"features": FEATURES, "properties": PROPERTIES, "rows and columns": ROWS, "files": FILES}
    kind = next((kind for kind, changes in kinds.items() if name in changes), None)
    if kind is not None:
        return f"delta-rs, DuckDB, polars: {kind}"
    is_on_rows, is_on_files = _SPARK_ON_ROWS.search(name), _SPARK_ON_FILES.search(name)
    kind = "rows and columns" if is_on_rows else "files" if is_on_files else "features and properties"
    return f"Spark: {kind}"


# Statements of Spark over the table `t`; `{key}` is a column of texts, `{last}` the last one.
_SPARK_STATEMENTS: dict[str, tuple[str, ...]] = {
    "deletion vectors and a DELETE": (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM {t} WHERE pmod(hash({key}), 2) = 0",
    ),
    "a DELETE": ("DELETE FROM {t} WHERE pmod(hash({key}), 2) = 0",),
    "an UPDATE": ("UPDATE {t} SET {key} = concat({key}, '!')",),
    "an INSERT": ("INSERT INTO {t} SELECT * FROM {t} LIMIT 1",),
    "column mapping and RENAME": (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN {last} TO renamed",
    ),
    "ADD COLUMNS": ("ALTER TABLE {t} ADD COLUMNS (note_of_others STRING)",),
    "row tracking": ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",),
    "in-commit timestamps": (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    ),
    "change data feed": ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",),
    "append only": ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')",),
    "a constraint": ("ALTER TABLE {t} ADD CONSTRAINT here CHECK ({key} IS NULL OR {key} <> '')",),
    "NOT NULL": ("ALTER TABLE {t} ADD CONSTRAINT here CHECK ({last} IS NULL OR {last} IS NOT NULL)",),
    "type widening": ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",),
    "no statistics": ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')",),
    "v2 checkpoints": ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",),
    "CLUSTER BY": ("ALTER TABLE {t} CLUSTER BY ({key})",),
    "RESTORE": ("RESTORE TABLE {t} TO VERSION AS OF {before}",),
    "OPTIMIZE": ("OPTIMIZE {t}",),
    "OPTIMIZE ZORDER": ("OPTIMIZE {t} ZORDER BY ({key})",),
    "VACUUM 0": ("VACUUM {t} RETAIN 0 HOURS",),
    "OPTIMIZE and VACUUM 0": ("OPTIMIZE {t}", "VACUUM {t} RETAIN 0 HOURS"),
    "a comment": ("COMMENT ON TABLE {t} IS 'watched by others'",),
    "a dropped feature": (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
        "ALTER TABLE {t} DROP FEATURE deletionVectors",
    ),
}


def of_spark(spark: "SparkSession") -> dict[str, Change]:
    """What Spark does to a table."""

    def run(statements: tuple[str, ...]) -> Change:
        def change(table: Path) -> None:
            delta = DeltaTable(table)
            partition_columns = delta.metadata().partition_columns
            names = [field.name for field in delta.schema().fields if field.name not in partition_columns]
            texts = {
                field.name for field in delta.schema().fields if str(field.type) == 'PrimitiveType("string")'
            }
            key = next((name for name in names if name in texts), names[0])
            before = max(0, delta.version() - 1)
            for statement in statements:
                spark.sql(statement.format(t=f"delta.`{table}`", key=key, last=names[-1], before=before))

        return change

    def overwrite(table: Path) -> None:
        rows = spark.read.format("delta").load(str(table))
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(str(table))

    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    changes = {name: run(statements) for name, statements in _SPARK_STATEMENTS.items()}
    return {**changes, "written anew without partitions": overwrite}
