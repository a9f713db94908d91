"""A table of a SQL database, one row per row of `published`, through SQLAlchemy Core.

The position stands in the table `slackwater_positions` beside it and moves in the transaction of the rows, so
a batch is applied once, whoever delivers it and however often. PostgreSQL and SQLite are tested.

    UPDATE slackwater_positions SET position = end WHERE position = start     no row: another was here, roll
    back DELETE the identities that the batch touches
    INSERT the rows that stand after it                                       commit
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from slackwater.jobs.pipelines.sinks import START, SinkContext, SinkPosition, SinkTarget
from slackwater.jobs.sinks.connections import resolve_url
from slackwater.jobs.sinks.errors import SinkUnsuitable, as_sink_down, of_another_lineage
from slackwater.jobs.sinks.targets.rows import columns_of, standing_rows

POSITIONS = "slackwater_positions"
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "postgresql+psycopg2": {"executemany_mode": "values_plus_batch"},  # else it sends deletions one by one
    "sqlite+pysqlite": {"connect_args": {"timeout": 60}},  # seconds that one writer waits for another
}


class SqlTarget(SinkTarget):
    """An opened `SqlSink`."""

    def __init__(self, *, sink: str, url: str, table: str, context: SinkContext, engine: sa.Engine) -> None:
        self._sink, self._url, self._name, self._context, self._engine = sink, url, table, context, engine
        schema, _, name = table.rpartition(".")
        metadata = sa.MetaData(schema=schema or None)
        self._has_decimals = engine.dialect.name != "sqlite"
        self._table = sa.Table(
            name,
            metadata,
            *(
                sa.Column(
                    column,
                    _sql_type(kind, has_decimals=self._has_decimals),
                    primary_key=column in context.identity,
                    autoincrement=False,
                    nullable=column not in context.identity,
                )
                for column, kind in columns_of(context)
            ),
        )
        self._positions = sa.Table(POSITIONS, metadata, *_position_columns())
        self._is_own = self._is_of(sink)
        self._lane = ""

    @classmethod
    def open(cls, sink: str, url: str, table: str, context: SinkContext) -> "SqlTarget":
        """The target of the declaration (`sink`, `url`, `table`), with its tables.

        Raises:
            SinkUnsuitable: the URL is none of SQLAlchemy's; the table is there and lacks columns.
            SinkDown: the database can't be reached.
        """
        try:
            address = sa.make_url(resolve_url(sink, url))
            options = _OPTIONS.get(f"{address.get_backend_name()}+{address.get_driver_name()}", {})
            engine = sa.create_engine(address, pool_size=1, max_overflow=0, **options)
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise SinkUnsuitable(
                f"sink {sink}: SQLAlchemy can't use the URL that {url} names ({_reason(error)}). One is "
                "such as postgresql://host/database, and its driver is a package of its own.",
                sink=sink,
            ) from error
        target = cls(sink=sink, url=url, table=table, context=context, engine=engine)
        try:
            target.make_tables()
        except BaseException:
            target.close()
            raise
        return target

    def make_tables(self) -> None:
        """Create the table, that of positions and the own row there where they are absent. A table that
        corrections were delivered to gets the columns of results that the pipeline has gained since.

        Raises:
            SinkUnsuitable: the table is there and lacks columns.
        """
        with self._talking():
            # Another deliverer may be making them at the same time: what counts is that they are there.
            with suppress(sa.exc.ProgrammingError, sa.exc.OperationalError, sa.exc.IntegrityError):
                self._table.metadata.create_all(self._engine)
            row = self._position_row()
            if row is None:
                with suppress(sa.exc.IntegrityError), self._engine.begin() as connection:
                    connection.execute(sa.insert(self._positions), self._position_values(START))
            elif (row.seq, row.row_offset) != START:
                self._add_columns([name for name in self._missing_columns() if name in self._result_names])
            missing = self._missing_columns()
        if missing:
            raise SinkUnsuitable(
                f"sink {self._sink}: the table {self._name} is there and lacks {', '.join(missing)}. "
                "Add these columns, or name another table: it is created when absent.",
                sink=self._sink,
                missing=missing,
            )

    @property
    def _result_names(self) -> set[str]:
        return {name for name, _ in self._context.results}

    def _missing_columns(self) -> list[str]:
        """The columns that the table lacks."""
        stored_columns = sa.inspect(self._engine).get_columns(self._table.name, self._table.schema)
        names = {column["name"] for column in stored_columns}
        return [column.name for column in self._table.columns if column.name not in names]

    def _add_columns(self, names: Sequence[str]) -> None:
        """Add columns to the table; they are null in its rows so far."""
        preparer = self._engine.dialect.identifier_preparer
        for name in names:
            kind = self._table.c[name].type.compile(self._engine.dialect)
            table, column = preparer.format_table(self._table), preparer.quote(name)
            statement = f"ALTER TABLE {table} ADD COLUMN {column} {kind}".replace("%", "%%")
            # Another deliverer may be adding it at the same time: what counts is that it is there.
            added_already = suppress(sa.exc.ProgrammingError, sa.exc.OperationalError)
            with added_already, self._engine.begin() as connection:
                connection.execute(sa.DDL(statement))

    def position(self) -> SinkPosition:
        """See `SinkTarget.position`.

        Raises:
            SinkUnsuitable: the position is of another lineage.
        """
        with self._talking():
            row = self._position_row()
        if row is None:
            return START
        if row.lineage != self._context.lineage:
            raise of_another_lineage(self._sink, self._context.pipeline, self._name)
        return SinkPosition(row.seq, row.row_offset)

    def deliver(self, changes: pa.Table, start: SinkPosition, end: SinkPosition) -> bool:
        """See `SinkTarget.deliver`."""
        rows, replaced_identities = standing_rows(changes, self._context)
        with self._talking(), self._engine.begin() as connection:
            if not self._move(connection, start, end):
                return False
            before = connection.execute(
                sa.select(self._positions.c.delivered_before).where(self._is_own)
            ).scalar_one()
            self._delete(connection, replaced_identities)
            if start.seq <= before:
                self._delete(connection, rows.select(replaced_identities.column_names))
            if rows.num_rows:
                connection.execute(sa.insert(self._table), self._storable(rows.to_pylist()))
        return True

    def _delete(self, connection: sa.Connection, identities: pa.Table) -> None:
        """Delete the rows of `identities`, as far as there are any."""
        if identities.num_rows:
            names = {name: f"identity_{name}" for name in identities.column_names}
            conditions = [self._table.c[name] == sa.bindparam(parameter) for name, parameter in names.items()]
            values = identities.rename_columns(names).to_pylist()
            connection.execute(sa.delete(self._table).where(*conditions), values)

    def reset(self, position: SinkPosition) -> None:
        """See `SinkTarget.reset`."""
        with self._talking():
            row = self._position_row()
            before = 0 if row is None else max(row.seq, row.delivered_before)
            with self._engine.begin() as connection:
                lanes = self._positions.c.sink.like(f"{self._sink.replace('_', '!_')}/%", escape="!")
                is_lane = sa.and_(self._positions.c.pipeline == self._context.pipeline, lanes)
                connection.execute(sa.delete(self._positions).where(sa.or_(self._is_own, is_lane)))
                connection.execute(sa.insert(self._positions), self._position_values(position, before))

    def lane(self, number: int) -> "SqlTarget":
        """See `SinkTarget.lane`."""
        lane = copy(self)
        lane._lane = f"/{number}"
        lane._is_own = self._is_of(f"{self._sink}/{number}")
        with self._talking():
            if lane._position_row() is None:
                row = self._position_row()
                before = 0 if row is None else row.delivered_before
                with suppress(sa.exc.IntegrityError), self._engine.begin() as connection:
                    connection.execute(sa.insert(self._positions), lane._position_values(START, before))
        return lane

    def close(self) -> None:
        """Let go of the connection."""
        self._engine.dispose()

    def _move(self, connection: sa.Connection, start: SinkPosition, end: SinkPosition) -> bool:
        """Move the position from `start` to `end`; whether it stood there."""
        positions = self._positions
        moved_rows = connection.execute(
            sa.update(positions)
            .where(
                self._is_own,
                positions.c.lineage == self._context.lineage,
                positions.c.seq == start.seq,
                positions.c.row_offset == start.offset,
            )
            .values(seq=end.seq, row_offset=end.offset)
        ).rowcount
        return bool(moved_rows)

    def _is_of(self, sink: str) -> sa.ColumnElement[bool]:
        return sa.and_(self._positions.c.pipeline == self._context.pipeline, self._positions.c.sink == sink)

    def _position_row(self) -> sa.Row[Any] | None:
        with self._engine.connect() as connection:
            return connection.execute(sa.select(self._positions).where(self._is_own)).one_or_none()

    def _position_values(self, position: SinkPosition, delivered_before: int = 0) -> dict[str, Any]:
        return {
            "pipeline": self._context.pipeline,
            "sink": f"{self._sink}{self._lane}",
            "lineage": self._context.lineage,
            "seq": position.seq,
            "row_offset": position.offset,
            "delivered_before": delivered_before,
        }

    def _storable(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """`rows` with decimals as texts where the database has no decimals."""
        decimals = [name for name, kind in columns_of(self._context) if pa.types.is_decimal(kind)]
        if self._has_decimals or not decimals:
            return rows
        return [
            {**row, **{name: None if row[name] is None else str(row[name]) for name in decimals}}
            for row in rows
        ]

    def _talking(self) -> AbstractContextManager[None]:
        return as_sink_down(self._context, self._sink, f"the database of {self._url}", sa.exc.SQLAlchemyError)


def _position_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("pipeline", sa.String(63), primary_key=True),
        sa.Column("sink", sa.String(80), primary_key=True),
        sa.Column("lineage", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("row_offset", sa.BigInteger, nullable=False),
        # Corrections up to this ledger row were delivered before a reset: their rows may still stand there.
        sa.Column("delivered_before", sa.BigInteger, nullable=False),
    ]


def _reason(error: Exception) -> str:
    """What an error says, but not of a URL that SQLAlchemy has quoted."""
    return str(error) if isinstance(error, ModuleNotFoundError) else type(error).__name__


def _sql_type(kind: pa.DataType, *, has_decimals: bool) -> Any:
    """The type of a column, of SQLAlchemy's own that every database has."""
    import sqlalchemy as sa

    if pa.types.is_boolean(kind):
        return sa.Boolean()
    if pa.types.is_int64(kind) or pa.types.is_uint32(kind):
        return sa.BigInteger()
    if pa.types.is_uint64(kind):
        return sa.Numeric(20, 0) if has_decimals else sa.BigInteger()
    if pa.types.is_integer(kind):
        return sa.Integer()
    if pa.types.is_floating(kind):
        return sa.Double()
    if pa.types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale) if has_decimals else sa.Text()
    if pa.types.is_date(kind):
        return sa.Date()
    if pa.types.is_timestamp(kind):
        return sa.DateTime(timezone=kind.tz is not None)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return sa.LargeBinary()
    if pa.types.is_nested(kind):
        return sa.JSON()
    return sa.Text()
