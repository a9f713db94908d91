"""The catch-up: runs the slices that the lineage lacks, one after another; the verb `run`.

Each slice is staged, validated and published with a ledger commit of its own. A rejected slice stops the
catch-up, and the slices before it stay. Where there is nothing to do it says which slices are stale: rows of
their arrivals have appeared in the source, or were changed or removed, after they were run.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from slackwater import args
from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.errors import SlackwaterError, UsageError
from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.moves import find_branch
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.staging.pins import Pins
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.slices import Cuts, Slice, choose, iso
from slackwater.runs.staging.staged_slice import Parent, StagedSlice, failures_text, lines_of, refuse_closed
from slackwater.runs.staging.stragglers import advice_on_stragglers, find_stragglers, merge_stragglers
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import MAIN, LedgerRow
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


log = logging.getLogger("slackwater")


@dataclass(frozen=True)
class CatchUpRequest:
    """What `slackwater run` was asked for; times in milliseconds of UTC.

    Attributes:
        from_ms: start of the one slice to run; None to catch up from the head.
        start_ms: where an empty lineage begins instead of `Pipeline.start`.
        accept: the reason to publish the first slice that validation rejects; None: it is not published.
        everything: whether `max_catch_up` is lifted.
        engine, ranges: in place of the planner's choice.
    """

    pipeline: str
    to_ms: int
    from_ms: int | None = None
    start_ms: int | None = None
    publish: bool = True
    accept: str | None = None
    everything: bool = False
    engine: str | None = None
    ranges: int | None = None
    branch: str = MAIN


@dataclass
class CatchUp:
    """Runs what a request asks for; Spark starts only for slices that need it."""

    request: CatchUpRequest
    runner: Callable[[], Runner]
    lines: Callable[[str], object] = print
    staged_slices: list[StagedSlice] = field(default_factory=list)
    committed_rows: list[LedgerRow] = field(default_factory=list)
    stale: StaleSlices = field(default_factory=StaleSlices)

    def run(self) -> list[LedgerRow]:
        """Stage, and unless asked otherwise publish, slice after slice. Raises as `Evaluator.execute`."""
        runner = self.runner()
        steps = Evaluator(
            runner,
            self.lines,
            publishes=self.request.publish,
            report=_lines_with_warnings,
            staged_slices=self.staged_slices,
            committed_rows=self.committed_rows,
        )
        steps.publisher.roll_forward.finish_known()
        # One look at the head: slices chosen by one head and run on a newer one would be run twice.
        parent = self._parent(runner)
        slices = self._slices(runner, parent)
        if not slices:
            self._say_nothing_to_do(runner, parent)
        log.debug("slices", extra={"slices": len(slices)})
        for slice_ in slices:
            is_used = any(item.is_accepted for item in self.staged_slices)
            accept = None if is_used else self.request.accept
            parent = steps.execute(slice_, parent, self.request.branch, accept)
        return self.committed_rows

    def _parent(self, runner: Runner) -> Parent:
        name, branch = self.request.pipeline, self.request.branch
        if branch != MAIN:
            if not self.request.publish:
                raise UsageError(
                    f"{name}: --no-publish is for main; what runs on a branch changes nothing that readers "
                    "see."
                )
            find_branch(runner.tables.ledger, name, branch)
        parent = runner.parent(branch)
        refuse_closed(name, parent.owner)
        return parent

    @property
    def pipeline(self) -> str:
        return self.request.pipeline

    @property
    def stale_slices(self) -> Sequence[Slice]:
        return self.stale.slices

    def outcome(self) -> tuple[args.Outcome, str]:
        """The outcome of a `run` that raised nothing, and a sentence on it."""
        count = len(self.staged_slices)
        if count == 0:
            advice = f"; {self.stale.advice}" if self.stale.advice else ""
            up_to = iso(self.request.to_ms)
            return "nothing", f"nothing to do: the lineage covers everything up to {up_to}{advice}"
        return (
            "staged",
            f"{count} slice{'' if count == 1 else 's'} {'published' if self.request.publish else 'staged'}",
        )

    def _slices(self, runner: Runner, parent: Parent) -> list[Slice]:
        pipeline, request = runner.pipeline, self.request
        if parent.row is not None and request.start_ms is not None:
            raise UsageError(
                f"{pipeline.name}: --start is for an empty lineage; this one has runs already. Leave it out."
            )
        lineage = runner.lineage(parent, request.start_ms)
        return choose(
            pipeline.name,
            lineage,
            from_ms=request.from_ms,
            to_ms=request.to_ms,
            cuts=Cuts.of(pipeline, lineage.start_ms),
            max_slices=None if request.everything else pipeline.max_catch_up,
        )

    def _say_nothing_to_do(self, runner: Runner, parent: Parent) -> None:
        self.lines(f"{self.pipeline}: nothing to do; the lineage covers everything up to there.")
        self.stale = find_stale_slices(runner.pipeline, runner.warehouse, runner.tables.ledger, parent)
        if self.stale.advice:
            self.lines(f"{self.pipeline}: {self.stale.advice}")


def _lines_with_warnings(pipeline: Pipeline, staged_slice: StagedSlice) -> Iterator[str]:
    yield from lines_of(pipeline, staged_slice)
    for check in staged_slice.checks:
        if not check.passed and check.severity == "warn":
            yield f"  warning: {check.expectation}: {check.observed}"
    if staged_slice.is_accepted:
        yield f"  {staged_slice.verdict}{failures_text(staged_slice)}"
