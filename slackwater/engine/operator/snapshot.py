"""One range's part of a snapshot in the operator engine. Where state is too large for memory, it is restored
and parked some keys at a time, and long lists a few pieces at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.replaying.distinct_rows import (
    parked_rows,
    without_remembered_rows,
    without_run_id,
)
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.snapshot_rows import restored_bytes, restored_parts
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.rows.keys import Keys
from slackwater.errors import PermanentError
from slackwater.pipelines.process_functions import REMEMBERED_ROWS, name_taken
from slackwater.windowing.runtime.operator_snapshot import OperatorSnapshot
from slackwater.windowing.runtime.slice_runner import SliceRunner
from slackwater.windowing.snapshot import PieceOrder, SnapshotCodec, SnapshotTables

BYTES_READ_AT_ONCE = 64 << 20  # of `keyed_state`; larger ones are read file by file
_BYTES_HANDED_OVER = 32 << 20  # of `keyed_state`, about so many in a file


@dataclass(frozen=True)
class ParentSnapshot:
    """The rows of the parent's snapshot in one range. Where `keyed_state` is large it is not in `tables`, and
    `keyed_parts` reads it, file by file.
    """

    tables: SnapshotTables
    keyed_parts: Callable[[], Iterable[pa.Table]]
    bytes: int


class StateNameTaken(PermanentError):
    """A user's function keeps state under a name that is ours."""


def parent_snapshot(
    replay: Replay, schemas: Mapping[str, pa.Schema], keys: Keys, key_range: KeyRange
) -> ParentSnapshot:
    """The parent's rows in this range, without deduplication; row groups of other key groups are not read."""
    keyed_schema = without_run_id(schemas["keyed_state"])
    keyed_bytes = restored_bytes(replay, "keyed_state", key_range)
    is_large = keyed_bytes > BYTES_READ_AT_ONCE
    tables = SnapshotTables(
        *(
            keyed_schema.empty_table()
            if is_large and name == "keyed_state"
            else parked_rows(replay, schemas, name, keys, key_range)
            for name in SnapshotTables._fields
        )
    )

    def keyed_parts() -> Iterable[pa.Table]:
        if is_large:
            parts = restored_parts(replay, "keyed_state", keyed_schema, keys, key_range)
            yield from parts if replay.pipeline.distinct_by is None else map(without_remembered_rows, parts)

    return ParentSnapshot(
        tables, keyed_parts, sum(rows.nbytes for rows in tables) + (keyed_bytes if is_large else 0)
    )


def restore_snapshot(
    runner: SliceRunner, codec: SnapshotCodec, parent: ParentSnapshot, keys: Keys, parts: Iterable[KeyRange]
) -> None:
    """Give the operator what the parent has parked, one part of the keys after the other. What is read file
    by file comes first: windows past their cleanup are collected as soon as they are restored.
    """
    pieces = PieceOrder()
    for rows in parent.keyed_parts():
        runner.restore(codec.from_tables(codec.no_rows()._replace(keyed_state=rows), pieces=pieces))
    pieces.require_complete()
    for part in parts:
        tables = SnapshotTables(*(keys.rows_in(part, rows) for rows in parent.tables))
        runner.restore(codec.from_tables(tables))


def snapshot_tables(
    replay: Replay, codec: SnapshotCodec, snapshot: OperatorSnapshot
) -> Iterator[dict[str, pa.Table]]:
    """What the operator remembers, or a part of it, as rows by table: all but long lists, then pieces of
    these, so many at a time as make a file.

    Raises:
        StateNameTaken: a function keeps state under the name by which deduplication finds its rows.
    """
    parts = codec.parts(snapshot)
    first = next(parts)
    _refuse_name_of_deduplication(replay, first.keyed_state)
    yield first._asdict()
    pieces: list[pa.Table] = []
    for tables in parts:
        _refuse_name_of_deduplication(replay, tables.keyed_state)
        pieces.append(tables.keyed_state)
        if sum(rows.nbytes for rows in pieces) >= _BYTES_HANDED_OVER:
            yield {"keyed_state": pa.concat_tables(pieces)}
            pieces = []
    if pieces:
        yield {"keyed_state": pa.concat_tables(pieces)}


def _refuse_name_of_deduplication(replay: Replay, keyed_state: pa.Table) -> None:
    if (
        replay.pipeline.distinct_by is not None
        and REMEMBERED_ROWS in pc.unique(keyed_state.column("state_name")).to_pylist()
    ):
        raise StateNameTaken(f"{replay.pipeline.name}: {name_taken(REMEMBERED_ROWS)}.")
