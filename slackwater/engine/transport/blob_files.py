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
