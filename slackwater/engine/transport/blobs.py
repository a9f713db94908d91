"""Arrow tables as binary values: (number of the range, one Arrow IPC stream), in pieces of bounded size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa

CHUNK_BYTES = 256 << 20


# The task compresses: the JVM, through which the blobs go, would take longer for it.
_IPC_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def to_blobs(
    tables: Iterable[tuple[int, pa.Table]], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[pa.RecordBatch]:
    """Record batches (number, data) of one row each; a table of more than `chunk_bytes` becomes several."""
    for number, table in tables:
        rows = max(1, table.num_rows * chunk_bytes // max(table.nbytes, 1))
        for start in range(0, max(table.num_rows, 1), rows):
            yield pa.record_batch(
                [pa.array([number], pa.int32()), _encode(table.slice(start, rows))], names=["number", "data"]
            )


def _encode(table: pa.Table) -> pa.Array:
    """One binary value that holds the table, without a copy of the stream that it is written to."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_IPC_OPTIONS) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, data.size], np.int32)), data]
    )


def from_blob(data: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


@dataclass(frozen=True)
class BlobFiles:
    """The blobs of one shuffle in files of `folder`, where all tasks run on one machine: only their places go
    through Spark's shuffle, on which way blobs would be copied some ten times, by the JVM most of all.
    """

    folder: str

    def send(self, tables: Iterable[tuple[int, pa.Table]], name: str) -> Iterator[pa.RecordBatch]:
        """Write tables with their range numbers into the file `name`, which is the task's alone, and yield
        record batches (number, data), `data` as `receive` takes it. A second try of a task takes the place of
        the first.
        """
        draft = Path(self.folder, f"{name}.{uuid4().hex}")
        with draft.open("xb") as file:
            for batch in to_blobs(tables):
                [blob] = batch.column("data")
                data = blob.as_buffer()
                place = f"{name} {file.tell()} {data.size}".encode()
                file.write(data)
                yield pa.record_batch([batch.column("number"), [place]], names=["number", "data"])
        draft.replace(Path(self.folder, name))

    def receive(self, place: pa.Buffer) -> pa.Table:
        name, offset, size = place.to_pybytes().decode().split()
        with pa.OSFile(str(Path(self.folder, name))) as file:
            file.seek(int(offset))
            return from_blob(file.read_buffer(int(size)))
