"""A store that makes commits and loses the answers to them. Knows nothing of the contents of commits.

There are two ways in which a client sees that. The request ends in a network error; or the client repeats its
conditional put, finds the file of its own first try and takes it for somebody else's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.tables.delta import commits
from slackwater.tables.stores import put_first

TIMED_OUT = "a request that timed out"
REPEATED_PUT = "a conditional put that was repeated"
WAYS = (TIMED_OUT, REPEATED_PUT)


@contextmanager
def lost_answers(way: str, *tables: str) -> Iterator[list[str]]:
    """Every commit to one of `tables` loses its answer; gives the names of the tables, one for each
    commit.
    """
    lost: list[str] = []

    def losing(uri: str, path: str, content: bytes) -> None:
        put_first(uri, path, content)
        name = Path(uri).name
        if name not in tables:
            return
        lost.append(name)
        if way == TIMED_OUT:
            raise OSError("Generic S3 error: error sending request: operation timed out")
        raise FileExistsError(path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commits, "put_first", losing)
        yield lost
