"""Parquet files of which every byte is checked when it is read: pages by the format's own checksums, the
footer by a seal.

The format has no checksum of the footer, which says where pages begin, of which types they are and which rows
a reader may skip: one bit there gives other rows, or a reader that never ends. So files are sealed as they
are written. The seal stands in the footer's key-value metadata, which other readers pass by, as 16
hexadecimal digits: the CRC-32 of all bytes before the footer, then that of the footer itself with zeros in
the place of the latter. A file's name may end with its seal: then no other file can take its place. Files of
other writers have no seal; of those the pages are checked that have a checksum.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from slackwater.jobs.tables.errors import DamagedFile

_KEY = b"slackwater.seal"
_BLANK = b"0" * 16
# In Thrift's compact protocol: the text that follows has 16 bytes.
_MARK = _KEY + b"\x18\x10"
# An entry that we never write: who reads our files with pyarrow and writes them again keeps metadata, and
# with them a seal of other bytes.
_OF_ANOTHER = b"ARROW:schema"
_NAMED = re.compile(r"-seal([0-9a-f]{16})\.parquet$")
_END = 8  # the footer's length and the format's name come last
_TAIL = 1 << 16
# Writers of delta-rs take bytes, which a stream's buffer makes of whatever is smaller than it.
_BUFFER = 1 << 20
_CHECKED = pads.ParquetFragmentScanOptions(page_checksum_verification=True)
# What Arrow raises where the contents of a file make no sense.
_SENSELESS = (OSError, pa.ArrowException, ValueError, KeyError, OverflowError, MemoryError)


class Damage(ValueError):
    """What is wrong with the contents of a file, for people to read."""


def file_format(**options: Any) -> pads.ParquetFileFormat:
    """How datasets read: checksums of pages are verified."""
    return pads.ParquetFileFormat(default_fragment_scan_options=_CHECKED, **options)


def output_stream(files: pafs.FileSystem, path: str) -> pa.NativeFile:
    """A new file for `SealedWriter`, or for what `sealed` gave."""
    return files.open_output_stream(path, buffer_size=_BUFFER)


class SealedWriter:
    """Writes one Parquet file and its seal.

    Args:
        sink: where to; it stays open.
        schema, options: as `pyarrow.parquet.ParquetWriter` has them.

    Attributes:
        size: bytes so far.
        seal: once it is closed.
    """

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, **options: Any) -> None:
        self._pass_on = _PassOn(sink)
        self._writer = pq.ParquetWriter(pa.PythonFile(self._pass_on, mode="w"), schema, **options)
        self._writer.add_key_value_metadata({_KEY.decode(): _BLANK.decode()})
        self.seal = ""

    @property
    def size(self) -> int:
        return self._pass_on.position

    def write(self, rows: pa.Table) -> None:
        """Write `rows` as row groups of their own."""
        self._writer.write_table(rows)

    def close(self) -> None:
        """Write the footer, sealed."""
        end = self._pass_on.hold_back()
        self._writer.close()
        start = len(end) - _END - int.from_bytes(end[-_END:-4], "little")
        place = end.rindex(_MARK) + len(_MARK)
        end[place : place + 8] = _digits(zlib.crc32(end[:start], self._pass_on.checksum))
        end[place + 8 : place + 16] = _digits(zlib.crc32(end[start:-_END]))
        self.seal = end[place : place + 16].decode()
        self._pass_on.let_go()


class _PassOn:
    """A file for Arrow that passes on what is written into it, until it is to hold back what comes last."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink = sink
        self._end: bytearray | None = None
        self.position = self.checksum = 0

    def write(self, data: Any) -> int:
        written = memoryview(data).cast("B")
        if self._end is None:
            self.checksum = zlib.crc32(written, self.checksum)
            self._write(written)
        else:
            self._end += written
        self.position += len(written)
        return len(written)

    def hold_back(self) -> bytearray:
        self._end = bytearray()
        return self._end

    def let_go(self) -> None:
        assert self._end is not None
        self._write(memoryview(self._end))

    def _write(self, data: memoryview) -> None:
        for start in range(0, len(data), _BUFFER - 1):
            self._sink.write(data[start : start + _BUFFER - 1])

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """The sink is its owner's to close."""


def write_sealed(files: pafs.FileSystem, path: str, rows: pa.Table, **options: Any) -> tuple[str, int]:
    """Write `rows` as a file named as `path` (which ends with .parquet) with its seal before the end; returns
    (its path, its bytes).
    """
    sink = pa.BufferOutputStream()
    writer = SealedWriter(sink, rows.schema, **options)
    writer.write(rows)
    writer.close()
    sealed = f"{path.removesuffix('.parquet')}-seal{writer.seal}.parquet"
    with output_stream(files, sealed) as stream:
        _PassOn(stream).write(sink.getvalue())
    return sealed, writer.size


def _digits(checksum: int) -> bytes:
    return b"%08x" % checksum


def is_sealed_by_name(path: str) -> bool:
    """Whether no other file can stand at `path` without being noticed."""
    return _NAMED.search(path) is not None


def metadata_of(data: pa.NativeFile, path: str) -> pq.FileMetaData:
    """The footer of the open file at `path`.

    Raises:
        Damage: it is not what was written, or another file's.
    """
    tail, _ = _checked_tail(data, path)
    return pq.read_metadata(pa.BufferReader(b"PAR1" + tail))


def _checked_tail(data: pa.NativeFile, path: str) -> tuple[bytes, str | None]:
    """(footer, its length and the format's name; the seal, if it has one)."""
    size = data.size()
    tail = data.read_at(min(size, _TAIL), max(0, size - _TAIL))
    length = int.from_bytes(tail[-_END:-4], "little") + _END
    if tail[-4:] != b"PAR1" or length > size:
        raise Damage("it does not end as a Parquet file does")
    if length > len(tail):
        tail = data.read_at(length, size - length)
    seal = _checked_seal(tail, len(tail) - length)
    named = _NAMED.search(path)
    if named is not None and named[1] != seal:
        raise Damage("it is not the file that was written under this name")
    return tail[len(tail) - length :], seal


def _checked_seal(tail: bytes, start: int) -> str | None:
    """The seal of a footer that begins at `start` of a file's last bytes; None where it has none."""
    found = tail.rfind(_MARK)
    if found < 0 or _OF_ANOTHER in tail[start:]:
        return None
    place = found + len(_MARK)
    seal = tail[place : place + 16]
    footer = tail[start : place + 8] + _BLANK[:8] + tail[place + 16 : -_END]
    if start > found or _digits(zlib.crc32(footer)) != seal[8:]:
        raise Damage("its footer is not what was written (checksum)")
    return seal.decode()


@contextmanager
def opened(
    uri: str, files: pafs.FileSystem, path: str, metadata: pq.FileMetaData | None = None, **options: Any
) -> Iterator[pq.ParquetFile]:
    """The file at `path` of the table at `uri`; what is read of it is verified. `metadata`: its own, if they
    were read before.

    Raises:
        DamagedFile: what stands there is not what was written.
        FileNotFoundError: nothing stands there.
    """
    with damage_told(uri, files, [path]), files.open_input_file(path) as data:
        known = metadata_of(data, path) if metadata is None else metadata
        yield pq.ParquetFile(data, metadata=known, page_checksum_verification=True, **options)


def whole_file(files: pafs.FileSystem, path: str) -> pa.Buffer:
    """The bytes of a file.

    Raises:
        Damage: not all of them are what was written.
    """
    with files.open_input_file(path) as data:
        content = data.read_buffer()
    _check_whole(pa.BufferReader(content), path)
    return content


def check_footer(files: pafs.FileSystem, path: str) -> None:
    """Raises Damage: the footer of the file is not what was written."""
    with files.open_input_file(path) as data:
        _checked_tail(data, path)


def _check_whole(data: pa.NativeFile, path: str) -> None:
    tail, seal = _checked_tail(data, path)
    if seal is None:
        return
    left, checksum = data.size() - len(tail), 0
    data.seek(0)
    while left:
        piece = data.read(min(left, _BUFFER))
        left, checksum = left - len(piece), zlib.crc32(piece, checksum)
    if _digits(checksum).decode() != seal[:8]:
        raise Damage("its contents are not what was written (checksum)")


def damage(files: pafs.FileSystem, path: str) -> str | None:
    """What is wrong with the contents of a file; None where nothing is. All of it is read.

    Raises:
        OSError: the file can't be read.
    """
    with files.open_input_file(path) as data:
        while data.read(_BUFFER):  # what fails here is not the contents
            pass
        try:
            _check_whole(data, path)
            parquet = pq.ParquetFile(data, metadata=metadata_of(data, path), page_checksum_verification=True)
            for group in range(parquet.num_row_groups):
                parquet.read_row_group(group, use_threads=False)
        except _SENSELESS as error:
            return " ".join(str(error).split()) or type(error).__name__
    return None


@contextmanager
def damage_told(uri: str, files: pafs.FileSystem, paths: Iterable[str]) -> Iterator[None]:
    """Where the block fails because of what stands in one of the files, DamagedFile says in which."""
    try:
        yield
    except FileNotFoundError:
        raise
    except _SENSELESS as error:
        for path in paths:
            wrong = damage(files, path)
            if wrong is not None:
                raise damaged(uri, path, wrong) from error
        raise


_TOLD = re.compile(r"DamagedFile: (.+): the file (.+?) is damaged: (.+)")


def damaged_as_told(text: str) -> DamagedFile | None:
    """The error that a task has told as `text`; None where it is another."""
    told = _TOLD.search(text)
    return None if told is None else damaged(*told.groups())


def damaged(uri: str, path: str, wrong: str) -> DamagedFile:
    """The error of one file; who knows whose it is adds how to go on."""
    return DamagedFile(f"{uri}: the file {path} is damaged: {wrong}", uri=uri, path=path, wrong=wrong)
