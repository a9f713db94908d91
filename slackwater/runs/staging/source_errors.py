"""The next step where a source has changed under a lineage: which range has to be restated, or all of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from slackwater.engine.source.pinned_source import NewRowsNotKnown, SourceRewritten
from slackwater.engine.source.pinning import SourceReplaced, VersionGone
from slackwater.runs.staging.slices import Slice, iso


def how_to_restate_all(pipeline: str, start_ms: int, end_ms: int) -> str:
    """The next step where the source was replaced by another table and main has run [start, end)."""
    return (
        f"Restate everything from the table that is there: `slackwater backfill {pipeline} --from "
        f"{iso(start_ms)} --to {iso(end_ms)}`."
    )


@contextmanager
def with_next_step(pipeline: str, lineage: Slice) -> Iterator[None]:
    """Add the next step to the errors of a source in the block. `lineage` is what was run before."""
    try:
        yield
    except (SourceReplaced, VersionGone) as error:
        next_step = how_to_restate_all(pipeline, lineage.from_ms, lineage.to_ms)
        raise type(error)(f"{pipeline}: {error.message} {next_step}", **error.facts) from error
    except SourceRewritten as error:
        next_step = _how_to_restate_rows(pipeline, lineage, error)
        raise type(error)(f"{pipeline}: {error.message} {next_step}", **error.facts) from error


def _how_to_restate_rows(pipeline: str, lineage: Slice, error: SourceRewritten) -> str:
    least, greatest = (cast("int | None", error.facts[name]) for name in ("least_ms", "greatest_ms"))
    first = lineage.from_ms if least is None else max(least, lineage.from_ms)
    end = lineage.to_ms if greatest is None else min(greatest + 1, lineage.to_ms)
    command = f"`slackwater backfill {pipeline} --from {iso(first)} --to {iso(end)}`"
    if isinstance(error, NewRowsNotKnown):
        return f"A restatement reads all of them: {command}."
    return (
        f"What rests on them has to be restated: {command}; or put the rows back (RESTORE version "
        f"{error.facts['before']}, append only); or, if a law has demanded it, `slackwater erase {pipeline}` "
        "records it and takes them out of the tables, too."
    )
