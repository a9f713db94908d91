"""Lists in RocksDB (Flink: RocksDBListState). A list is a row with its last elements, and a row for each full
chunk of a few kilobytes before them:

    row      → number of chunks (4 bytes), number of elements (8), number of the list (8), last elements
    row, 0   → elements of the first chunk
    row, 1   → elements of the second …

So adding an element rewrites a few kilobytes at most, and a list is read, merged and deleted chunk by chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, overload

from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.state.backend import InternalListState
from slackwater.windowing.state.rocksdb.states import RocksDBState, key_group_of_row

CHUNK_BYTES: Final = 4096
_NUMBER_BYTES: Final = 4
# Lists of at least so many full chunks, a megabyte, are handed out as a StoredList.
LONG_LIST_CHUNKS: Final = 256
# Chunks wait among the writes of their column family, which are counted by rows: so many are 8 MB.
CHUNKS_BETWEEN_FLUSHES: Final = 2048
_HEADER: Final = struct.Struct(">IQQ")


class _Header(NamedTuple):
    """Numbers of full chunks and of elements; `list_number` differs from earlier lists at the same place."""

    chunks: int
    elements: int
    list_number: int

    @classmethod
    def of(cls, value_bytes: bytes) -> _Header:
        return cls._make(_HEADER.unpack_from(value_bytes))


class RocksDBListState(RocksDBState, InternalListState):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._unflushed_chunks = 0

    def get_raw(self, key: Any, namespace: Any) -> Sequence[Any] | None:
        row = self._row(key, namespace)
        value_bytes = self.rows.get(row)
        return None if value_bytes is None else self._list_at(row, value_bytes)

    get = get_raw

    def put_raw(self, key: Any, namespace: Any, value: Sequence[Any]) -> None:
        row = self._row(key, namespace)
        self._delete_list(row)
        self._append(row, map(self.values.dumps, value), len(value))

    def clear(self, key: Any, namespace: Any) -> None:
        self._delete_list(self._row(key, namespace))

    def entries(self, start: bytes, end: bytes) -> Iterator[tuple[int, Any, Any, Any]]:
        for row, value_bytes in self.rows.scan(start, end):
            key, namespace, namespace_end = self._layout.read_state_row(row)
            if namespace_end == len(row):
                yield key_group_of_row(row), key, namespace, self._list_at(row, value_bytes)

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        row, element = self._row(key, namespace), self.values.dumps(value)
        value_bytes = self.rows.get(row)
        if value_bytes is None or len(value_bytes) + len(element) > CHUNK_BYTES:
            self._append(row, (element,), 1)
        else:
            chunks, elements, list_number = _HEADER.unpack_from(value_bytes)
            header = _HEADER.pack(chunks, elements + 1, list_number)
            self._write(row, b"".join((header, value_bytes[_HEADER.size :], element)))
        return value_bytes is None

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        row = self._row(key, namespace)
        is_new = self.rows.get(row) is None
        self._append(row, map(self.values.dumps, values), len(values))
        return is_new

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        for source in sources:
            row = self._row(key, source)
            value_bytes = self.rows.get(row)
            if value_bytes is not None:
                blocks = self._blocks(row, value_bytes)
                self._append(self._row(key, target), blocks, _Header.of(value_bytes).elements)
                self._delete_list(row)

    def _list_at(self, row: bytes, value_bytes: bytes) -> Sequence[Any]:
        if _Header.of(value_bytes).chunks < LONG_LIST_CHUNKS:
            return self.values.read_all(b"".join(self._blocks(row, value_bytes)))
        return StoredList(self, row, value_bytes)

    def _append(self, row: bytes, blocks: Iterable[bytes], count: int) -> None:
        """Append blocks with `count` elements altogether to the list at `row`. No block is divided."""
        value_bytes = self.rows.get(row)
        if value_bytes is None:
            header, tail = _Header(0, 0, next(self.storage.ordinals)), bytearray()
        else:
            header, tail = _Header.of(value_bytes), bytearray(value_bytes[_HEADER.size :])
        chunks = header.chunks
        for block in blocks:
            if tail and _HEADER.size + len(tail) + len(block) > CHUNK_BYTES:
                self._write_chunk(row + _chunk_number(chunks), bytes(tail))
                chunks += 1
                tail.clear()
            tail += block
        self._write(row, _HEADER.pack(chunks, header.elements + count, header.list_number) + tail)

    def _write_chunk(self, row: bytes, block: bytes) -> None:
        self._write(row, block)
        self._unflushed_chunks += 1
        if self._unflushed_chunks >= CHUNKS_BETWEEN_FLUSHES:
            self.rows.flush()
            self._unflushed_chunks = 0

    def _blocks(self, row: bytes, value_bytes: bytes) -> Iterator[bytes]:
        """The bytes of the list's elements, by chunk. StateAccessError if it was cleared or replaced."""
        header = _Header.of(value_bytes)
        for number in range(header.chunks):
            block = self.rows.get(row + _chunk_number(number))
            if block is None or not self._is_list_at(row, header.list_number):
                raise StateAccessError(
                    f"State {self.descriptor.name!r}: a list was read that has been cleared or replaced "
                    "meanwhile; copy with list(…) what is needed longer than its state."
                )
            yield block
        yield value_bytes[_HEADER.size :]

    def _is_list_at(self, row: bytes, list_number: int) -> bool:
        value_bytes = self.rows.get(row)
        return value_bytes is not None and _Header.of(value_bytes).list_number == list_number

    def _delete_list(self, row: bytes) -> None:
        value_bytes = self.rows.get(row)
        if value_bytes is None:
            return
        for number in range(_Header.of(value_bytes).chunks):
            self._delete(row + _chunk_number(number))
        self._delete(row)


class StoredList(Sequence[Any]):
    """A long list of RocksDB as it was when requested, read a few kilobytes at a time in each iteration;
    equal to a list of equal elements. Reading raises StateAccessError after its state was cleared or
    replaced.
    """

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __init__(self, state: RocksDBListState, row: bytes, value_bytes: bytes) -> None:
        self._state, self._row, self._value_bytes = state, row, value_bytes
        self._length = _Header.of(value_bytes).elements

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        read_all = self._state.values.read_all
        for block in self._state._blocks(self._row, self._value_bytes):
            yield from read_all(block)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step > 0:
                return list(islice(self, start, stop, step))
            return [*self][index]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"position {index} of {self._length} elements")
        return next(islice(self, position, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | StoredList):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<a list of {self._length:,} elements in RocksDB>"


def _chunk_number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")
