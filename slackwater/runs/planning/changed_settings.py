"""What a plan says of settings that differ from the continued run's: what they mean for
windows that are open, and which restatement gives these, or all windows, what today's settings say.

    main       |-- run 1 --|-- run 2 --|-- run 3 --|  next slice, with one more result
    windows                     [ opened in run 2, open ............ ]     no value of it
                                                     [ opened here ]       a value
    restated               |-- run 4 --|-- run 5 --|  from the snapshot before the oldest open window
                                [ ................................. ]      a value

Reads the snapshot and the ledger, and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow.compute as pc

from slackwater.runs.planning.plan_inputs import PlanInputs
from slackwater.runs.restating import restatement
from slackwater.runs.staging.evolution import Difference
from slackwater.runs.staging.slices import iso
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import is_kept, stored_snapshot
from slackwater.windowing.times import to_ms


@dataclass(frozen=True)
class _OpenWindows:
    """The windows of a snapshot, and the first arrival of all in milliseconds (None: there are none)."""

    count: int
    since_ms: int | None


def sentences_on_changes(
    inputs: PlanInputs, owner: LedgerRow | None, changes: Sequence[Difference]
) -> tuple[str, ...]:
    """One sentence for each changed setting, and one with the restatements that there are, if any helps."""
    if owner is None or not changes:
        return ()
    open_windows = _open_windows(inputs, owner)
    sentences = [f"{change}: {_meaning(change, open_windows)}" for change in changes]
    if any(_can_be_restated(change) for change in changes):
        sentences.append(_restatements(inputs, open_windows))
    return tuple(sentences)


def _can_be_restated(change: Difference) -> bool:
    return change.path in ("where", "output") or change.adds_result


def _meaning(change: Difference, open_windows: _OpenWindows) -> str:
    count = open_windows.count
    windows = f"the {count:,} window{'' if count == 1 else 's'} that {'is' if count == 1 else 'are'} open now"
    if change.adds_result:
        return f"from here on; null in {windows}, and in all rows of before"
    if change.removes_result:
        return "its column stays, and is null in new rows"
    if change.path == "output":
        return (
            "from here on; a new column is null in all rows of before, the column of one that was removed "
            f"stays, and is null in new rows. What {windows} emit is up to the function, which finds there "
            "what was parked"
        )
    if change.path == "where":
        return f"from here on; {windows} hold what the condition of before has let in"
    return "from here on"


def _restatements(inputs: PlanInputs, open_windows: _OpenWindows) -> str:
    name, start_ms, end_ms = inputs.pipeline.name, inputs.start_ms, inputs.end_ms
    command = f"slackwater backfill {name} --from {{}} --to {iso(end_ms)}"
    everything = f"all of it by `{command.format(iso(start_ms))}`"
    if open_windows.since_ms is None or inputs.tables is None:
        return f"by today's settings restates {everything}"
    range_ = restatement.restate(
        name,
        inputs.live,
        min(max(open_windows.since_ms, start_ms), end_ms - 1),
        end_ms,
        partial(is_kept, inputs.tables),
    )
    if range_.owner is None:
        return (
            "what is open reaches back to the start of the lineage; by today's settings restates "
            f"{everything}"
        )
    return (
        f"by today's settings restates what is open, from the snapshot before its first element: "
        f"`{command.format(iso(range_.from_ms))}`; {everything}"
    )


def _open_windows(inputs: PlanInputs, owner: LedgerRow) -> _OpenWindows:
    if inputs.tables is None or inputs.pipeline.window is None:
        return _OpenWindows(0, None)
    count, firsts = 0, list[datetime]()
    for rows in stored_snapshot(inputs.tables["window_state"], owner).scan(["first_arrival"], None, 1 << 20):
        count += rows.num_rows
        if (first := pc.min(rows.column("first_arrival")).as_py()) is not None:
            firsts.append(first)
    return _OpenWindows(count, to_ms(min(firsts)) if firsts else None)
