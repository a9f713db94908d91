"""A store that makes commits and loses the answers to them. Knows nothing of the contents of commits.

There are two ways in which a client sees that. The request ends in a network error; or the client repeats its
conditional put, finds the file of its own first try and takes it for a conflict, which delta-rs, if it may
retry, resolves by a second commit after the first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

TIMED_OUT = "a request that timed out"
REPEATED_PUT = "a conditional put that was repeated"
WAYS = (TIMED_OUT, REPEATED_PUT)


@contextmanager
def lost_answers(way: str, *tables: str) -> Iterator[list[str]]:
    """Every commit to one of `tables` loses its answer; gives the names of the tables, one for each
    commit.
    """
    lost: list[str] = []
    commit = DeltaTable.create_write_transaction

    def losing(table: DeltaTable, *arguments: Any, commit_properties: CommitProperties, **named: Any) -> None:
        commit(table, *arguments, commit_properties=commit_properties, **named)
        name = Path(table.table_uri).name
        if name not in tables:
            return
        lost.append(name)
        if way == TIMED_OUT:
            raise OSError("Generic S3 error: error sending request: operation timed out")
        if commit_properties.max_commit_retries == 0:
            raise CommitFailedError("Failed to commit transaction: 0")
        commit(table, *arguments, commit_properties=commit_properties, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", losing)
        yield lost
