"""Chooses the slices that a command has to run: pure functions on half-open ranges of milliseconds.

Knows of a lineage only its start and its end. A refusal names the command to run instead.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.cron import instant_of
from slackwater.windowing.times import duration_ms, to_datetime, to_ms

_DAY = timedelta(days=1)


class GapOrOverlap(UsageError):
    """The range neither continues the lineage nor is covered by it."""


class TooManySlices(UsageError):
    """A catch-up would run more slices than the pipeline allows unasked."""


@dataclass(frozen=True)
class Slice:
    """A half-open range [from_ms, to_ms) of arrival time, in milliseconds of UTC; the work of one run."""

    from_ms: int
    to_ms: int

    def __str__(self) -> str:
        return f"[{iso(self.from_ms)}, {iso(self.to_ms)})"


@dataclass(frozen=True)
class Lineage:
    """The start of a branch and its end, in milliseconds; `end_ms` is None before its first run."""

    start_ms: int
    end_ms: int | None

    @property
    def head_ms(self) -> int:
        return self.start_ms if self.end_ms is None else self.end_ms


@dataclass(frozen=True)
class Cuts:
    """The cuts of a lineage into slices: at its start + k lengths, of whole days by the clocks of `zone`
    (None for UTC, and for slices that are no whole days).

        Europe/Berlin, a day    Sat 29 March ── 24 h ── Sun 30 March ── 23 h ── Mon 31 March 2025
    """

    start_ms: int
    length: timedelta
    zone: tzinfo | None = None

    @classmethod
    def of(cls, pipeline: Pipeline, start_ms: int) -> "Cuts":
        is_days = pipeline.timezone != "UTC" and not pipeline.slice % _DAY
        return cls(start_ms, pipeline.slice, pipeline.zone if is_days else None)

    def before(self, ms: int) -> int:
        """The number k of the last cut that is not behind `ms`."""
        if self.zone is None:
            return (ms - self.start_ms) // duration_ms(self.length)
        number = (self._clock(ms) - self._clock(self.start_ms)) // self.length
        while self.at(number) > ms:
            number -= 1
        while self.at(number + 1) <= ms:
            number += 1
        return number

    def at(self, number: int) -> int:
        if self.zone is None:
            return self.start_ms + number * duration_ms(self.length)
        moment = self._clock(self.start_ms) + number * self.length
        return to_ms(instant_of(moment, self.zone))

    def _clock(self, ms: int) -> datetime:
        return to_datetime(ms).astimezone(self.zone).replace(tzinfo=None, fold=0)


def iso(ms: int) -> str:
    moment = to_datetime(ms).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds") + "Z"


class SlicedRow(Protocol):
    """What the ledger says of the slice of a run; a `LedgerRow`, or some of its columns."""

    @property
    def slice_start(self) -> datetime | None: ...

    @property
    def slice_end(self) -> datetime | None: ...


def start_of(row: SlicedRow) -> int:
    assert row.slice_start is not None
    return to_ms(row.slice_start)


def end_of(row: SlicedRow) -> int:
    assert row.slice_end is not None
    return to_ms(row.slice_end)


def slice_of(row: SlicedRow) -> Slice:
    return Slice(start_of(row), end_of(row))


def choose(
    pipeline: str,
    lineage: Lineage,
    *,
    from_ms: int | None,
    to_ms: int,
    cuts: Cuts,
    max_slices: int | None,
) -> list[Slice]:
    """The slices to run now, in order; none when the lineage covers the range.

    Without `from_ms` the slices from the end of the lineage to `to_ms`, cut at `cuts`; else the one slice
    [from_ms, to_ms). More than `max_slices` are refused; None lifts the limit.

    Raises:
        GapOrOverlap, TooManySlices, UsageError: with the command to run instead.
    """
    head_ms = lineage.head_ms
    if from_ms is None:
        _refuse_too_many(pipeline, lineage, to_ms, cuts, max_slices)
        return catch_up(cuts, head_ms, to_ms)
    if from_ms >= to_ms:
        raise UsageError(
            f"{pipeline}: --from {iso(from_ms)} is not before --to {iso(to_ms)}; a slice is half-open, "
            "[from, to). To catch up run "
            f"`slackwater run {pipeline} --to {iso(from_ms)}`."
        )
    if lineage.end_ms is not None and lineage.start_ms <= from_ms and to_ms <= head_ms:
        return []
    if from_ms == head_ms:
        return [Slice(from_ms, to_ms)]
    raise GapOrOverlap(_why_gap_or_overlap(pipeline, lineage, from_ms, to_ms))


def _refuse_too_many(pipeline: str, lineage: Lineage, to_ms: int, cuts: Cuts, max_slices: int | None) -> None:
    head_ms = lineage.head_ms
    slices = cuts.before(to_ms - 1) + 1 - cuts.before(head_ms)
    if max_slices is not None and slices > max_slices:
        raise TooManySlices(
            f"{pipeline}: catching up from {iso(head_ms)} to {iso(to_ms)} takes {slices:,} slices, more than "
            f"max_catch_up = {max_slices}. "
            f"Run it with `slackwater run {pipeline} --to {iso(to_ms)} --all`, or in parts with an earlier "
            "--to.",
            slices=slices,
            most=max_slices,
        )


def _why_gap_or_overlap(pipeline: str, lineage: Lineage, from_ms: int, to_ms: int) -> str:
    head_ms = lineage.head_ms
    command = f"slackwater run {pipeline}"
    if lineage.end_ms is None:
        later = (
            f" --from {iso(head_ms)} --to {iso(to_ms)}"
            if to_ms > head_ms
            else f" --start {iso(from_ms)} --to {iso(to_ms)}"
        )
        return (
            f"{pipeline} has no runs yet and its lineage begins at {iso(head_ms)}, not at {iso(from_ms)}. "
            f"Run `{command}{later}`, or begin "
            f"elsewhere with --start."
        )
    if from_ms > head_ms:
        return (
            f"{pipeline}: the lineage ends at {iso(head_ms)}; {iso(from_ms)} would leave a gap. Catch up "
            f"with `{command} --to {iso(to_ms)}`."
        )
    if to_ms <= head_ms:
        return (
            f"{pipeline}: the lineage begins at {iso(lineage.start_ms)}; nothing before that can be run "
            "here. One that begins earlier "
            f"needs a warehouse of its own: `{command} --start {iso(from_ms)} --to {iso(to_ms)} --warehouse "
            "ANOTHER`."
        )
    return (
        f"{pipeline}: [{iso(from_ms)}, {iso(to_ms)}) overlaps what the lineage has, which ends at "
        f"{iso(head_ms)}. Continue it with "
        f"`{command} --from {iso(head_ms)} --to {iso(to_ms)}`."
    )


def catch_up(cuts: Cuts, from_ms: int, to_ms: int) -> list[Slice]:
    """[from_ms, to_ms) in slices; the last one ends at `to_ms`."""
    slices = []
    while from_ms < to_ms:
        end = min(cuts.at(cuts.before(from_ms) + 1), to_ms)
        slices.append(Slice(from_ms, end))
        from_ms = end
    return slices
