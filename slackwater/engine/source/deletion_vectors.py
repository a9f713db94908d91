"""Deletion vectors of a Delta table: which files have one, by the log, and the rows that one hides.

delta-rs lists files without their deletion vectors, so the newest checkpoint and the commits after it are
read once more, from a checkpoint only two columns. The layouts follow Delta's protocol ("Deletion Vector
Format"): a vector is in the log itself, or in a file of the table's folder, which may hold many.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from slackwater.tables.delta.log_files import LOG, commit_path
from slackwater.tables.delta.parquet import damaged_file
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

# The column of a list of files that has their deletion vectors, as JSON.
VECTOR = "vector"
_MAGIC = (1681511377).to_bytes(4, "little")
_UUID_CHARACTERS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BASE85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85, _TO_Z85 = str.maketrans(_Z85, _BASE85), str.maketrans(_BASE85, _Z85)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.+\.)?(parquet|json)")
_FILES = ["add.path", "add.deletionVector"]


class DeletionVector(NamedTuple):
    """The deletion vector of one file, as the log describes it.

    Attributes:
        storage: ``u``: in a file of the table's folder; ``i``: inline; ``p``: in a file at an absolute path.
        place: the name of that file, or the vector itself; it begins at `offset` and has `bytes` bytes.
        rows: how many rows it hides.
    """

    storage: str
    place: str
    offset: int | None
    bytes: int
    rows: int

    @property
    def name(self) -> str:
        """Tells it from all others of the table."""
        return f"{self.storage}{self.place}@{self.offset}"

    @classmethod
    def hiding(cls, positions: Iterable[int]) -> "DeletionVector":
        """A vector that is in no log, for rows of a file that are not to be read."""
        from pyroaring import BitMap64  # few sources have deletion vectors

        bitmap = BitMap64(positions)
        content = _MAGIC + bitmap.serialize()
        return cls("i", _z85_of_bytes(content), None, len(content), len(bitmap))

    def to_json(self) -> str:
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> "DeletionVector":
        return cls(*json.loads(text))

    @classmethod
    def from_action(cls, action: dict[str, Any]) -> "DeletionVector | None":
        vector = action.get("deletionVector")
        if vector is None:
            return None
        return cls(
            storage=vector["storageType"],
            place=vector["pathOrInlineDv"],
            offset=vector.get("offset"),
            bytes=vector["sizeInBytes"],
            rows=vector["cardinality"],
        )


def vectors_at(uri: str, version: int) -> dict[str, DeletionVector]:
    """Path as in the log → the deletion vector of each file of a version that has one. Raises
    FileNotFoundError where the log has lost a commit that this takes.
    """
    folder = filesystem(uri)
    with reads(uri):
        infos = folder.get_file_info(pafs.FileSelector(LOG))
        matches = [
            (int(match[1]), info.path)
            for info in infos
            if info.size and (match := _CHECKPOINT.fullmatch(info.base_name)) and int(match[1]) <= version
        ]
        newest = max((number for number, _ in matches), default=-1)
        vectors: dict[str, DeletionVector] = {}
        for path in [path for number, path in matches if number == newest]:
            for action in _files_of_checkpoint(folder, path):
                if (vector := DeletionVector.from_action(action)) is not None:
                    vectors[action["path"]] = vector
        for number in range(newest + 1, version + 1):
            _play(vectors, _lines(folder, commit_path(number)))
    return vectors


def _play(vectors: dict[str, DeletionVector], actions: list[dict[str, Any]]) -> None:
    for action in actions:
        if "remove" in action:
            vectors.pop(action["remove"]["path"], None)
    for action in actions:
        if "add" in action and (vector := DeletionVector.from_action(action["add"])) is not None:
            vectors[action["add"]["path"]] = vector


def _files_of_checkpoint(folder: pafs.FileSystem, path: str) -> Iterator[dict[str, Any]]:
    """The files that one file of a checkpoint lists, itself or in its sidecars."""
    if path.endswith(".json"):
        lines = _lines(folder, path)
        files = [line["add"] for line in lines if "add" in line]
        sidecars = [line["sidecar"] for line in lines if "sidecar" in line]
    else:
        with folder.open_input_file(path) as data:
            checkpoint = pq.ParquetFile(data)
            names = set(checkpoint.schema_arrow.names) & {"add", "sidecar"}
            if not any(name.startswith("add.deletionVector") for name in _leaves(checkpoint)):
                names.discard("add")
            columns = [*(_FILES if "add" in names else ()), *(["sidecar"] if "sidecar" in names else ())]
            rows = checkpoint.read(columns)
        files, sidecars = (
            rows.column(name).drop_null().to_pylist() if name in names else [] for name in ("add", "sidecar")
        )
    yield from files
    for sidecar in sidecars:
        yield from _files_of_checkpoint(folder, f"{LOG}/_sidecars/{unquote(sidecar['path'])}")


def _leaves(checkpoint: pq.ParquetFile) -> list[str]:
    return [checkpoint.schema.column(number).path for number in range(len(checkpoint.schema))]


def _lines(folder: pafs.FileSystem, path: str) -> list[dict[str, Any]]:
    with folder.open_input_stream(path) as stream:
        return [json.loads(line) for line in stream.read().splitlines() if line.strip()]


@lru_cache(maxsize=256)  # each batch of a file asks for it
def hidden_rows(uri: str, vector: DeletionVector) -> npt.NDArray[np.int64]:
    """The ascending positions of the rows that `vector` hides. Raises DamagedFile, FileNotFoundError."""
    from pyroaring import BitMap64  # few sources have deletion vectors

    path = "the table's log" if vector.storage == "i" else _path_of(vector)
    data = (
        _bytes_of_z85(vector.place)[: vector.bytes] if vector.storage == "i" else _stored(uri, path, vector)
    )
    if data[:4] != _MAGIC:
        raise damaged_file(uri, path, "the deletion vector in it has no form that is known")
    positions = np.array(BitMap64.deserialize(data[4:]).to_array(), np.int64)
    if len(positions) != vector.rows:
        raise damaged_file(
            uri, path, f"the deletion vector in it hides {len(positions)} rows, and {vector.rows} by the log"
        )
    return positions


def _path_of(vector: DeletionVector) -> str:
    prefix, name = vector.place[:-_UUID_CHARACTERS], vector.place[-_UUID_CHARACTERS:]
    return f"{prefix}{'/' if prefix else ''}deletion_vector_{UUID(bytes=_bytes_of_z85(name))}.bin"


def _stored(uri: str, path: str, vector: DeletionVector) -> bytes:
    """The bytes of a vector in a file: behind their number, before their checksum."""
    with reads(f"{uri}/{path}"), filesystem(uri).open_input_file(path) as file:
        file.seek(vector.offset or 0)
        content = file.read(vector.bytes + 8)
    data = content[4:-4]
    is_whole = len(data) == vector.bytes == int.from_bytes(content[:4], "big")
    if not is_whole or zlib.crc32(data) != int.from_bytes(content[-4:], "big"):
        raise damaged_file(uri, path, "the deletion vector in it is not what was written (checksum)")
    return bytes(data)


def _bytes_of_z85(text: str) -> bytes:
    """The bytes of a text in Z85."""
    return base64.b85decode(text.translate(_FROM_Z85))


def _z85_of_bytes(data: bytes) -> str:
    """Bytes as a text in Z85, with zeros after them up to a multiple of four."""
    return base64.b85encode(data, pad=True).decode().translate(_TO_Z85)
