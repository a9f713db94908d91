"""Slice after slice: the verb `run` as a whole, and the pieces that other verbs and the demo share with it.

Stages, validates and publishes each slice with a ledger commit of its own; a rejected slice stops it and the
earlier ones stay.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from slackwater.jobs import args
from slackwater.jobs.engines import planner
from slackwater.jobs.engines.operator import OperatorEngine
from slackwater.jobs.engines.small_slices import SparkWhereNeeded
from slackwater.jobs.engines.transport import Transport
from slackwater.jobs.errors import RejectedError, UsageError
from slackwater.jobs.pipelines import Pipeline, registry
from slackwater.jobs.pipelines.pipeline import milliseconds
from slackwater.jobs.protocol import validation
from slackwater.jobs.protocol.adoption import Adoption
from slackwater.jobs.protocol.close import close
from slackwater.jobs.protocol.closed import refuse_closed
from slackwater.jobs.protocol.declared import Declared
from slackwater.jobs.protocol.erasure import Erasure
from slackwater.jobs.protocol.maintain import Maintenance
from slackwater.jobs.protocol.moves import Moves, find_branch
from slackwater.jobs.protocol.publish import Publisher
from slackwater.jobs.protocol.publish_branch import BranchPublisher
from slackwater.jobs.protocol.rebuild import Rebuild
from slackwater.jobs.protocol.redrive import Redrive
from slackwater.jobs.protocol.roll_forward import RollForward
from slackwater.jobs.protocol.run import Parent, Prepared, Runner, Staged, checked_source
from slackwater.jobs.protocol.slices import Lineage, Slice, choose, iso
from slackwater.jobs.protocol.table_checks import TableChecks
from slackwater.jobs.protocol.verify import Verifier
from slackwater.jobs.runtime.settings import tasks_here
from slackwater.jobs.tables.ledger import MAIN, LedgerRow
from slackwater.jobs.tables.warehouse import Warehouse


class SliceRejected(RejectedError):
    """A slice was rejected by validation; it moved nothing."""


@dataclass(frozen=True)
class Request:
    """What `slackwater run` was asked for; times in milliseconds of UTC.

    Attributes:
        pipeline: its name.
        to_ms: where the last slice ends.
        from_ms: start of the one slice wanted; None to catch up from the head.
        start_ms: where an empty lineage begins instead of `Pipeline.start`.
        publish: whether slices are made live one by one, or only staged.
        everything: whether `max_catch_up` is lifted.
        branch: where to run; its head is what the first slice continues.
        engine, ranges: overrides of the planner's choice; None for its own.
    """

    pipeline: str
    to_ms: int
    from_ms: int | None = None
    start_ms: int | None = None
    publish: bool = True
    everything: bool = False
    engine: str | None = None
    ranges: int | None = None
    branch: str = MAIN


@dataclass
class CatchUp:
    """Runs what a request asks for.

    Attributes:
        runner: makes a runner when there is work to do; Spark starts only then.
        lines: where a line for each slice goes.
        staged: the slices staged so far.
    """

    request: Request
    runner: Callable[[], Runner]
    lines: Callable[[str], object] = print
    staged: list[Staged] = field(default_factory=list)

    @classmethod
    def on_spark(
        cls, request: Request, warehouse: str | None, pipelines: str | None, lines: Callable[[str], object]
    ) -> "CatchUp":
        """Runs in a Spark session that is made for it."""

        def make() -> Runner:
            return runner_for(request, warehouse, pipelines, spark_transport(request.pipeline))

        return cls(request, make, lines)

    def run(self) -> list[LedgerRow]:
        """Stage, and unless asked otherwise publish, slice after slice. Returns the rows committed.

        Raises:
            SliceRejected: validation said no; the message has the failing values.
            SlackwaterError: see `Prepared.stage` and `Publisher.commit`.
        """
        runner = self.runner()
        prepared = runner.prepare()
        publish = Publisher(
            runner.pipeline.name,
            prepared.tables,
            RollForward.of(runner.pipeline, prepared.tables, prepared.shape),
            runner.clock,
        )
        publish.roll_forward.finish()
        # One look at the head: slices chosen by one head and run on a newer one would be run twice.
        parent = self._parent(prepared)
        if parent.row is not None and self.request.start_ms is not None:
            raise UsageError(
                f"{runner.pipeline.name}: --start is for an empty lineage; this one has runs already. Leave "
                "it out."
            )
        lineage = prepared.lineage(parent, self.request.start_ms)
        slices = self._slices(runner.pipeline, lineage)
        if slices and runner.pipeline.expect:
            threading.Thread(target=_load_judge, name="great expectations", daemon=True).start()
        if not slices:
            self.lines(f"{runner.pipeline.name}: nothing to do; the lineage covers everything up to there.")
        committed: list[LedgerRow] = []
        for slice_ in slices:
            staged = prepared.stage(parent, slice_)
            self.staged.append(staged)
            self.lines(line_of(staged))
            for check in staged.checks:
                if not check.passed and check.severity == "warn":
                    self.lines(f"  warning: {check.expectation}: {check.observed}")
            if staged.verdict == validation.FAILED:
                raise SliceRejected(rejection(runner.pipeline.name, staged))
            if self.request.publish:
                [row] = publish.commit(
                    [staged.attempt],
                    [staged.row],
                    None if parent.row is None else parent.row.seq,
                    self.request.branch,
                )
                committed.append(row)
            else:
                row = staged.row
            parent = Parent(row, row, lineage.start_ms, parent.restated)
        return committed

    def _parent(self, prepared: Prepared) -> Parent:
        """What the first slice continues."""
        name, branch = self.request.pipeline, self.request.branch
        if branch != MAIN:
            if not self.request.publish:
                raise UsageError(
                    f"{name}: --no-publish is for main; what runs on a branch changes nothing that readers "
                    "see."
                )
            find_branch(prepared.tables.ledger, name, branch)
        parent = prepared.parent(branch)
        refuse_closed(name, parent.owner)
        return parent

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.request.pipeline

    def told(self) -> tuple[args.Outcome, str]:
        """How it has ended well, and a sentence on it."""
        count = len(self.staged)
        if count == 0:
            return "nothing", f"nothing to do: the lineage covers everything up to {iso(self.request.to_ms)}"
        return (
            "staged",
            f"{count} slice{'' if count == 1 else 's'} {'published' if self.request.publish else 'staged'}",
        )

    def _slices(self, pipeline: Pipeline, lineage: Lineage) -> list[Slice]:
        most = None if self.request.everything else pipeline.max_catch_up
        return choose(
            pipeline.name,
            lineage,
            self.request.from_ms,
            self.request.to_ms,
            milliseconds(pipeline.slice),
            most,
        )


def _load_judge() -> None:
    with suppress(ImportError):  # who needs it and finds it missing says so
        validation.load_judge()


def runner_for(
    request: Request, warehouse: str | None, pipelines: str | None, transport: Callable[[], Transport]
) -> Runner:
    """A runner of the request's pipeline in a warehouse. `transport` is called last, when everything else is
    known to be right.
    """
    found = registry.load(pipelines)
    pipeline = found[request.pipeline]
    if request.ranges is not None and request.ranges > pipeline.max_parallelism:
        raise UsageError(
            f"{pipeline.name}: --partitions {request.ranges} is more than the {pipeline.max_parallelism} key "
            "groups that there are to be "
            "divided (Pipeline.max_parallelism). Ask for no more than those, or leave it out.",
            partitions=request.ranges,
        )
    where = Warehouse.at(warehouse)
    hashes = registry.config_hash(pipeline), found.code_hash(request.pipeline)
    checked = checked_source(where, pipeline)
    engine = planner.choose(pipeline, checked[0].schema, request.engine).make()
    here = SparkWhereNeeded(transport, tasks_here())
    return Runner(
        where,
        pipeline,
        *hashes,
        registry.product_version(),
        engine,
        here,
        ranges=request.ranges,
        checked=checked,
    )


def spark_transport(app: str) -> Callable[[], Transport]:
    """Makes the transport on a Spark session of that name, to which the user's pipelines that are loaded by
    then are known.
    """

    def make() -> Transport:
        from slackwater.jobs.engines.transport import OnSpark
        from slackwater.jobs.runtime.session import session
        from slackwater.jobs.runtime.user_code import ship

        spark = session(f"slackwater {app}")
        ship(spark, registry.loaded_by_value(), registry.loaded_files())
        return OnSpark(spark)

    return make


def publisher(name: str, warehouse: str | None, pipelines: str | None) -> Publisher:
    """Publishes staged runs of a registered pipeline. Columns come from the stored tables, so neither Spark
    nor the source is needed.
    """
    pipeline = registry.load(pipelines)[name]
    tables = Warehouse.at(warehouse).stored(name, pipeline.sides)
    declared = Declared(pipeline, registry.config_hash(pipeline), tables)
    return Publisher(name, tables, RollForward.of_stored(pipeline, tables), declared=declared)


def maintenance(name: str, warehouse: str | None, pipelines: str | None) -> Maintenance:
    """The upkeep of a registered pipeline's tables. Needs neither Spark nor the source."""
    made = publisher(name, warehouse, pipelines)
    return Maintenance(registry.load(pipelines)[name], made.tables, made.roll_forward)


def rebuilding(name: str, warehouse: str | None, pipelines: str | None) -> Rebuild:
    """Mends the published tables of a registered pipeline. Needs neither Spark nor the source."""
    made = publisher(name, warehouse, pipelines)
    return Rebuild(name, made.tables, made.roll_forward, registry.product_version())


def table_checks(name: str, warehouse: str | None, pipelines: str | None) -> TableChecks:
    """The checks of a registered pipeline's tables. Needs neither Spark nor the source."""
    made = publisher(name, warehouse, pipelines)
    return TableChecks(name, made.tables, made.roll_forward, tuple(registry.load(pipelines)[name].sides))


def redriving(name: str, warehouse: str | None, pipelines: str | None) -> Redrive:
    """Redrives late rows of a registered pipeline. Spark starts only for a slice that is large."""
    made = publisher(name, warehouse, pipelines)
    return Redrive(
        Warehouse.at(warehouse),
        registry.load(pipelines)[name],
        made.roll_forward,
        spark_transport(f"redrive {name}"),
    )


def moves(name: str, warehouse: str | None, pipelines: str | None) -> Moves:
    """Moves the lineage of a registered pipeline. Needs neither Spark nor the source."""
    made, pipeline = publisher(name, warehouse, pipelines), registry.load(pipelines)[name]
    declared = Declared(pipeline, registry.config_hash(pipeline), made.tables)
    return Moves(name, made.tables, made.roll_forward, declared, registry.product_version())


def adoption(name: str, warehouse: str | None, pipelines: str | None) -> Adoption:
    """Declares another table the same as the source of a registered pipeline. Needs no Spark."""
    made, where, pipeline = (
        publisher(name, warehouse, pipelines),
        Warehouse.at(warehouse),
        registry.load(pipelines)[name],
    )
    return Adoption(where, pipeline, made.tables, made.roll_forward, registry.product_version())


def erasing(name: str, warehouse: str | None, pipelines: str | None) -> Erasure:
    """Erases rows of a registered pipeline. Needs no Spark."""
    made, where, pipeline = (
        publisher(name, warehouse, pipelines),
        Warehouse.at(warehouse),
        registry.load(pipelines)[name],
    )
    return Erasure(where, pipeline, made.tables, made.roll_forward, registry.product_version())


def close_on_spark(
    name: str, warehouse: str | None, pipelines: str | None, lines: Callable[[str], object]
) -> LedgerRow | None:
    """Close a registered pipeline's lineage, in a Spark session that is made for it. None where it is closed
    already.

    Raises:
        SliceRejected: validation said no; nothing was closed.
        SlackwaterError: see `close.close`.
    """
    # Exact for every pipeline, and a snapshot is any engine's; what a close does is small.
    runner = runner_for(
        Request(name, 0, engine="operator"), warehouse, pipelines, spark_transport(f"close {name}")
    )
    prepared = runner.prepare()

    def told(staged: Staged) -> None:
        lines(line_of(staged))
        if staged.verdict == validation.FAILED:
            raise SliceRejected(rejection(name, staged))

    made = Publisher(
        name, prepared.tables, RollForward.of(runner.pipeline, prepared.tables, prepared.shape), runner.clock
    )
    return close(prepared, made, told)


def publish_branch(name: str, branch: str, warehouse: str | None, pipelines: str | None) -> LedgerRow | None:
    """Make a branch of a registered pipeline live; None where main has all its runs. Needs no Spark; the
    source says what was read twice.

    Raises:
        SlackwaterError: see `BranchPublisher.publish_as_it_is`.
    """
    made = publisher(name, warehouse, pipelines)
    pipeline = registry.load(pipelines)[name]
    drops_history = pipeline.keep_history is not None
    work = BranchPublisher(
        name, made.tables, made.roll_forward, registry.product_version(), drops_history=drops_history
    )
    return work.publish_as_it_is(branch, pipeline, Warehouse.at(warehouse))


def verifier(name: str, warehouse: str | None, pipelines: str | None) -> Verifier:
    """Repeats recorded runs of a registered pipeline."""
    found = registry.load(pipelines)
    pipeline = found[name]
    return Verifier(
        Warehouse.at(warehouse),
        pipeline,
        found.code_hash(name),
        OperatorEngine(),
        spark_transport(f"verify {name}"),
    )


def line_of(staged: Staged) -> str:
    """One line for a slice: what it read, fired, missed and parked."""
    row = staged.row
    assert row.slice_start is not None and row.slice_end is not None
    seconds = sum(took for phase, took in row.phase_seconds.items() if phase != "session")
    watermark = "none" if row.watermark_out is None else f"{row.watermark_out:%Y-%m-%dT%H:%M:%S}"
    return (
        f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M})  rows {row.rows_read:>7,}  "
        f"fired {row.windows_fired:>5,}  "
        f"refired {row.windows_refired:>5,}  too late {row.rows_late:>4,}  quarantined "
        f"{row.rows_quarantined:>4,}  "
        f"parked {row.windows_open:>5,}  watermark {watermark}  {seconds:.2f} s"
    )


def rejection(pipeline: str, staged: Staged) -> str:
    """What validation said, with the failing values and the next step."""
    row = staged.row
    assert row.slice_start is not None and row.slice_end is not None
    failing = [
        f"\n  {check.expectation}: {check.unexpected} of {check.checked} values, observed {check.observed}"
        + (f", e.g. {check.sample_json}" if check.sample_json else "")
        for check in staged.checks
        if not check.passed and check.severity == "reject"
    ]
    return (
        f"{pipeline}: the slice [{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M}) was "
        "rejected by validation; nothing was "
        f"moved.{''.join(failing)}\nIts panes stand in the table `panes` under run_id {row.run_id}. Mend the "
        "source or the expectation and "
        f"run again, or publish it all the same with `slackwater publish {pipeline} {row.run_id} --accept "
        "REASON`."
    )
