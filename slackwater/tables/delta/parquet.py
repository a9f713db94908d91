"""Parquet files in which every byte is checked on reading: pages by the format's checksums, the footer by a
seal.

The format has no checksum for the footer; one wrong bit there gives other rows, or a reader that never ends.
The seal is an entry of the footer's key-value metadata, which other readers ignore. It has 16 hexadecimal
digits: the CRC-32 of all bytes before the footer (the body), then the CRC-32 of the footer with these last
eight digits as zeros.

    PAR1 │ pages … │ footer: … "slackwater.seal": bbbbbbbbffffffff … │ length of the footer │ PAR1
    └── body: b ──┘ └────────────── f, with 00000000 for f ────────┘

A file's name may end with its seal: then no other file can take its place. Files of other writers have no
seal: only their pages are checked, where they have checksums.
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

from slackwater.errors import out_of_memory
from slackwater.tables.errors import DamagedFile

_KEY = b"slackwater.seal"
_BLANK = b"0" * 16
# In Thrift's compact protocol: the text that follows has 16 bytes.
_MARK = _KEY + b"\x18\x10"
# A metadata entry that we never write. pyarrow, when it reads our files and writes them again, keeps our
# seal, which is then of other bytes; but it adds this entry.
_ENTRY_OF_OTHER_WRITERS = b"ARROW:schema"
_SEAL_IN_NAME = re.compile(r"-seal([0-9a-f]{16})\.parquet$")
_END_BYTES = 8  # the footer's length and the format's name come last
_TAIL_BYTES = 1 << 16
# delta-rs takes only `bytes`. A buffered stream makes `bytes` of pieces that are smaller than its buffer.
_BUFFER_BYTES = 1 << 20
_CHECKED_PAGES = pads.ParquetFragmentScanOptions(page_checksum_verification=True)
# What Arrow raises where the contents of a file are no valid Parquet.
_ERRORS_OF_CONTENTS = (OSError, pa.ArrowException, ValueError, KeyError, OverflowError, MemoryError)


class Damage(ValueError):
    """What is wrong with the contents of a file, for people to read."""


def file_format(**options: Any) -> pads.ParquetFileFormat:
    return pads.ParquetFileFormat(default_fragment_scan_options=_CHECKED_PAGES, **options)


def output_stream(files: pafs.FileSystem, path: str) -> pa.NativeFile:
    return files.open_output_stream(path, buffer_size=_BUFFER_BYTES)


class SealedWriter:
    """Writes one Parquet file and its seal into `sink`, which stays open; `options` as for
    `pyarrow.parquet.ParquetWriter`. `seal` is empty until the writer is closed.
    """

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, **options: Any) -> None:
        self._file = _ForwardingFile(sink)
        self._writer = pq.ParquetWriter(pa.PythonFile(self._file, mode="w"), schema, **options)
        self._writer.add_key_value_metadata({_KEY.decode(): _BLANK.decode()})
        self.seal = ""

    @property
    def size(self) -> int:
        return self._file.position

    def write(self, rows: pa.Table) -> None:
        """Write `rows` as row groups of their own."""
        self._writer.write_table(rows)

    def close(self) -> None:
        end = self._file.hold_back_footer()
        self._writer.close()
        start = len(end) - _END_BYTES - int.from_bytes(end[-_END_BYTES:-4], "little")
        place = end.rindex(_MARK) + len(_MARK)
        end[place : place + 8] = _digits(zlib.crc32(end[:start], self._file.checksum))
        end[place + 8 : place + 16] = _digits(zlib.crc32(end[start:-_END_BYTES]))
        self.seal = end[place : place + 16].decode()
        self._file.forward_footer()


class _ForwardingFile:
    """A file object for Arrow that forwards bytes to a sink until `hold_back_footer`, and collects them
    afterwards, so that the seal can be set. `checksum` is the CRC-32 of the bytes forwarded.
    """

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink = sink
        self._footer: bytearray | None = None
        self.position = self.checksum = 0

    def write(self, data: Any) -> int:
        content = memoryview(data).cast("B")
        if self._footer is None:
            self.checksum = zlib.crc32(content, self.checksum)
            self._write(content)
        else:
            self._footer += content
        self.position += len(content)
        return len(content)

    def hold_back_footer(self) -> bytearray:
        """Collect bytes from now on, in the buffer that is returned."""
        self._footer = bytearray()
        return self._footer

    def forward_footer(self) -> None:
        assert self._footer is not None
        self._write(memoryview(self._footer))

    def _write(self, data: memoryview) -> None:
        for start in range(0, len(data), _BUFFER_BYTES - 1):
            self._sink.write(data[start : start + _BUFFER_BYTES - 1])

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The sink's owner closes it."""


def write_sealed(files: pafs.FileSystem, path: str, rows: pa.Table, **options: Any) -> tuple[str, int]:
    """Write `rows` as one file at `path`, with the seal before ``.parquet``. Returns (its path, bytes)."""
    sink = pa.BufferOutputStream()
    writer = SealedWriter(sink, rows.schema, **options)
    writer.write(rows)
    writer.close()
    sealed_path = f"{path.removesuffix('.parquet')}-seal{writer.seal}.parquet"
    with output_stream(files, sealed_path) as stream:
        _ForwardingFile(stream).write(sink.getvalue())
    return sealed_path, writer.size


def _digits(checksum: int) -> bytes:
    return b"%08x" % checksum


def is_sealed_by_name(path: str) -> bool:
    """Whether a file's name has its seal, so that another file in its place is noticed."""
    return _SEAL_IN_NAME.search(path) is not None


def metadata_of(data: pa.NativeFile, path: str) -> pq.FileMetaData:
    """The footer of the open file at `path`. Raises Damage: it was changed, or is another file's."""
    tail, _ = _checked_tail(data, path)
    return pq.read_metadata(pa.BufferReader(b"PAR1" + tail))


def _checked_tail(data: pa.NativeFile, path: str) -> tuple[bytes, str | None]:
    """(the footer up to the file's end, the seal or None for a file without one)."""
    size = data.size()
    tail = data.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    length = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
    if tail[-4:] != b"PAR1" or length > size:
        raise Damage("it does not end as a Parquet file does")
    if length > len(tail):
        tail = data.read_at(length, size - length)
    seal = _checked_seal(tail, len(tail) - length)
    seal_in_name = _SEAL_IN_NAME.search(path)
    if seal_in_name is not None and seal_in_name[1] != seal:
        raise Damage("it is not the file that was written under this name")
    return tail[len(tail) - length :], seal


def _checked_seal(tail: bytes, start: int) -> str | None:
    """The seal in the footer, which begins at `start` of `tail`, the last bytes of a file; else None."""
    mark = tail.rfind(_MARK)
    if mark < 0 or _ENTRY_OF_OTHER_WRITERS in tail[start:]:
        return None
    place = mark + len(_MARK)
    seal = tail[place : place + 16]
    footer = tail[start : place + 8] + _BLANK[:8] + tail[place + 16 : -_END_BYTES]
    if start > mark or _digits(zlib.crc32(footer)) != seal[8:]:
        raise Damage("its footer is not what was written (checksum)")
    return seal.decode()


@contextmanager
def open_verified(
    uri: str, files: pafs.FileSystem, path: str, metadata: pq.FileMetaData | None = None, **options: Any
) -> Iterator[pq.ParquetFile]:
    """The file at `path` of the table at `uri`; checksums verify what is read. `metadata` is the file's
    footer, where `metadata_of` has read it.

    Raises:
        DamagedFile: the file's contents were changed.
        FileNotFoundError: there is no file at `path`.
    """
    with naming_damaged_file(uri, files, [path]), files.open_input_file(path) as data:
        footer = metadata_of(data, path) if metadata is None else metadata
        yield pq.ParquetFile(data, metadata=footer, page_checksum_verification=True, **options)


def read_small_file(uri: str, files: pafs.FileSystem, path: str) -> pa.Table:
    """All rows of a file of the table at `uri`, by one request to storage. Raises DamagedFile,
    FileNotFoundError: see `open_verified`.
    """
    with naming_damaged_file(uri, files, [path]):
        content = pa.BufferReader(checked_bytes(files, path))
        return pq.ParquetFile(content, page_checksum_verification=True).read(use_threads=False)


def checked_bytes(files: pafs.FileSystem, path: str) -> pa.Buffer:
    """All bytes of a file, compared with its seal. Raises Damage: they were changed."""
    with files.open_input_file(path) as data:
        content = data.read_buffer()
    _check_contents(pa.BufferReader(content), path)
    return content


def check_footer(files: pafs.FileSystem, path: str) -> int:
    """Check a file's footer; returns the file's size in bytes. Raises Damage: it was changed."""
    with files.open_input_file(path) as data:
        _checked_tail(data, path)
        return int(data.size())


def check_contents(files: pafs.FileSystem, path: str) -> int:
    """Check all of a file for a reader that checks nothing, by its seal or else by its pages' checksums;
    returns its size in bytes. Raises Damage or any error of Arrow: the contents were changed.
    """
    with files.open_input_file(path) as data:
        if not _check_contents(data, path):
            _check_pages(data, path)
        return int(data.size())


def _check_contents(data: pa.NativeFile, path: str) -> bool:
    """Compare the bytes of an open file with its seal; False where it has none."""
    tail, seal = _checked_tail(data, path)
    if seal is None:
        return False
    bytes_left, checksum = data.size() - len(tail), 0
    data.seek(0)
    while bytes_left:
        piece = data.read(min(bytes_left, _BUFFER_BYTES))
        bytes_left, checksum = bytes_left - len(piece), zlib.crc32(piece, checksum)
    if _digits(checksum).decode() != seal[:8]:
        raise Damage("its contents are not what was written (checksum)")
    return True


def _check_pages(data: pa.NativeFile, path: str) -> None:
    parquet = pq.ParquetFile(data, metadata=metadata_of(data, path), page_checksum_verification=True)
    for group in range(parquet.num_row_groups):
        parquet.read_row_group(group, use_threads=False)


def damage(files: pafs.FileSystem, path: str) -> str | None:
    """What is wrong with a file, which is read completely; None: nothing. A file that agrees with its
    seal is not decoded, which might fail for lack of memory or threads. Raises OSError: it can't be read.
    """
    with files.open_input_file(path) as data:
        while data.read(_BUFFER_BYTES):  # an error of storage is raised here, not taken for damage
            pass
        try:
            if not _check_contents(data, path):
                _check_pages(data, path)
        except _ERRORS_OF_CONTENTS as error:
            # Wrong bytes may ask for more memory than there is, but for no thread.
            if not isinstance(error, MemoryError) and out_of_memory(error) is not None:
                raise
            return " ".join(str(error).split()) or type(error).__name__
    return None


@contextmanager
def naming_damaged_file(uri: str, files: pafs.FileSystem, paths: Iterable[str]) -> Iterator[None]:
    """Replaces an error of the block by a DamagedFile where one of the files at `paths` is damaged. To find
    it, the files are read up to the first damaged one.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except _ERRORS_OF_CONTENTS as error:
        for path in paths:
            wrong = damage(files, path)
            if wrong is not None:
                raise damaged_file(uri, path, wrong) from error
        raise


_MESSAGE = re.compile(r"DamagedFile: (.+): the file (.+?) is damaged: (.+)")


def parse_damaged_file(text: str) -> DamagedFile | None:
    """The DamagedFile that a task on an executor raised, by its message in the driver; None for others."""
    match = _MESSAGE.search(text)
    return None if match is None else damaged_file(*match.groups())


def damaged_file(uri: str, path: str, wrong: str) -> DamagedFile:
    return DamagedFile(f"{uri}: the file {path} is damaged: {wrong}", uri=uri, path=path, wrong=wrong)


def lost_file(uri: str, path: str) -> DamagedFile:
    """The error for a file that a table's log names and that is not there."""
    return damaged_file(uri, path, "it is not there any more, and the table's log names it")
