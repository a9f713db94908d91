"""Which slices of a lineage are stale: rows of their arrivals have appeared in the source, or were changed
or removed, after they were run. Asked where a catch-up has nothing to do.

Reads the ledger and the sources' logs, and of new files the arrival column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.errors import SlackwaterError
from slackwater.pipelines import Pipeline
from slackwater.runs.staging.pins import Pins
from slackwater.runs.staging.slices import Slice, iso
from slackwater.runs.staging.staged_slice import Parent
from slackwater.runs.staging.stragglers import (
    advice_on_stragglers,
    find_stragglers,
    merge_stragglers,
)
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Warehouse


@dataclass(frozen=True)
class StaleSlices:
    """The stale slices of a lineage, joined where they meet; `advice` says what to do, or is empty."""

    slices: tuple[Slice, ...] = ()
    advice: str = ""


def find_stale_slices(
    pipeline: Pipeline, warehouse: Warehouse, ledger: LedgerReader, parent: Parent
) -> StaleSlices:
    """The stale slices of the branch that ends at `parent`. Where the source can't say which they are,
    there are none, and the advice says so.
    """
    if parent.row is None or parent.end_ms is None:
        return StaleSlices()
    try:
        pins = Pins.newest(
            pipeline,
            warehouse,
            owner=parent.owner,
            from_ms=parent.end_ms,
            newer_reads=parent.newer_reads,
            overrides=(),
            moved_rows={},
            ledger=ledger,
        )
    except SourceRewritten as error:
        least_ms, greatest_ms = error.facts["least_ms"], error.facts["greatest_ms"]
        losing_slices = [
            item
            for item in _slices_of(ledger, parent.row)
            if (least_ms is None or item.to_ms > least_ms)  # type: ignore[operator] # facts are objects
            and (greatest_ms is None or item.from_ms <= greatest_ms)  # type: ignore[operator]
        ]
        return StaleSlices(
            tuple(_join(losing_slices)),
            f"{error.message} Restate with `{_restatement(pipeline, losing_slices)}`",
        )
    except SlackwaterError as error:
        return StaleSlices((), f"whether rows have changed since is not known: {error.message}")
    stragglers = merge_stragglers(
        [
            find_stragglers(
                item.source,
                ledger.live_reads(parent.row, item.declaration.table),
                item.declaration.arrival_time,
                folds=pipeline.stragglers == "fold",
            )
            for item in pins.source_pins
        ]
    )
    if stragglers == []:
        return StaleSlices()
    slices = _join(item.slice for item in stragglers or ())
    return StaleSlices(tuple(slices), advice_on_stragglers(pipeline.name, stragglers))


def _slices_of(ledger: LedgerReader, head: LedgerRow) -> list[Slice]:
    live = ledger.live_runs(head)
    bounds = (live.times_ms(name).tolist() for name in ("slice_start", "slice_end"))
    return list(map(Slice, *bounds))


def _restatement(pipeline: Pipeline, slices: Sequence[Slice]) -> str:
    if not slices:
        return f"slackwater backfill {pipeline.name}"
    return f"slackwater backfill {pipeline.name} --from {iso(slices[0].from_ms)} --to {iso(slices[-1].to_ms)}"


def _join(slices: Iterable[Slice]) -> Sequence[Slice]:
    """The slices, in order; those that meet become one."""
    ranges: list[Slice] = []
    for item in slices:
        if ranges and ranges[-1].to_ms == item.from_ms:
            ranges[-1] = Slice(ranges[-1].from_ms, item.to_ms)
        else:
            ranges.append(item)
    return ranges
