"""A registered pipeline in a warehouse, opened once per command: it makes the part of the protocol that does
the work of a verb.

The only place where these parts are put together. A user's file is loaded once, and Spark starts with the
first task that needs it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from slackwater.engine import planner
from slackwater.engine.transport.in_process import Transport
from slackwater.engine.transport.in_processes import InProcesses
from slackwater.engine.transport.placement import On
from slackwater.engine.transport.small_slices import SparkWhereNeeded
from slackwater.engine.transport.task_processes import TaskProcesses
from slackwater.errors import SlackwaterError
from slackwater.pipelines import Pipeline, registry
from slackwater.pipelines.registry import Registry
from slackwater.pipelines.suites import require_library
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.lineage.erasure import Erasure
from slackwater.runs.lineage.maintain import Maintenance
from slackwater.runs.lineage.moves import Moves, close
from slackwater.runs.lineage.table_checks import TableChecks
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runs.publishing.delivery import Delivery, Parallel
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.publishing.portion_tasks import PortionTasks
from slackwater.runs.publishing.publish import Publisher
from slackwater.runs.publishing.rebuild import Rebuild
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.backfill import Backfill, BackfillRequest
from slackwater.runs.restating.publish_branch import BranchPublisher
from slackwater.runs.restating.redrive import Redrive
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.shapes import checked_sources
from slackwater.runtime.settings import is_local, task_environment, tasks_here
from slackwater.sinks.errors import rows_set_aside
from slackwater.tables.damaged_tables import take_back_tables
from slackwater.tables.errors import NoRuns
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Tables, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Lines = Callable[[str], object]

# What tasks import, besides the user's own code.
_TASK_IMPORTS = (planner.__name__, "pyspark.cloudpickle")


@dataclass(frozen=True)
class OpenedPipeline:
    """A pipeline with its registry, its warehouse and its tables. Each of these is opened on first use.

    Attributes:
        warehouse_uri: folder or URI; None: SLACKWATER_WAREHOUSE, else ./warehouse.
        pipelines: the user's file or module; None: SLACKWATER_PIPELINES, else our examples alone.
        on: where slices are replayed; None: as the pipeline declares.
    """

    name: str
    warehouse_uri: str | None = None
    pipelines: str | None = None
    on: On | None = None

    @cached_property
    def registry(self) -> Registry:
        return registry.load(self.pipelines)

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse.at(self.warehouse_uri)

    @property
    def pipeline(self) -> Pipeline:
        """The declaration; UnknownPipeline where none of that name is registered."""
        return self.registry[self.name]

    @cached_property
    def tables(self) -> Tables:
        """The stored tables, with the columns that the last run gave them; NoRuns where nothing has run
        yet. Needs neither Spark nor the source.
        """
        pipeline = self.pipeline
        return self.warehouse.stored_tables(self.name, pipeline.side_columns)

    @cached_property
    def roll_forward(self) -> RollForward:
        return RollForward.from_stored(self.pipeline, self.tables, self._portion_tasks())

    @property
    def config_hash(self) -> str:
        return registry.config_hash(self.pipeline)

    @property
    def code_hash(self) -> str:
        """The hash over the pipeline's files and our version."""
        return self.registry.code_hash(self.name)

    def _spark(self, purpose: str | None) -> Callable[[], Transport]:
        """Makes the transport on a Spark session; where `on` is `spark`, its tasks do all work."""
        app = self.name if purpose is None else f"{purpose} {self.name}"
        return spark_transport(app, here_bytes=-1) if self._on == "spark" else spark_transport(app)

    def transport(self, purpose: str | None = None) -> SparkWhereNeeded:
        """The transport of replays, which begins without Spark where that is sooner."""
        can_pickle = find_spec("pyspark") is not None  # whose pickles hold the user's own code
        return SparkWhereNeeded(
            self._spark(purpose), tasks_here(), processes=_processes if can_pickle else None, on=self._on
        )

    @property
    def _on(self) -> On:
        return self.pipeline.on if self.on is None else self.on

    def runner(
        self,
        engine: str | None = None,
        ranges: int | None = None,
        transport: Callable[[], Transport] | None = None,
    ) -> Runner:
        """The runner of slices, after a look at the source, whose tables are made if need be. `engine` and
        `ranges` (number of key ranges) replace the planner's choice; `transport` makes another transport than
        `transport()`. Raises UsageError: the source is missing, empty, or lacks a column; the warehouse can't
        be written; the pipeline has a suite, and Great Expectations is not installed.
        """
        pipeline = self.pipeline
        sources, shape = checked_sources(self.warehouse, pipeline)
        chosen_engine = planner.choose(pipeline, sources.schema, engine).make()
        if pipeline.suites:
            require_library(f"Pipeline {self.name!r}")
        tables = self.warehouse.tables(self.name, shape).ensure()
        return Runner(
            warehouse=self.warehouse,
            pipeline=pipeline,
            shape=tables.shape(shape),
            tables=tables,
            config_hash=self.config_hash,
            code_hash=self.code_hash,
            engine=chosen_engine,
            transport=self.transport() if transport is None else transport(),
            ranges=ranges,
        )

    def planner(self) -> RangePlanner:
        """Plans runs and restatements, without Spark; the pipeline need not have run yet."""
        return RangePlanner(self.warehouse, self.pipeline, self._on)

    def catch_up(self, request: CatchUpRequest, lines: Lines = print) -> CatchUp:
        return CatchUp(request, lambda: self.runner(request.engine, request.ranges), lines)

    def backfill(self, request: BackfillRequest, lines: Lines = print) -> Backfill:
        return Backfill(request, lambda: self.runner(request.engine, request.ranges), lines)

    def close(self, lines: Lines = print) -> LedgerRow | None:
        """Close the lineage; None where it is closed already. Raises as `close.close`."""
        return close(Evaluator(self.runner(transport=partial(self.transport, "close")), lines))

    def publisher(self) -> Publisher:
        return Publisher(self.name, self.tables, self.roll_forward, declarations=self._declarations())

    def delivery(self) -> Delivery:
        parallel = None if self._on == "here" else spark_tasks(self.name)
        return Delivery(self.pipeline, self.tables, self.warehouse.root, parallel=parallel)

    @contextmanager
    def delivering(self, warn: Lines, *, delivers: bool = True) -> Iterator[None]:
        """Run a block that publishes, then deliver what it has published to every sink, also where it ends
        with an error of ours. For a sink that is down the block ends no differently, and `warn` gets
        a line on what waits.
        """
        try:
            yield
        except SlackwaterError:
            self._deliver(warn, delivers=delivers)
            raise
        self._deliver(warn, delivers=delivers)

    def _deliver(self, warn: Lines, *, delivers: bool) -> None:
        if not delivers or not self.pipeline.sinks:
            return
        try:
            delivery = self.delivery()
        except NoRuns:
            return
        for sink in self.pipeline.sinks:
            try:
                delivered_rows = delivery.deliver(sink)
                if delivered_rows.set_aside:
                    warn(f"warning: {rows_set_aside(sink.name, self.name, delivered_rows.set_aside)}")
            except SlackwaterError as error:
                warn(f"warning: {error}")
                [state] = delivery.states(sink.name)
                if state.backlog is not None:
                    warn(f"  {state.backlog:,} corrections wait for the sink {sink.name}")

    def branch_publisher(self) -> BranchPublisher:
        return BranchPublisher(self.pipeline, self.warehouse, self.tables, self.roll_forward)

    def rebuild(self) -> Rebuild:
        """Take the tables back to what runs have written, remove copies of rows from the published tables,
        and correct `published` by the panes.
        """
        taken_back = take_back_tables(self.warehouse, self.name, self.pipeline.side_columns)
        return Rebuild(self.name, self.tables, self.roll_forward, taken_back=tuple(taken_back))

    def compute_results(self) -> LedgerRow | None:
        """Bring all that is published to the results and the condition that are declared now; None where it
        is. Raises as `runner`; NoRuns: nothing has run yet.
        """
        self.warehouse.stored_tables(self.name, self.pipeline.side_columns)
        _, shape = checked_sources(self.warehouse, self.pipeline)
        tables = self.warehouse.tables(self.name, shape).ensure()
        roll_forward = RollForward.from_stored(self.pipeline, tables, self._portion_tasks())
        return Rebuild(self.name, tables, roll_forward).compute_results()

    def maintenance(self) -> Maintenance:
        delivered_seq = self.delivery().delivered_seq if self.pipeline.sinks else None
        return Maintenance(self.pipeline, self.tables, self.roll_forward, delivered_seq)

    def table_checks(self) -> TableChecks:
        sides = tuple(self.pipeline.side_columns)
        tables = self.warehouse.tables_with_foreign_commits(self.name, sides)
        roll_forward = RollForward.from_stored(self.pipeline, tables, self._portion_tasks())
        return TableChecks(self.name, tables, roll_forward, sides)

    def verifier(self) -> Verifier:
        return Verifier(self.warehouse, self.pipeline, self.code_hash, None, self.transport("verify"))

    def redrive(self) -> Redrive:
        """Gives late rows an earlier arrival. Spark starts only where a large slice is looked at again."""
        return Redrive(self.warehouse, self.pipeline, self.roll_forward, partial(self.transport, "redrive"))

    def moves(self) -> Moves:
        return Moves(self.name, self.tables, self.roll_forward, self._declarations())

    def erasure(self) -> Erasure:
        return Erasure(self.warehouse, self.pipeline, self.tables, self.roll_forward)

    def _portion_tasks(self) -> PortionTasks | None:
        """Tasks of Spark, which starts with the first large run; None where it is not installed."""
        if find_spec("pyspark") is None:
            return None
        return PortionTasks(self.transport("publish"))

    def _declarations(self) -> Declarations:
        return Declarations(self.pipeline, self.config_hash, self.tables)


@cache
def _processes() -> InProcesses:
    """The transport on processes of this machine, which get the user's code and stay for the next slice."""
    from slackwater.runtime.packaging import pickled

    return InProcesses(
        TaskProcesses(
            tasks_here(),
            lambda task: pickled(task, registry.loaded_by_value()),
            task_environment(),
            _TASK_IMPORTS,
        )
    )


def spark_transport(app: str, here_bytes: int | None = None) -> Callable[[], Transport]:
    """Makes the transport on a Spark session of that name, to which the loaded pipelines of the user are
    known. For `here_bytes` see `OnSpark`.
    """

    def make() -> Transport:
        from slackwater.engine.transport.on_spark import HERE_BYTES, OnSpark

        return OnSpark(_session(f"slackwater {app}"), HERE_BYTES if here_bytes is None else here_bytes)

    return make


def spark_tasks(pipeline: str) -> Parallel | None:
    """Calls a function in tasks of Spark, on a session named after the pipeline; None without Spark."""
    if find_spec("pyspark") is None:
        return None

    def run(task: Callable[[int], None], numbers: range) -> None:
        spark = _session(f"slackwater deliver {pipeline}")
        spark.sparkContext.parallelize(list(numbers), len(numbers)).foreach(task)

    return run


def _session(app: str) -> "SparkSession":
    """The Spark session, whose executors compute with the driver's versions and have the user's code."""
    from slackwater.runtime.executors import check_executors
    from slackwater.runtime.packaging import ship
    from slackwater.runtime.session import session

    spark = session(app)
    if not is_local(spark.sparkContext.master):
        check_executors(spark)
    ship(spark, registry.loaded_by_value(), registry.loaded_files())
    return spark
