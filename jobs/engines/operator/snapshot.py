"""One range's part of a snapshot: the parent's rows given back to its operator, and the operator's state as
rows of `window_state`, `keyed_state` and `timers`.

The counterpart of `slackwater.jobs.engines.columnar.snapshot`. How a value stands in a row is the codec's;
where state is too large for memory, it is restored and parked a few key groups at a time.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.replaying.distinct_rows import without_remembered_rows
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.replaying.snapshot_rows import restored_rows
from slackwater.jobs.errors import PermanentError
from slackwater.jobs.pipelines.process_functions import REMEMBERED_ROWS, name_taken
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.runtime.slice_runner import SliceRunner
from slackwater.windowing.snapshot import SnapshotCodec, SnapshotTables


class StateNameTaken(PermanentError):
    """A user's function keeps state under a name that is ours."""


def parent_snapshot(
    replay: Replay, schemas: Mapping[str, pa.Schema], key_groups: KeyGroupRange
) -> SnapshotTables:
    """The rows of the parent's snapshot in these key groups, without those that deduplication remembers; row
    groups of other key groups are not read.
    """
    tables = (
        restored_rows(
            replay, name, pa.schema([field for field in schemas[name] if field.name != "run_id"]), key_groups
        )
        for name in SnapshotTables._fields
    )
    snapshot = SnapshotTables(*tables)
    if replay.pipeline.distinct_by is None:
        return snapshot
    return snapshot._replace(keyed_state=without_remembered_rows(snapshot.keyed_state))


def restore_snapshot(
    runner: SliceRunner, codec: SnapshotCodec, parent: SnapshotTables, parts: Iterable[KeyGroupRange]
) -> None:
    """Give the operator what the parent has parked, one part of the key groups after the other."""
    for part in parts:
        is_of_part = (pc.field("key_group") >= part.first) & (pc.field("key_group") <= part.last)
        runner.restore(codec.from_tables(SnapshotTables(*(rows.filter(is_of_part) for rows in parent))))


def snapshot_tables(
    replay: Replay, runner: SliceRunner, codec: SnapshotCodec, part: KeyGroupRange
) -> dict[str, pa.Table]:
    """What the operator remembers of these key groups, as rows by table.

    Raises:
        StateNameTaken: a function keeps state under the name by which deduplication finds its rows.
    """
    snapshot = codec.to_tables(runner.snapshot(part))
    if (
        replay.pipeline.distinct_by is not None
        and REMEMBERED_ROWS in pc.unique(snapshot.keyed_state.column("state_name")).to_pylist()
    ):
        raise StateNameTaken(f"{replay.pipeline.name}: {name_taken(REMEMBERED_ROWS)}.")
    return snapshot._asdict()
