"""Small files of object stores that this process has lately written or read whole, so that they are not asked
for again: a run reads most files that it has just written.

Only files whose names writers never use for other contents are kept: those of a Delta table, which never
change.
"""

import re
import threading
from collections import OrderedDict

import pyarrow as pa

_MOST_BYTES = 32 << 20
LARGEST_BYTES = 1 << 20
_UNIQUE_NAME = re.compile(
    r"(?:-seal[0-9a-f]{16}|[0-9a-f]{32}(?:-\d+-\d+)?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*)"
    r"\.parquet$"
)

Key = tuple[int, str]


class RecentFiles:
    """The contents of files by (number of the client, path); those used least lately make room for others.
    Threads may share it.
    """

    def __init__(self) -> None:
        self._contents: OrderedDict[Key, pa.Buffer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> pa.Buffer | None:
        """The content of a file; None where it is not kept."""
        with self._lock:
            content = self._contents.get(key)
            if content is not None:
                self._contents.move_to_end(key)
            return content

    def keep(self, key: Key, content: pa.Buffer) -> None:
        """Keep the content of a file, if it is small and has a name of its own."""
        if content.size > LARGEST_BYTES or not _UNIQUE_NAME.search(key[1]):
            return
        with self._lock:
            if key not in self._contents:
                self._contents[key] = content
                self._bytes += content.size
            while self._bytes > _MOST_BYTES:
                _, oldest = self._contents.popitem(last=False)
                self._bytes -= oldest.size

    def forget(self, key: Key) -> None:
        """Drop a file that is deleted."""
        with self._lock:
            content = self._contents.pop(key, None)
            if content is not None:
                self._bytes -= content.size
