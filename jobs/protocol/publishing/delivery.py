"""Delivers committed corrections to the sinks of a pipeline, each behind its own position.

    corrections     seq 4        seq 5            seq 6
                    c c c c c    c c c c c c c    c c        in an order that never changes
    target                  ^ (5, 2): all of seq 4, two of seq 5

What comes after the position is read in order, cut into batches, and applied one by one: a target takes a
batch only where its position is the batch's start, and moves it to the batch's end in the same step. So a
batch that is delivered twice, by a second deliverer or after a death, changes nothing.

Within a ledger row the order is by key group and key, what is withdrawn of a key first, then by the columns
that tell rows apart. Corrections of a row are read by ranges of key groups, so memory does not grow with a
run.

An erasure takes corrections away, and the offset into a row that was delivered in part then says nothing:
such a row is delivered from its beginning.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.errors import SlackwaterError, without_credentials
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.sinks import START, Sink, SinkContext, SinkPosition, SinkTarget
from slackwater.jobs.protocol.publishing.portions import portions
from slackwater.jobs.protocol.publishing.roll_forward import rolled_forward_to
from slackwater.jobs.sinks.errors import SinkDown, SinkUnsuitable
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import MAIN
from slackwater.jobs.tables.warehouse import Tables
from slackwater.windowing import GlobalWindows

CORRECTIONS = "corrections"
# A batch is as full as this, or has waited so long for its next row.
BATCH_ROWS = 10_000
BATCH_SECONDS = 30.0


class Batch(NamedTuple):
    """Corrections on their way to a target.

    Attributes:
        changes: rows of `corrections`, in order.
        start, end: the positions between which they lie.
    """

    changes: pa.Table
    start: SinkPosition
    end: SinkPosition


@dataclass(frozen=True)
class CommittedCorrections:
    """The corrections of one pipeline's main, in the order in which they are delivered.

    Attributes:
        tables: the pipeline's tables.
        keys: its key columns.
        portion_rows: about so many rows are held at once.
    """

    tables: Tables
    keys: tuple[str, ...]
    portion_rows: int = 1 << 20

    def newest_seq(self) -> int:
        """The ledger row up to which corrections stand; 0 for none."""
        with self.tables[CORRECTIONS].handle() as table:
            return rolled_forward_to(table)

    def rows_after(self, position: SinkPosition) -> int:
        """How many corrections come after `position`."""
        after = self._files(position.seq + 1, None)
        count = sum(part.num_rows for part in after.scan(["seq"], pc.field("seq") > position.seq, 1 << 20))
        return count + max(0, self.rows_of(position.seq) - self._offset(position))

    def rows_of(self, seq: int) -> int:
        """How many corrections a ledger row has."""
        of_row = self._files(seq, seq).scan(["seq"], pc.field("seq") == seq, 1 << 20)
        return sum(part.num_rows for part in of_row)

    def after(self, position: SinkPosition) -> Iterator[tuple[pa.Table, SinkPosition]]:
        """The corrections after `position`, some of one ledger row at once, each time with the position
        before them.
        """
        for seq in self._seqs(position.seq, self.newest_seq()):
            offset, rows_delivered = 0, self._offset(position) if seq == position.seq else 0
            for rows in self._of_row(seq):
                count, rows = rows.num_rows, rows.slice(max(0, rows_delivered - offset))
                if rows.num_rows:
                    yield rows, SinkPosition(seq, offset + count - rows.num_rows)
                offset += count

    def _seqs(self, first: int, last: int) -> Iterator[int]:
        """Ledger rows of main that may have corrections, from `first` to `last`, both included."""
        for row in self.tables.ledger.rows(since=first - 1):
            if row.branch == MAIN and row.seq <= last and row.kind != RowKind.ERASE:
                yield row.seq

    def _offset(self, position: SinkPosition) -> int:
        """How many corrections of the position's ledger row are behind it."""
        if not position.offset:
            return 0
        later = self.tables.ledger.rows(since=position.seq)
        return 0 if any(row.kind == RowKind.ERASE for row in later) else position.offset

    def _of_row(self, seq: int) -> Iterator[pa.Table]:
        files = self._files(seq, seq)
        order = [
            ("key_group", "ascending"),
            *((key, "ascending") for key in self.keys),
            ("__is_standing", "ascending"),
            *(
                (name, "ascending")
                for name in ("window_start", "window_end", "timestamp", "run_id", "firing", "ordinal")
            ),
        ]
        for portion in portions([files.actions], self.portion_rows):
            rows = files.read(files.schema.names, (pc.field("seq") == seq) & portion.where)
            is_standing = pc.not_equal(rows.column("op"), "withdraw")
            yield rows.take(pc.sort_indices(rows.append_column("__is_standing", is_standing), order))

    def _files(self, first: int, last: int | None) -> StoredFiles:
        return self.tables[CORRECTIONS].files(Within("seq", first, last))


def batches(
    corrections: Iterator[tuple[pa.Table, SinkPosition]],
    start: SinkPosition,
    rows: int = BATCH_ROWS,
    seconds: float = BATCH_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Batch]:
    """`corrections` cut into batches of at most `rows`, behind `start`. A batch that has waited for `seconds`
    is not filled up. Nothing is read ahead: who applies a batch slowly is read for slowly.
    """
    parts: list[pa.Table] = []
    count, began, end = 0, clock(), start
    for table, before in corrections:
        for cut in _cuts(table.num_rows, rows - count, rows):
            piece = table.slice(cut.start, len(cut))
            parts.append(piece)
            count, end = count + piece.num_rows, SinkPosition(before.seq, before.offset + cut.stop)
            if count == rows or clock() - began >= seconds:
                yield Batch(pa.concat_tables(parts), start, end)
                parts, count, began, start = [], 0, clock(), end
    if parts:
        yield Batch(pa.concat_tables(parts), start, end)


def _cuts(count: int, first: int, most: int) -> Iterator[range]:
    """`count` rows as a first piece of at most `first` and others of at most `most`."""
    begin, end = 0, min(first, count)
    while begin < count:
        yield range(begin, end)
        begin, end = end, min(end + most, count)


@dataclass(frozen=True)
class SinkState:
    """How far a sink is.

    Attributes:
        sink: the declaration.
        position: of the target; None where it can't be reached.
        newest_seq: the ledger row up to which there are corrections.
        backlog: how many of them were not delivered; None where the target can't be reached.
        problem: why it can't be reached, or does not suit.
    """

    sink: Sink
    position: SinkPosition | None
    newest_seq: int
    backlog: int | None
    problem: str | None = None


@dataclass(frozen=True)
class DeliveredRows:
    """What a delivery has done: how many corrections it has handed over, and where the target is."""

    rows: int
    position: SinkPosition


@dataclass(frozen=True)
class Delivery:
    """The sinks of one pipeline, and the corrections that they get.

    Attributes:
        pipeline: the declarations.
        tables: its tables, as they are stored.
        warehouse: root of the warehouse.
        batch_rows: a batch has no more rows.
    """

    pipeline: Pipeline
    tables: Tables
    warehouse: str
    batch_rows: int = BATCH_ROWS

    @property
    def corrections(self) -> CommittedCorrections:
        """What is delivered."""
        return CommittedCorrections(self.tables, self.pipeline.keys)

    def context(self) -> SinkContext:
        """What a sink is told of the pipeline."""
        schema = self.tables["published"].schema
        pipeline = self.pipeline
        with self.tables["runs"].handle() as ledger:
            lineage = "" if ledger is None else str(ledger.metadata().id)
        return SinkContext(
            pipeline=pipeline.name,
            lineage=lineage,
            warehouse=self.warehouse,
            keys=tuple((name, schema.field(name).type) for name in pipeline.keys),
            results=tuple((name, schema.field(name).type) for name in pipeline.results),
            identity=identity_of(pipeline),
            has_windows=pipeline.window is not None and not isinstance(pipeline.window, GlobalWindows),
        )

    def sinks_named(self, name: str | None) -> Sequence[Sink]:
        """The sink of that name; all of them without one.

        Raises:
            SinkUnsuitable: there is none.
        """
        sinks = [sink for sink in self.pipeline.sinks if name is None or sink.name == name]
        if name is not None and not sinks:
            names = ", ".join(sink.name for sink in self.pipeline.sinks) or "none"
            raise SinkUnsuitable(
                f"{self.pipeline.name}: there is no sink {name}; it declares {names}.", sink=name
            )
        return sinks

    def states(self, name: str | None = None) -> list[SinkState]:
        """How far each sink is, or that of one name."""
        newest, states = self.corrections.newest_seq(), []
        for sink in self.sinks_named(name):
            try:
                with self._open_target(sink) as target:
                    position = target.position()
                    backlog = self.corrections.rows_after(position)
                    states.append(SinkState(sink, position, newest, backlog))
            except SlackwaterError as error:
                states.append(SinkState(sink, None, newest, None, str(error)))
        return states

    def delivered_seq(self) -> int:
        """The ledger row up to which every sink has all corrections; 0 where one can't be reached."""
        states = self.states()
        if any(state.position is None for state in states):
            return 0
        return min(
            state.newest_seq if not state.backlog else state.position.seq - 1
            for state in states
            if state.position is not None
        )

    def deliver(self, sink: Sink) -> DeliveredRows:
        """Deliver to one sink what it lacks.

        Raises:
            SinkDown: the target can't be reached, or a function of the user has raised.
            SinkUnsuitable: it is not what the sink needs.
        """
        with self._open_target(sink) as target:
            rows, position = 0, self._require_known(sink, target.position())
            while True:
                for batch in batches(self.corrections.after(position), position, self.batch_rows):
                    if not target.deliver(*batch):
                        break
                    rows, position = rows + batch.changes.num_rows, batch.end
                else:
                    return DeliveredRows(rows, position)
                position = self._require_known(sink, target.position())  # another deliverer has moved it

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
                "`slackwater "
                f"runs {self.pipeline.name}` lists the rows.",
                seq=to_seq,
            )
        position = START if to_seq is None else SinkPosition(to_seq, self.corrections.rows_of(to_seq))
        with self._open_target(sink) as target:
            target.reset(position)
        return position

    def _require_known(self, sink: Sink, position: SinkPosition) -> SinkPosition:
        if position.seq > self.corrections.newest_seq():
            raise SinkUnsuitable(
                f"sink {sink.name}: its target has corrections up to ledger row {position.seq}, and there "
                "are none "
                f"behind {self.corrections.newest_seq()}: the ledger is older than what was delivered. Put "
                "the ledger "
                f"back, or say where to go on: `slackwater sinks reset {self.pipeline.name} {sink.name} --to "
                "SEQ`.",
                sink=sink.name,
            )
        return position

    def _open_target(self, sink: Sink) -> "_OpenedTarget":
        return _OpenedTarget(sink, self.context())


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
        return SinkDown(
            f"sink {self._sink.name}: {type(error).__name__}: {without_credentials(str(error))}. What was "
            "not "
            "delivered waits: deliver again with `slackwater sinks deliver`.",
            sink=self._sink.name,
        )


def identity_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The columns that tell rows of `published` apart, none of which is ever null."""
    if pipeline.keyed_process is not None:
        return (*pipeline.keys, "timestamp", "run_id", "ordinal")
    is_global = isinstance(pipeline.window, GlobalWindows)
    bounds = () if is_global else ("window_start", "window_end")
    firing = ("firing",) if pipeline.purges or is_global else ()
    ordinal = ("ordinal",) if pipeline.process is not None else ()
    return (*pipeline.keys, *bounds, *firing, *ordinal)
