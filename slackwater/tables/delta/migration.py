"""Gives a table of an earlier format today's partition columns: writes all its rows anew in one commit.

Format 1 kept panes, late rows, quarantine and side outputs in one partition a run, so that no file could hold
the rows of two runs. A reader sees the table either before or after the commit, and can read both layouts. Of
two processes at once one commits, and the other then sees today's partition columns. A process that dies
leaves files that no version names, and the next writing command begins anew. As in format 1, the files have
no page checksums.
"""

import logging
from dataclasses import replace

import pyarrow as pa

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.errors import CommitConflict

log = logging.getLogger("slackwater")

_ROWS_AT_ONCE = 1 << 17


def is_partitioned_otherwise(folder: Folder) -> bool:
    """Whether the table exists and has other partition columns than `folder` says."""
    table = folder.find()
    return table is not None and table.partition_columns != folder.partition_by


def repartition(folder: Folder) -> None:
    """Write the table anew as `folder` partitions it; does nothing where it is partitioned so already."""
    while True:
        table = folder.find()
        if table is None:
            return
        columns = table.partition_columns
        if columns == folder.partition_by:
            return
        try:
            folder.overwrite(table, _rows_in_order(folder, table, columns))
        except CommitConflict:
            continue
        log.info(
            f"{folder.uri}: written anew, because an earlier format had partitioned it by "
            f"{', '.join(columns)}"
        )
        return


def _rows_in_order(folder: Folder, table: OpenTable, columns: tuple[str, ...]) -> pa.RecordBatchReader:
    """All rows of the table, partition after partition, so that files of a large one have narrow bounds. Few
    rows are held at once.
    """
    schema = table.schema
    files = replace(folder.files(table=table), schema=schema)
    if files.actions.num_rows:
        files = replace(
            files, actions=files.actions.sort_by([(f"partition.{name}", "ascending") for name in columns])
        )
    parts = files.scan(schema.names, None, _ROWS_AT_ONCE)
    return pa.RecordBatchReader.from_batches(
        schema, (batch for part in parts for batch in part.cast(schema).to_batches())
    )
