"""Blobs that tasks hand on in files, where all tasks run on one machine: through Spark's shuffle go their
places alone. The blobs themselves would be copied some ten times on that way, by the JVM most of all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from slackwater.engine.transport.table_blobs import from_blob, to_blobs


@dataclass(frozen=True)
class BlobFiles:
    """The blobs of one shuffle. `folder` is there as long as the shuffle lasts; its maker removes it."""

    folder: str

    def send(self, tables: Iterable[tuple[int, pa.Table]], name: str) -> Iterator[pa.RecordBatch]:
        """Write tables with their range numbers as blobs into the file `name`, which is the task's alone.
        Record batches (number, data) as of `to_blobs`, where `data` is what `receive` takes. Called by map
        tasks; a second try of a task gives what the first gave, and puts its file in the place of that one's.

        Raises:
            OSError: the disk is full, or fails.
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
        """The table that a value of `send` stands for. Called by range tasks."""
        name, offset, size = place.to_pybytes().decode().split()
        with pa.OSFile(str(Path(self.folder, name))) as file:
            file.seek(int(offset))
            return from_blob(file.read_buffer(int(size)))
