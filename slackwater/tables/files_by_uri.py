"""Single files by path or URI, in the stores of tables: the outcomes of commands, and the files of pipelines.
So a driver in a cluster needs no folder in common with whoever has started it.
"""

import hashlib
import os
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pafs

from slackwater.errors import UsageError
from slackwater.tables.stores import filesystem


class NoPythonFile(UsageError):
    """There is no Python file at a URI. Facts: uri."""


def is_uri(location: str) -> bool:
    return "://" in location or location.startswith("file:/")


def local_path(location: str) -> Path | None:
    """The path of a local file, given as a path or a URI; None for other stores."""
    if not is_uri(location):
        return Path(location)
    parts = urlsplit(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def write_text(uri: str, text: str) -> None:
    """Write a file of a store as a whole, over one that is there: a reader finds the one or the other."""
    folder, _, name = uri.rpartition("/")
    content = text.encode()
    # In one piece, through a buffer: delta-rs's file systems take bytes, and an unbuffered stream would hand
    # them a pyarrow.Buffer.
    with filesystem(folder).open_output_stream(name, buffer_size=len(content) + 1) as file:
        file.write(content)


def delete(uri: str) -> None:
    """Remove a file of a store; it may be gone already."""
    folder, _, name = uri.rpartition("/")
    files = filesystem(folder)
    if files.get_file_info(name).type is pafs.FileType.File:
        files.delete_file(name)


def fetch_python_files(uri: str, parent: Path) -> Path:
    """Copy the Python file or the folder of them at `uri` to a folder below `parent`, which is named after
    what was copied and never changes; returns the path of the copy.

    With a file come all Python files below its folder, since it may import them, and all JSON files but those
    of a Delta table: suites of Great Expectations.

    Raises:
        NoPythonFile: there is none.
    """
    folder, name = (uri.rsplit("/", 1)) if uri.endswith(".py") else (uri.rstrip("/"), "")
    local = local_path(folder)
    files = filesystem(folder if local is None else str(local))
    selector = pafs.FileSelector("", recursive=True, allow_not_found=True)
    paths = [
        info.path
        for info in files.get_file_info(selector)
        if info.type is pafs.FileType.File
        and info.path.endswith((".py", ".json"))
        and "_delta_log/" not in info.path
    ]
    if name not in paths if name else not any(path.endswith(".py") for path in paths):
        raise NoPythonFile(
            f"{uri}: there is no Python file here; --pipelines takes one, or a folder of them."
        )
    contents: dict[str, bytes] = {}
    digest = hashlib.sha256()
    for path in sorted(paths):
        with files.open_input_stream(path) as file:
            contents[path] = file.read()
        digest.update(f"{path}\0{len(contents[path])}\0".encode() + contents[path])
    copy = parent / digest.hexdigest()[:16]
    if not copy.exists():
        draft = parent / f".{copy.name}.{os.getpid()}"
        for path, content in contents.items():
            target = draft / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        try:
            draft.rename(copy)
        except OSError:  # another process was first, with the same files
            shutil.rmtree(draft)
    return copy / name
