"""Blobs that tasks hand on in files, where all tasks run on one machine: through Spark's shuffle go their
places alone. The blobs themselves would be copied some ten times on that way, by the JVM most of all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from slackwater.jobs.engines.transport.table_blobs import from_blob, to_blobs


@dataclass(frozen=True)
class BlobFiles:
    """The blobs of one shuffle. `folder` is there as long as the shuffle lasts; its maker removes it."""

    folder: str

    def send(self, tables: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.RecordBatch]:
        """Write tables with their range numbers as blobs into a file of their own. Record batches (number,
        data) as of `to_blobs`, where `data` is what `receive` takes. Called by map tasks.

        Raises:
            OSError: the disk is full, or fails.
        """
        name = uuid4().hex
        with Path(self.folder, name).open("xb") as file:
            for batch in to_blobs(tables):
                [blob] = batch.column("data")
                data = blob.as_buffer()
                place = f"{name} {file.tell()} {data.size}".encode()
                file.write(data)
                yield pa.record_batch([batch.column("number"), [place]], names=["number", "data"])

    def receive(self, place: pa.Buffer) -> pa.Table:
        """The table that a value of `send` stands for. Called by range tasks."""
        name, offset, size = place.to_pybytes().decode().split()
        with pa.OSFile(str(Path(self.folder, name))) as file:
            file.seek(int(offset))
            return from_blob(file.read_buffer(int(size)))
