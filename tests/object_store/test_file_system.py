"""A folder of an object store as a file system, and puts that must be the first."""

import os
import threading

import pyarrow.fs as pafs
import pytest

from slackwater.tables.stores import filesystem, put_first
from tests.object_store.conftest import Store
from tests.object_store.server import BUCKET

URI = f"s3://{BUCKET}/some/folder"
LARGE = os.urandom(20 << 20)


def put(path: str, content: bytes) -> None:
    with filesystem(URI).open_output_stream(path) as stream:
        stream.write(content)


@pytest.mark.parametrize("content", [b"", b"few", LARGE[: 1 << 20], LARGE], ids=len)
def test_what_is_written_is_read(in_store: Store, content: bytes) -> None:
    path = f"a b/{len(content)}%C3%A9.bin"
    put(path, content)
    assert (in_store.folder / "some/folder" / path).read_bytes() == content
    with filesystem(URI).open_input_file(path) as file:
        assert file.size() == len(content) and file.read() == content
        for start, length in ((0, 10), (len(content) // 2, 100), (max(0, len(content) - 7), 7)):
            assert file.read_at(length, start) == content[start : start + length]


@pytest.mark.parametrize(("size", "requests"), [(5, 1), (1 << 20, 1), (3 << 20, 2)])
def test_a_small_file_is_one_request_to_write_and_one_to_read(
    in_store: Store, size: int, requests: int
) -> None:
    put("small", LARGE[:size])
    assert in_store.proxy.counts() == {"PUT": 1}
    in_store.proxy.forget()
    with filesystem(URI).open_input_file("small") as file:
        assert file.read() == LARGE[:size]
    assert in_store.proxy.counts() == {"GET": requests}


def test_files_and_folders_are_listed_and_deleted(in_store: Store) -> None:
    folder = filesystem(f"{URI}/listed")
    for path in ("a/1", "a/2", "b"):
        with folder.open_output_stream(path) as stream:
            stream.write(b"x")
    infos = {info.path: info.type for info in folder.get_file_info(pafs.FileSelector(""))}
    assert infos == {"a": pafs.FileType.Directory, "b": pafs.FileType.File}
    every = folder.get_file_info(pafs.FileSelector("", recursive=True))
    assert sorted((info.path, info.size) for info in every) == [("a/1", 1), ("a/2", 1), ("b", 1)]
    assert [info.type for info in folder.get_file_info(["b", "c"])] == [
        pafs.FileType.File,
        pafs.FileType.NotFound,
    ]
    folder.delete_file("b")
    with pytest.raises(FileNotFoundError):
        folder.open_input_file("b")
    folder.delete_dir("a")
    assert folder.get_file_info(pafs.FileSelector("", allow_not_found=True)) == []
    with pytest.raises(FileNotFoundError):
        folder.get_file_info(pafs.FileSelector(""))


def test_of_many_that_put_at_once_one_is_first(in_store: Store) -> None:
    outcomes: list[bytes] = []

    def contend(content: bytes) -> None:
        try:
            put_first(URI, "contended", content)
        except FileExistsError:
            return
        outcomes.append(content)

    threads = [threading.Thread(target=contend, args=(str(number).encode(),)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [(in_store.folder / "some/folder/contended").read_bytes()]


def test_another_environment_has_another_client(in_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put("once", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(OSError, match="403"):
        filesystem(URI).open_input_file("once")
