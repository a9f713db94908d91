"""A table of a SQL database, one row per row of `published`, through SQLAlchemy Core.

The position is in the table `slackwater_positions` beside it and moves in the transaction of the rows, so
a batch is applied once, whoever delivers it and however often. PostgreSQL and SQLite are tested.

    UPDATE slackwater_positions SET position = end WHERE position = start     no row: roll back, another won
    DELETE the identities that the batch touches
    INSERT the rows that are left by it                                       commit

Rows that the database refuses go to `slackwater_set_aside` instead (`sql_rows`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from slackwater.pipelines.sinks import START, SetAside, SinkContext, SinkPosition, SinkTarget
from slackwater.sinks.connections import resolve_url
from slackwater.sinks.errors import (
    SinkUnsuitable,
    as_sink_down,
    foreign_lineage_error,
    foreign_sink_error,
    not_delivered_by,
)
from slackwater.sinks.targets.rows import columns_of
from slackwater.sinks.targets.sql_positions import SqlPositions, add_columns
from slackwater.sinks.targets.sql_rows import SqlRows, reason_of

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
        self._positions = SqlPositions(engine, self._table, sink, context)
        self._rows = SqlRows(self._table, sink, context, self._storable)

    @classmethod
    def open(cls, sink: str, url: str, table: str, context: SinkContext) -> "SqlTarget":
        """The target of a declaration, with its tables; raises SinkUnsuitable, SinkDown."""
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
        """Create the table, and those beside it, where they are absent, and make it the sink's own unless it
        is another's or holds rows that none of ours has delivered. A table of its own gets the pipeline's new
        result columns. Raises SinkUnsuitable where an existing table lacks columns.
        """
        with self._talking():
            was_there = sa.inspect(self._engine).has_table(self._table.name, self._table.schema)
            # Another deliverer may be making them at the same time: what counts is that they are there.
            with suppress(sa.exc.ProgrammingError, sa.exc.OperationalError, sa.exc.IntegrityError):
                self._table.metadata.create_all(self._engine)
            row, missing = self._positions.row(), self._missing_columns()
            if not self._positions.owns(row):
                self._positions.claim(row, is_fresh=not missing and self._is_empty())
            elif not was_there:
                self.reset(START)
            is_own, owner = self._positions.owns(self._positions.row()), self._positions.owner()
            if is_own and missing:
                results = {name for name, _ in self._context.results}
                add_columns(self._engine, self._table, [name for name in missing if name in results])
                missing = self._missing_columns()
        if missing and (is_own or owner is None):
            raise SinkUnsuitable(
                f"sink {self._sink}: the table {self._name} is there and lacks {', '.join(missing)}. "
                "Add these columns, or name another table: it is created when absent.",
                sink=self._sink,
                missing=missing,
            )

    def _missing_columns(self) -> list[str]:
        """The columns that the table lacks."""
        stored_columns = sa.inspect(self._engine).get_columns(self._table.name, self._table.schema)
        names = {column["name"] for column in stored_columns}
        return [column.name for column in self._table.columns if column.name not in names]

    def _is_empty(self) -> bool:
        with self._engine.connect() as connection:
            return (
                connection.execute(sa.select(sa.literal(1)).select_from(self._table).limit(1)).first() is None
            )

    def position(self) -> SinkPosition:
        """See `SinkTarget.position`; raises SinkUnsuitable where the position, or the table, is another's."""
        with self._talking():
            row = self._positions.row()
            owner = None if self._positions.owns(row) else self._positions.owner()
        if self._positions.owns(row):
            assert row is not None
            return SinkPosition(row.seq, row.row_offset)
        place = f"the table {self._name}"
        if owner is not None and (owner.pipeline, owner.sink) != (self._context.pipeline, self._sink):
            raise foreign_sink_error(self._sink, self._context.pipeline, place, (owner.sink, owner.pipeline))
        if owner is not None or (row is not None and row.lineage != self._context.lineage):
            raise foreign_lineage_error(self._sink, self._context.pipeline, self._name)
        raise not_delivered_by(self._sink, self._context.pipeline, place)

    def deliver(self, changes: pa.Table, start: SinkPosition, end: SinkPosition) -> bool:
        """See `SinkTarget.deliver`."""
        with self._talking(), self._engine.begin() as connection:
            before = self._positions.move(connection, start, end)
            if before is None:
                return False
            self._rows.apply(connection, changes, replaces=start.seq <= before)
        return True

    def set_aside(self) -> Sequence[SetAside]:
        with self._talking(), self._engine.connect() as connection:
            return self._rows.set_aside(connection)

    def reset(self, position: SinkPosition) -> None:
        """See `SinkTarget.reset`. Takes an empty table from its owner; SinkUnsuitable where it has rows."""
        with self._talking():
            row = self._positions.row()
            is_own = self._positions.owns(row)
            is_free = is_own or self._is_empty()
            owner = self._positions.owner()
        if not is_free:
            self.position()  # says whose it is
        with self._talking():
            if owner is not None and not is_own:
                self._positions.disown(owner)
            before = max(row.seq, row.delivered_before) if is_own and row is not None else 0
            self._positions.put(position, before)
            if position == START:
                with self._engine.begin() as connection:
                    self._rows.forget_all(connection)

    def lane(self, number: int) -> "SqlTarget":
        """See `SinkTarget.lane`."""
        lane = copy(self)
        with self._talking():
            lane._positions = self._positions.begin_lane(number)
        return lane

    def close(self) -> None:
        """Let go of the connection."""
        self._engine.dispose()

    def _storable(self, rows: pa.Table) -> Sequence[dict[str, Any]]:
        """`rows` with decimals as texts where the database has no decimals."""
        values: list[dict[str, Any]] = rows.to_pylist()
        decimals = [name for name, kind in columns_of(self._context) if pa.types.is_decimal(kind)]
        if self._has_decimals or not decimals:
            return values
        return [
            {**row, **{name: None if row[name] is None else str(row[name]) for name in decimals}}
            for row in values
        ]

    @contextmanager
    def _talking(self) -> Iterator[None]:
        place = f"the database of {self._url}"
        with as_sink_down(self._context, self._sink, place, sa.exc.SQLAlchemyError):
            try:
                yield
            except sa.exc.ProgrammingError as error:
                raise SinkUnsuitable(
                    f"sink {self._sink}: {place} refuses a statement on the table {self._name}: "
                    f"{reason_of(error)}. Give it what it lacks, a column or a right, say; then run "
                    f"`slackwater sinks deliver {self._context.pipeline} {self._sink}`.",
                    sink=self._sink,
                ) from None


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
