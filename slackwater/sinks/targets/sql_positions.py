"""The table `slackwater_positions` of a database: each sink's position there, and which table it owns.

A table belongs to one sink of one lineage. The unique index on `target` decides who is first.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from slackwater.pipelines.sinks import START, SinkContext, SinkPosition

POSITIONS = "slackwater_positions"


class SqlPositions:
    """The rows of `slackwater_positions` that concern one sink and its table `target`."""

    def __init__(self, engine: sa.Engine, target: sa.Table, sink: str, context: SinkContext) -> None:
        self._engine, self._sink, self._context = engine, sink, context
        # Only PostgreSQL tells table names apart by their case.
        self._target = target.name if engine.dialect.name == "postgresql" else target.name.lower()
        self._table = sa.Table(POSITIONS, target.metadata, *_columns())
        self._index = sa.Index(f"{POSITIONS}_target", self._table.c.target, unique=True)
        self._is_own = self._is_of(sink)
        self._lane = ""

    def row(self) -> sa.Row[Any] | None:
        with self._engine.connect() as connection:
            return connection.execute(sa.select(self._table).where(self._is_own)).one_or_none()

    def owner(self) -> sa.Row[Any] | None:
        """The row of the sink whose table it is."""
        with self._engine.connect() as connection:
            is_target = self._table.c.target == self._target
            return connection.execute(sa.select(self._table).where(is_target)).one_or_none()

    def owns(self, row: sa.Row[Any] | None) -> bool:
        """Whether a row is the own one, of this lineage, and names the table; rows of lanes name none."""
        target = None if self._lane else self._target
        own_values = (self._context.pipeline, f"{self._sink}{self._lane}", self._context.lineage, target)
        return row is not None and (row.pipeline, row.sink, row.lineage, row.target) == own_values

    def claim(self, row: sa.Row[Any] | None, *, is_fresh: bool) -> None:
        """Make the table the sink's own, if nobody else has it. `row` is the sink's own row; `is_fresh`: the
        table has no rows and all columns.
        """
        with suppress(sa.exc.IntegrityError):  # somebody else has it
            if row is None:
                if is_fresh:
                    self.put(START)
            elif row.lineage != self._context.lineage:
                return
            elif row.target != self._target and is_fresh:  # the sink was given another table
                self.put(START)

    def put(self, position: SinkPosition, delivered_before: int = 0) -> None:
        """Say where the target is. The table is taken from whoever has it; lanes are forgotten."""
        lanes = self._table.c.sink.like(f"{self._sink.replace('_', '!_')}/%", escape="!")
        is_lane = sa.and_(self._table.c.pipeline == self._context.pipeline, lanes)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(self._table).where(sa.or_(self._is_own, is_lane)))
            connection.execute(sa.insert(self._table), self._values(position, delivered_before))

    def disown(self, owner: sa.Row[Any]) -> None:
        """Forget the sink that has the table."""
        is_owner = sa.and_(self._table.c.pipeline == owner.pipeline, self._table.c.sink == owner.sink)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(self._table).where(is_owner))

    def move(self, connection: sa.Connection, start: SinkPosition, end: SinkPosition) -> int | None:
        """Move the position from `start` to `end`. Returns the last ledger row delivered before a reset, or
        None where the position is elsewhere.
        """
        columns = self._table.c
        moved_rows = connection.execute(
            sa.update(self._table)
            .where(
                self._is_own,
                columns.lineage == self._context.lineage,
                columns.seq == start.seq,
                columns.row_offset == start.offset,
            )
            .values(seq=end.seq, row_offset=end.offset)
        ).rowcount
        if not moved_rows:
            return None
        before = connection.execute(sa.select(columns.delivered_before).where(self._is_own)).scalar_one()
        return int(before)

    def begin_lane(self, number: int) -> "SqlPositions":
        lane = SqlPositions.__new__(SqlPositions)
        vars(lane).update(vars(self))
        lane._lane = f"/{number}"
        lane._is_own = self._is_of(f"{self._sink}/{number}")
        if lane.row() is None:
            row = self.row()
            before = 0 if row is None else row.delivered_before
            with suppress(sa.exc.IntegrityError), self._engine.begin() as connection:
                connection.execute(sa.insert(self._table), lane._values(START, before))
        return lane

    def _is_of(self, sink: str) -> sa.ColumnElement[bool]:
        return sa.and_(self._table.c.pipeline == self._context.pipeline, self._table.c.sink == sink)

    def _values(self, position: SinkPosition, delivered_before: int) -> dict[str, Any]:
        return {
            "pipeline": self._context.pipeline,
            "sink": f"{self._sink}{self._lane}",
            "lineage": self._context.lineage,
            "seq": position.seq,
            "row_offset": position.offset,
            "delivered_before": delivered_before,
            "target": None if self._lane else self._target,
        }


def add_columns(engine: sa.Engine, table: sa.Table, names: Sequence[str]) -> None:
    preparer = engine.dialect.identifier_preparer
    for name in names:
        kind = table.c[name].type.compile(engine.dialect)
        statement = f"ALTER TABLE {preparer.format_table(table)} ADD COLUMN {preparer.quote(name)} {kind}"
        # Another deliverer may be adding it at the same time: what counts is that it is there.
        added_already = suppress(sa.exc.ProgrammingError, sa.exc.OperationalError)
        with added_already, engine.begin() as connection:
            connection.execute(sa.DDL(statement.replace("%", "%%")))


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("pipeline", sa.String(63), primary_key=True),
        sa.Column("sink", sa.String(80), primary_key=True),
        sa.Column("lineage", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("row_offset", sa.BigInteger, nullable=False),
        # Corrections up to this ledger row were delivered before a reset: their rows may still be there.
        sa.Column("delivered_before", sa.BigInteger, nullable=False),
        # The table that is the sink's own; null for lanes.
        sa.Column("target", sa.String(255), nullable=True),
    ]
