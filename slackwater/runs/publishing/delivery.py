"""Delivers committed corrections to the sinks of a pipeline, each behind its own position.

What comes after the position of a target is applied batch by batch: a target takes a batch only where its
position is the batch's start, and moves it to the batch's end in the same step. So a batch that is delivered
twice, by a second deliverer or after a death, changes nothing.

A ledger row with very many corrections is delivered in *lanes*, each with some of the key groups and
a position of its own, by tasks of Spark:

    target        (5, 2) ──▶ (6, -4): seq 6 is delivered in 4 lanes ──▶ (6, 8000000): all of it
    lane 0                    (6, 0) … (6, 1990000)
    lane 3                    (6, 0) … (6, 2003000)

Whoever finds a target in lanes goes on with them. Each applies its batches once, as the target does, and the
target moves on when all of them are done; the corrections of one ledger row are about different rows, so that
their order among each other does not matter.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from slackwater.errors import SlackwaterError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sinks import START, SetAside, Sink, SinkContext, SinkPosition, SinkTarget
from slackwater.pipelines.window_columns import all_columns, identifying_columns, telling_columns
from slackwater.runs.publishing.committed_corrections import (
    BATCH_ROWS,
    CORRECTIONS,
    CommittedCorrections,
    batches,
)
from slackwater.sinks.connections import variable_of
from slackwater.sinks.errors import SinkUnsuitable, sink_down
from slackwater.tables.grown_columns import results_of
from slackwater.tables.warehouse import Tables, Warehouse

# From so many corrections of one ledger row on, starting Spark takes less time than it saves.
LARGE_ROWS = 1_000_000
LANES = 8
# Calls a function with each number of a range, several at once.
Parallel = Callable[[Callable[[int], None], range], None]


@dataclass(frozen=True)
class SinkState:
    """How far a sink is.

    Attributes:
        position: None where the target can't be reached.
        newest_seq: the ledger row up to which there are corrections.
        backlog: how many corrections wait; None where the target can't be reached.
        problem: why it can't be reached, or does not suit.
        set_aside: the rows that it can't take as they are.
    """

    sink: Sink
    position: SinkPosition | None
    newest_seq: int
    backlog: int | None
    problem: str | None = None
    set_aside: tuple[SetAside, ...] = ()


@dataclass(frozen=True)
class DeliveredRows:
    """A delivery's result: corrections handed over, where the target is, and all rows that it can't take."""

    rows: int
    position: SinkPosition
    set_aside: tuple[SetAside, ...]


@dataclass(frozen=True)
class Delivery:
    """The sinks of one pipeline, and the corrections that they get.

    Attributes:
        batch_rows: a batch has no more rows.
        large_rows: a ledger row with so many corrections is delivered in lanes, where the target has some.
        parallel: calls the tasks of lanes; None: no delivery in lanes begins.
    """

    pipeline: Pipeline
    tables: Tables
    warehouse: str
    batch_rows: int = BATCH_ROWS
    large_rows: int = LARGE_ROWS
    parallel: Parallel | None = None

    @property
    def corrections(self) -> CommittedCorrections:
        return CommittedCorrections(self.tables, self.pipeline.keys, all_columns(self.pipeline))

    def context(self) -> SinkContext:
        schema = self.tables["published"].schema
        pipeline = self.pipeline
        ledger = self.tables["runs"].find()
        lineage = "" if ledger is None else ledger.table_id
        return SinkContext(
            pipeline=pipeline.name,
            lineage=lineage,
            warehouse=self.warehouse,
            keys=tuple((name, schema.field(name).type) for name in pipeline.keys),
            results=self._results(),
            identity=identity_of(pipeline),
            windows=tuple((name, schema.field(name).type) for name in telling_columns(pipeline)),
        )

    def _results(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The results that rows of `published` have: the declared ones, then the ones removed since."""
        stored_types = dict(results_of(self.tables[CORRECTIONS].schema))
        declared_names = [name for name in self.pipeline.published_results if name in stored_types]
        return tuple((name, stored_types[name]) for name in dict.fromkeys([*declared_names, *stored_types]))

    def sinks_named(self, name: str | None) -> Sequence[Sink]:
        """The sink of that name; all of them without one. Raises SinkUnsuitable: there is none."""
        sinks = [sink for sink in self.pipeline.sinks if name is None or sink.name == name]
        if name is not None and not sinks:
            names = ", ".join(sink.name for sink in self.pipeline.sinks) or "none"
            raise SinkUnsuitable(
                f"{self.pipeline.name}: there is no sink {name}; it declares {names}.", sink=name
            )
        return sinks

    def states(self, name: str | None = None) -> list[SinkState]:
        newest, states = self.corrections.newest_seq(), []
        for sink in self.sinks_named(name):
            try:
                with self._open_target(sink) as target:
                    position = target.position()
                    backlog = self.corrections.rows_after(position)
                    set_aside = tuple(target.set_aside())
                    states.append(SinkState(sink, position, newest, backlog, set_aside=set_aside))
            except SlackwaterError as error:
                states.append(SinkState(sink, None, newest, None, str(error)))
        return states

    def delivered_seq(self) -> int:
        """The ledger row up to which every sink has all corrections; 0 where one can't be reached."""
        states = self.states()
        if any(state.position is None for state in states):
            return 0
        return min(
            seq
            for state in states
            if state.position is not None
            for seq in (
                state.position.seq - 1 if state.backlog else state.newest_seq,
                *(row.seq - 1 for row in state.set_aside),
            )
        )

    def deliver(self, sink: Sink) -> DeliveredRows:
        """Deliver to one sink what it lacks.

        Raises:
            SinkDown: the target can't be reached, or a function of the user has raised.
            SinkUnsuitable: it is not what the sink needs.
        """
        count = 0
        with self._open_target(sink) as target:
            position = self._require_known(sink, target.position())
            while True:
                if position.offset < 0:
                    self._deliver_lanes(sink, position)
                    end = self.corrections.end_of(position.seq)
                    if target.deliver(self._no_changes(), position, end):
                        count, position = count + self.corrections.rows_of(end.seq), end
                        continue
                    position = target.position()
                large_seq = self._large_seq_after(target, position)
                until = self.corrections.newest_seq() if large_seq is None else large_seq - 1
                for batch in batches(self.corrections.after(position, until), position, self.batch_rows):
                    if not target.deliver(*batch):
                        break
                    count, position = count + batch.changes.num_rows, batch.end
                else:
                    if large_seq is None:
                        return DeliveredRows(count, position, tuple(target.set_aside()))
                    target.deliver(self._no_changes(), position, SinkPosition(large_seq, -LANES))
                position = target.position()  # another deliverer may have moved it

    def retry(self, sink: Sink) -> DeliveredRows:
        """`deliver`, and once more the corrections of rows that are set aside."""
        delivered_rows = self.deliver(sink)
        count, identity = delivered_rows.rows, list(self.context().identity)
        with self._open_target(sink) as target:
            position = target.position()
            for changes in self.corrections.set_aside_parts(target.set_aside(), identity):
                # Where somebody has moved the position, a newer correction may have come.
                if not target.deliver(changes, position, position):
                    break
                count += changes.num_rows
            return DeliveredRows(count, position, tuple(target.set_aside()))

    def deliver_lane(self, sink: Sink, seq: int, number: int, count: int) -> None:
        """Deliver the lane `number` of `count` of a ledger row; called in a task."""
        groups = self.pipeline.max_parallelism
        key_groups = range(groups * number // count, groups * (number + 1) // count)
        with self._open_target(sink) as target:
            lane = target.lane(number)
            assert lane is not None, "only targets with lanes are delivered in lanes"
            position = lane.position()
            while True:
                start = position if position.seq == seq else SinkPosition(seq, 0)
                corrections = self.corrections.row_parts(start, key_groups)
                for batch in batches(corrections, position, self.batch_rows):
                    if not lane.deliver(*batch):
                        break
                    position = batch.end
                else:
                    return
                position = lane.position()  # another deliverer has moved it

    def _large_seq_after(self, target: SinkTarget, position: SinkPosition) -> int | None:
        if self.parallel is None:
            return None
        seq = self.corrections.first_seq_of(self.large_rows, position)
        return None if seq is None or target.lane(0) is None else seq

    def _deliver_lanes(self, sink: Sink, position: SinkPosition) -> None:
        lanes = range(-position.offset)
        variable = variable_of(getattr(sink, "url", ""))
        task = LaneTask(
            pipeline=self.pipeline,
            sink=sink,
            warehouse=self.warehouse,
            batch_rows=self.batch_rows,
            position=position,
            environment={} if variable is None else {variable: os.environ.get(variable, "")},
        )
        if self.parallel is None:
            for number in lanes:
                task(number)
        else:
            self.parallel(task, lanes)

    def _no_changes(self) -> pa.Table:
        return self.tables[CORRECTIONS].schema.empty_table()

    def reset(self, sink: Sink, to_seq: int | None) -> SinkPosition:
        """Have the corrections after ledger row `to_seq`, or all, delivered again by the next delivery.

        Raises:
            SinkUnsuitable: there is no such ledger row.
            SinkDown: the target can't be reached.
        """
        newest = self.corrections.newest_seq()
        if to_seq is not None and to_seq > newest:
            raise SinkUnsuitable(
                f"{self.pipeline.name}: corrections stand up to ledger row {newest}; there is no {to_seq}. "
                f"`slackwater runs {self.pipeline.name}` lists the rows.",
                seq=to_seq,
            )
        position = START if to_seq is None else self.corrections.end_of(to_seq)
        with self._open_target(sink) as target:
            target.reset(position)
        return position

    def _require_known(self, sink: Sink, position: SinkPosition) -> SinkPosition:
        if position.seq > self.corrections.newest_seq():
            raise SinkUnsuitable(
                f"sink {sink.name}: its target has corrections up to ledger row {position.seq}, and there "
                f"are none behind {self.corrections.newest_seq()}: the ledger is older than what was "
                "delivered. Put the ledger back, or say where to go on: `slackwater sinks reset "
                f"{self.pipeline.name} {sink.name} --to SEQ`.",
                sink=sink.name,
            )
        return position

    def _open_target(self, sink: Sink) -> "_OpenedTarget":
        return _OpenedTarget(sink, self.context())


@dataclass(frozen=True)
class LaneTask:
    """Delivers one lane, in a process of its own. `position`: the ledger row and, negative, the number of
    lanes; `environment`: variables of the driver from which URLs of sinks are read.
    """

    pipeline: Pipeline
    sink: Sink
    warehouse: str
    batch_rows: int
    position: SinkPosition
    environment: Mapping[str, str]

    def __call__(self, number: int) -> None:
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)
        tables = Warehouse(self.warehouse).stored_tables(self.pipeline.name, self.pipeline.side_columns)
        delivery = Delivery(self.pipeline, tables, self.warehouse, self.batch_rows)
        delivery.deliver_lane(self.sink, self.position.seq, number, -self.position.offset)


class _OpenedTarget:
    """A block with an opened target; what a target raises counts as its being down."""

    def __init__(self, sink: Sink, context: SinkContext) -> None:
        self._sink, self._context = sink, context
        self._target: SinkTarget | None = None

    def __enter__(self) -> SinkTarget:
        try:
            self._target = self._sink.open(self._context)
        except Exception as error:
            raise self._down(error) from error
        return self._target

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        assert self._target is not None
        try:
            self._target.close()
        except Exception as failure:
            if error is None:
                raise self._down(failure) from failure
        if isinstance(error, Exception) and not isinstance(error, SlackwaterError):
            raise self._down(error) from error

    def _down(self, error: Exception) -> SlackwaterError:
        if isinstance(error, SlackwaterError):
            return error
        return sink_down(self._context.pipeline, self._sink.name, "its target has failed", error)


def identity_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The columns that identify rows of `published`; none is ever null."""
    if pipeline.keyed_process is not None:
        return (*pipeline.keys, "timestamp", "run_id", "ordinal")
    window = identifying_columns(pipeline)
    firing = ("firing",) if pipeline.purges or not window else ()
    ordinal = ("ordinal",) if pipeline.process is not None else ()
    return (*pipeline.keys, *window, *firing, *ordinal)
