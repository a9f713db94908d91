"""The storage of this process: folders of this machine and of object stores as file systems of relative
paths, puts that must be the first, and work on several tables at once.

An object store has one client per process, bucket and environment, which threads share. It is configured by
the environment alone (AWS_…, AZURE_…, GOOGLE_…). A small file is read by one request, without a question for
its size, and written by one.

    uri                     client of       folder in it
    s3://lake/warehouse/p   s3://lake       warehouse/p
    /data/warehouse/p       /data/warehouse/p

Knows no table.
"""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
import pyarrow as pa
import pyarrow.fs as pafs
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, LocalStore, ObjectStore, from_url

from slackwater.tables.errors import UnknownStore

_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_")
# Schemes whose URIs begin with a bucket or a container.
_BUCKETS = {"s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"}
_SCHEMES = _BUCKETS | {"file", "http", "https", "memory"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/{1,2})")
_UNITY = "Give the location of the table's files, which DESCRIBE DETAIL shows."
_WAYS = {
    "uc": _UNITY,
    "dbfs": f"{_UNITY} On a cluster of Databricks the folder is also /dbfs/….",
    "hdfs": "Mount HDFS as a folder (hadoop-fuse-dfs, or an NFS gateway), or copy the table to one of these.",
}
# What the first request for a file brings: all of a small one, the footer of a large one.
_TAIL_BYTES = 1 << 20
# A file up to this size is written by one request. Each open file may hold so much in memory.
_PUT_BYTES = 8 << 20
_REQUESTS_AT_ONCE = 8


def refuse_unknown_store(uri: str) -> None:
    match = _SCHEME.match(uri)
    if match is None or (match[1] in _SCHEMES and match[2] == "//"):
        return
    scheme = match[1].lower()
    raise UnknownStore(
        f"{uri}: {scheme}: is no kind of storage that is read here: give a path of this machine, or a URI of "
        f"{', '.join(f'{name}://' for name in sorted(_SCHEMES))}. {_WAYS.get(scheme, '')}".rstrip(),
        uri=uri,
    )


def is_local(uri: str) -> bool:
    return "://" not in uri or uri.startswith("file://")


def filesystem(uri: str) -> pafs.FileSystem:
    """The folder at `uri` (a local path, or a URI that delta-rs knows) as a file system of relative paths."""
    if is_local(uri):
        return pafs.SubTreeFileSystem(_local_path(uri), pafs.LocalFileSystem())
    return pafs.PyFileSystem(StoreFolder(*_place(uri)))


def put_first(uri: str, path: str, content: bytes) -> None:
    """Write a file below the folder `uri`, unless there is one at `path`.

    Raises:
        FileExistsError: there is one, perhaps this one, where the answer to a first request was lost.
        OSError: storage failed. The file may be there all the same.
    """
    client, folder = (_local_client(_local_path(uri)), "") if is_local(uri) else _place(uri)
    with _os_errors(path):
        obstore.put(client, folder + path, content, mode="create", use_multipart=False)


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Replaces errors of a client by those that a file system raises."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(f"{path}: it is there already") from error
    except BaseError as error:
        raise OSError(_message(error)) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(_message(error)) from error


def _message(error: Exception) -> str:
    return str(error).partition("\n\nDebug source:")[0]


def _local_path(uri: str) -> str:
    return uri.removeprefix("file://")


@cache
def _local_client(folder: str) -> LocalStore:
    return LocalStore(folder)


def _place(uri: str) -> tuple[ObjectStore, str]:
    """(the client, the folder in its bucket with a slash at its end) of a URI."""
    refuse_unknown_store(uri)
    parts = urlsplit(uri)
    root, folder = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    if parts.scheme not in _BUCKETS:
        root, folder = uri, ""
    variables = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_PREFIXES)))
    return _client(root, variables), f"{unquote(folder)}/" if folder else ""


@cache
def _client(root: str, variables: tuple[tuple[str, str], ...]) -> ObjectStore:
    """The client for `root`; it reads `variables` from the environment."""
    try:
        return from_url(root)
    except (BaseError, ValueError) as error:
        raise OSError(f"{root}: can't be opened ({_message(error)})") from error


@dataclass(frozen=True)
class StoreFolder(pafs.FileSystemHandler):
    """A folder of an object store as one of Arrow's file systems. `prefix` is the folder with a slash at its
    end, empty for the bucket.
    """

    client: ObjectStore
    prefix: str

    def get_type_name(self) -> str:
        return "object store"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[pafs.FileInfo]:
        paths = list(paths)
        if len(paths) < 2:
            return [self._info(path) for path in paths]
        with ThreadPoolExecutor(min(_REQUESTS_AT_ONCE, len(paths)), "requests") as threads:
            return list(threads.map(self._info, paths))

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            with _os_errors(path):
                head = obstore.head(self.client, self.prefix + path)
        except FileNotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)
        return pafs.FileInfo(path, pafs.FileType.File, mtime=head["last_modified"], size=head["size"])

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        folder = self.prefix + selector.base_dir
        folders: list[str] = []
        with _os_errors(selector.base_dir):
            if selector.recursive:
                objects = [one for page in obstore.list(self.client, folder) for one in page]
            else:
                listing = obstore.list_with_delimiter(self.client, folder)
                objects, folders = list(listing["objects"]), list(listing["common_prefixes"])
        if not objects and not folders and not selector.allow_not_found:
            raise FileNotFoundError(f"{selector.base_dir}: there is nothing below it")
        start = len(self.prefix)
        return [
            *(pafs.FileInfo(path[start:].rstrip("/"), pafs.FileType.Directory) for path in folders),
            *(
                pafs.FileInfo(
                    one["path"][start:], pafs.FileType.File, mtime=one["last_modified"], size=one["size"]
                )
                for one in objects
            ),
        ]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Folders of an object store come with their first object."""

    def delete_dir(self, path: str) -> None:
        with _os_errors(path):
            for page in obstore.list(self.client, f"{self.prefix}{path}/"):
                obstore.delete(self.client, [one["path"] for one in page])

    def delete_file(self, path: str) -> None:
        with _os_errors(path):
            obstore.delete(self.client, self.prefix + path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        with _os_errors(path):
            return pa.BufferReader(_content(self.client, self.prefix + path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        with _os_errors(path):
            return _open_file(self.client, self.prefix + path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(_NewFile(self.client, self.prefix + path), mode="w")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def move(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_append_stream(self, path: str, metadata: Any) -> None:
        raise NotImplementedError


def _content(client: ObjectStore, path: str) -> pa.Buffer:
    return pa.py_buffer(obstore.get(client, path).bytes())


def _open_file(client: ObjectStore, path: str) -> pa.NativeFile:
    """The file at `path`, opened by one request, which brings all of a small one."""
    if isinstance(client, AzureStore):  # it can't be asked for the last bytes
        size = obstore.head(client, path)["size"]
        start = max(0, size - _TAIL_BYTES)
        tail = obstore.get_range(client, path, start=start, end=size) if size else b""
    else:
        try:
            answer = obstore.get(client, path, options={"range": {"suffix": _TAIL_BYTES}})
            size, start, tail = answer.meta["size"], answer.range[0], answer.bytes()
        except BaseError as error:
            # An empty object has no last bytes: some stores call that an error, others answer in full.
            if "416" not in str(error) and "non-partial" not in str(error):
                raise
            return pa.BufferReader(_content(client, path))
    if start == 0:
        return pa.BufferReader(pa.py_buffer(tail))
    return pa.PythonFile(_LargeFile(client, path, size, memoryview(tail)), mode="r")


class _LargeFile(io.RawIOBase):
    """A file whose last bytes are in memory; each other range is read by one request."""

    def __init__(self, client: ObjectStore, path: str, size: int, tail: memoryview) -> None:
        self._client, self._path, self._size, self._tail = client, path, size, tail
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        start = min(self._position, self._size)
        end = self._size if size < 0 else min(start + size, self._size)
        self._position = end
        tail_start = self._size - len(self._tail)
        if start >= tail_start or start == end:
            return bytes(self._tail[start - tail_start : end - tail_start])
        with _os_errors(self._path):
            return obstore.get_range(self._client, self._path, start=start, end=end).to_bytes()


class _NewFile(io.RawIOBase):
    """A file that is written by one request when it is closed, or by several where it is large. It is there
    only when all have succeeded.
    """

    def __init__(self, client: ObjectStore, path: str) -> None:
        self._client, self._path = client, path
        self._writer = obstore.open_writer(client, path, buffer_size=_PUT_BYTES)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with _os_errors(self._path):
            return self._writer.write(bytes(content))

    def close(self) -> None:
        if not self.closed:
            super().close()
            with _os_errors(self._path):
                self._writer.close()


Item = TypeVar("Item")
Result = TypeVar("Result")

# Most of the time that small commits take is spent outside of Python, or waiting for storage.
_THREADS = 4


def map_concurrently(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`work` on each of `items`, several at once; the results in the items' order. The items must concern
    independent tables. An error is raised at its item's turn, after `work` has ended for all.
    """
    with ThreadPoolExecutor(_THREADS, "tables") as threads:
        return threads.map(work, items)
