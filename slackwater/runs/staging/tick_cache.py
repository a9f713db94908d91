"""A cache of the watermark pass: when a try at a slice fails, the ticks of its pass are stored, and the next
try reads them instead of the source.

The cache is one small file in the pipeline's folder, outside of its tables, and begins with a digest of all
that its ticks depend on. A file that is incomplete, or of other rows or other rules, counts as absent. This
module stores the maxima of ticks and computes no watermark.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress
from slackwater.engine.rows.tick_pass import is_large, merged_parts, tick_maxima
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.pipelines.registry import product_version
from slackwater.tables.delta.written_files import encoding
from slackwater.tables.ledger.attempts import Attempt
from slackwater.tables.storage_errors import reason
from slackwater.tables.stores import filesystem
from slackwater.tables.warehouse import Tables

log = logging.getLogger("slackwater")

FILE = "_ticks"
_DIGEST_BYTES = hashlib.sha256().digest_size


class TickCache:
    """The watermark pass of one try, see `slackwater.engine.rows.tick_pass.Maxima`: reads the ticks
    that an earlier try has stored, or else makes the pass.

    Args:
        tables: the pipeline's tables.
        attempt: the try. The first try at a slice does not look for a file.
    """

    def __init__(self, tables: Tables, attempt: Attempt) -> None:
        self._folder, self._attempt = _folder(tables), attempt
        self._pass: tuple[SliceScan, Judge, Progress, Sequence[pa.Table]] | None = None

    def __call__(
        self, transport: Transport, scan: SliceScan, judge: Judge, before: Progress
    ) -> Sequence[pa.Table]:
        ticks = _read(self._folder, scan, judge, before) if self._attempt.attempt > 1 else None
        if ticks is not None:
            facts = {
                "pipeline": judge.pipeline.name,
                "run_id": self._attempt.run_id,
                "attempt": self._attempt.attempt,
            }
            log.info("ticks are known from an earlier try", extra=facts)
            return [ticks]
        parts = tick_maxima(transport, scan, judge, before)
        self._pass = scan, judge, before, parts
        return parts

    def keep_ticks(self) -> None:
        """Write the ticks of the pass that this try has made, if it has made one. Where they can't be
        written, the next try makes its own pass.
        """
        if self._pass is None:
            return
        scan, judge, before, parts = self._pass
        table, sink = merged_parts(parts, judge.pipeline.watermarks), pa.BufferOutputStream()
        times = [field.name for field in table.schema if pa.types.is_int64(field.type)]
        pq.write_table(table, sink, **encoding(times, table.schema))
        body = sink.getvalue().to_pybytes()
        content = _digest(scan, judge, before, body) + body
        try:
            # In one piece, and through a buffer: delta-rs's file systems take bytes, and an unbuffered stream
            # would hand them a pyarrow.Buffer.
            with self._folder.open_output_stream(FILE, buffer_size=len(content) + 1) as file:
                file.write(content)
        except (OSError, DeltaError) as error:
            log.warning(
                f"ticks are not kept: {reason(error)}",
                extra={"pipeline": judge.pipeline.name, "run_id": self._attempt.run_id},
            )


def drop_ticks(tables: Tables) -> None:
    """Remove the ticks that an earlier try has stored. Called once its slice is committed."""
    folder = _folder(tables)
    # The commit stands, and nobody reads the file any more: another process may have deleted it first, or the
    # folder may not be writable now.
    with suppress(OSError, DeltaError):
        if _is_there(folder):
            folder.delete_file(FILE)


def _folder(tables: Tables) -> pafs.FileSystem:
    return filesystem(tables["attempts"].uri.rpartition("/")[0])


def _is_there(folder: pafs.FileSystem) -> bool:
    return bool(folder.get_file_info(FILE).type is pafs.FileType.File)


def _read(folder: pafs.FileSystem, scan: SliceScan, judge: Judge, before: Progress) -> pa.Table | None:
    """The stored ticks of exactly this pass; None where there are none."""
    try:
        if not _is_there(folder):
            return None
        with folder.open_input_stream(FILE) as file:
            content = file.read()
    except (OSError, DeltaError):
        return None
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return (
        pq.read_table(pa.BufferReader(body), page_checksum_verification=True)
        if digest == _digest(scan, judge, before, body)
        else None
    )


def _digest(scan: SliceScan, judge: Judge, before: Progress, body: bytes) -> bytes:
    """SHA-256 over all that the result of the pass depends on, and over the result.

    Left out are the expectations, because they judge what a replay has left, and of a small slice the
    parent's progress `before`, because it is added to the maxima afterwards.
    """
    progress = before.to_table("").to_pylist() if is_large(scan) else None
    of_sources = [
        (
            [
                None if table is None else (table.uri, table.table_id, table.version)
                for table in (part.source, part.before)
            ],
            part.files,
            part.newer_reads,
        )
        for part in scan.parts
    ]
    rows = (of_sources, scan.overrides, scan.from_ms, scan.to_ms, scan.start_ms)
    rules = {name: value for name, value in judge.pipeline.describe().items() if name != "expect"}
    key = repr((product_version(), rows, progress, json.dumps(rules, sort_keys=True)))
    return hashlib.sha256(b"\0".join((key.encode(), body))).digest()
