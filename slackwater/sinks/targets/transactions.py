"""Positions as application transactions in the log of a Delta table; an application's newest one counts.

The version of a transaction is one number, whose upper bits are the seq and whose lower 32 are the offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.pipelines.sinks import START, SinkPosition

if TYPE_CHECKING:
    from deltalake import Transaction

    from slackwater.tables.delta.open_table import OpenTable

_OFFSET_BITS = 32


def position_in(table: OpenTable | None, application: str) -> SinkPosition:
    version = None if table is None else table.transaction_version(application)
    if version is None:
        return START
    return SinkPosition(version >> _OFFSET_BITS, version & ((1 << _OFFSET_BITS) - 1))


def transaction_of(application: str, position: SinkPosition) -> Transaction:
    """What a commit says to move the position."""
    from deltalake import Transaction

    return Transaction(application, position.seq << _OFFSET_BITS | position.offset)
