"""The views of a pipeline for other engines: Spark and polars read the same files as `slackwater sql`, and
give the same rows. Imports neither: Spark is the caller's session, polars is imported when it is asked for.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.view_sources import PUBLISHED, RUN_SEQ, ViewSource, ViewSources
from slackwater.tables.ledger.rows import MAIN
from slackwater.tables.stores import is_local

if TYPE_CHECKING:
    from polars import LazyFrame

__all__ = ["polars_views", "spark_views"]

_RUN_ID = "run_id"
_DAY = "window_date"
_SPARK_DAY = "coalesce(window_start, window_end - INTERVAL 1 MILLISECOND, timestamp)"
_LEDGER = ("runs", "attempts", "validations", "corrections", "overrides")
_SPARK_TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}


def polars_views(
    pipeline: str, warehouse: str | None = None, *, at: str | int = MAIN
) -> "dict[str, LazyFrame]":
    """The views of a pipeline as polars' lazy frames, by name: ``polars_views("departures")["late_live"]``.

    Args:
        warehouse: its folder or URI; None: SLACKWATER_WAREHOUSE, else ./warehouse.
        at: main, the seq of a ledger row, or a branch. `published` is only there as of main.

    Raises:
        NoRuns: the pipeline has never run here, or there is no such seq.
        UsageError: no run was committed yet, or there is no such branch.
        SnapshotGone: upkeep has dropped the snapshot.
    """
    return {name: _polars_frame(source) for name, source in _sources(pipeline, warehouse, str(at))}


def spark_views(
    spark: Any, pipeline: str, warehouse: str | None = None, *, at: str | int = MAIN
) -> list[str]:
    """Make the views of a pipeline temporary views of a Spark session, and return their names: then
    ``spark.sql("SELECT count(*) FROM late_live")``. Arguments and errors as for `polars_views`.
    """
    names = []
    for name, source in _sources(pipeline, warehouse, str(at)):
        _spark_frame(spark, source).createOrReplaceTempView(name)
        names.append(name)
    return names


def _sources(pipeline: str, warehouse: str | None, at: str) -> Iterator[tuple[str, ViewSource]]:
    """The views that have the rows that count, and the ledger, with their sources."""
    inspection = Inspection.of(pipeline, warehouse)
    row, sources = inspection.at(at), ViewSources(inspection)
    for name in sources.names:
        is_view = name.endswith(("_live", "_now")) or name in _LEDGER
        if is_view or (name == PUBLISHED and at == MAIN):
            yield name, sources.source(name, row)


def _parts(source: ViewSource) -> Iterator[tuple[list[str], str | None]]:
    """(paths, run_id) of the files of a view: per run_id where that is a partition column, which the files
    themselves lack; else all, and None.
    """
    folder = source.files.uri.removeprefix("file://").rstrip("/")
    paths = [f"{folder}/{path}" for path in source.files.paths]
    column = f"partition.{_RUN_ID}"
    if source.seqs is None or column not in source.files.actions.column_names:
        if paths:
            yield paths, None
        return
    run_ids = source.files.actions.column(column).cast(pa.string()).to_pylist()
    for run_id in source.seqs:
        paths_of_run = [path for path, owner in zip(paths, run_ids, strict=True) if owner == run_id]
        if paths_of_run:
            yield paths_of_run, run_id


def _stored_columns(source: ViewSource, run_id: str | None) -> list[pa.Field]:
    partitions = {
        name.removeprefix("partition.")
        for name in source.files.actions.column_names
        if name.startswith("partition.")
    }
    names = {*source.columns.names, *([_RUN_ID] if source.seqs is not None and run_id is None else [])}
    return [field for field in source.files.schema if field.name in names - partitions]


def _polars_frame(source: ViewSource) -> "LazyFrame":
    import polars as pl

    frames = []
    for paths, run_id in _parts(source):
        columns = pa.schema(_stored_columns(source, run_id))
        frame = pl.scan_parquet(
            paths,
            schema=pl.from_arrow(columns.empty_table()).schema,  # type: ignore[union-attr]
            glob=False,
            hive_partitioning=False,
            missing_columns="insert",
            extra_columns="ignore",
            cast_options=pl.ScanCastOptions(missing_struct_fields="insert", extra_struct_fields="ignore"),
        )
        if run_id is not None:
            frame = frame.with_columns(pl.lit(run_id).alias(_RUN_ID))
        frames.append(frame)
    if not frames:
        return pl.from_arrow(source.schema.empty_table()).lazy()  # type: ignore[union-attr]
    rows = pl.concat(frames)
    if source.seqs is not None:
        runs = pl.LazyFrame(
            {_RUN_ID: list(source.seqs), RUN_SEQ: list(source.seqs.values())},
            schema={_RUN_ID: pl.String, RUN_SEQ: pl.Int64},
        )
        own_names = {name: source.name_in_view(name) for name in source.columns.names}
        rows = rows.rename(own_names).join(runs, on=_RUN_ID)
    if _DAY in source.columns.names:
        last_instant = pl.col("window_end") - pl.duration(milliseconds=1)
        day = pl.coalesce("window_start", last_instant, "timestamp").dt.date()
        rows = rows.with_columns(day.alias(_DAY))
    return rows.select(source.schema.names)


def _spark_frame(spark: Any, source: ViewSource) -> Any:
    names = {name: source.name_in_view(name) for name in source.columns.names}
    frames = []
    for paths, run_id in _parts(source):
        columns = _stored_columns(source, run_id)
        frame = spark.read.schema(_spark_schema(columns)).parquet(*map(_spark_path, paths))
        frames.append(frame if run_id is None else frame.selectExpr("*", f"'{run_id}' AS {_RUN_ID}"))
    if not frames:
        return spark.createDataFrame([], _spark_schema(source.schema))
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    expressions = [
        f"to_date({_SPARK_DAY}) AS {_DAY}" if name == _DAY else f"`{name}` AS `{name_in_view}`"
        for name, name_in_view in names.items()
    ]
    if source.seqs is None:
        return rows.selectExpr(*expressions)
    runs = spark.createDataFrame(list(source.seqs.items()), f"{_RUN_ID} string, __run_seq bigint")
    live_rows = rows.join(runs.hint("broadcast"), _RUN_ID)
    return live_rows.selectExpr(f"__run_seq AS {RUN_SEQ}", *expressions)


def _spark_path(path: str) -> str:
    """The pattern of Hadoop's that matches `path` alone, with its scheme."""
    pattern = re.sub(r"([\\*?{}\[\]])", r"\\\1", path)
    return f"file:{pattern}" if is_local(path) else pattern


def _spark_schema(columns: Sequence[pa.Field] | pa.Schema) -> str:
    return ", ".join(f"`{column.name}` {_spark_type(column.type)}" for column in columns)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)},{_spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"`{field.name}`:{_spark_type(field.type)}" for field in kind) + ">"
    return _SPARK_TYPES[kind]
