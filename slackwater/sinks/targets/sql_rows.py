"""Writes rows into a SQL table, and sets those aside by name that the table can never take: a text with a
NUL, a key that no index holds, a time that the database does not have, a value that a constraint refuses.

A statement that the database refuses because of a value is rolled back to a savepoint and tried again with
half of its rows, down to the single rows that are at fault; the others are written. Any other failure (a lost
connection, a full disk, a missing column) is none of a row and goes up.

    10,000 rows          refused
    5,000  5,000         taken, refused
           2,500 2,500   …
                  1      refused: set aside, with its key, its column and the database's reason
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from slackwater.errors import without_credentials
from slackwater.pipelines.sinks import SetAside, SinkContext
from slackwater.sinks.errors import SinkUnsuitable
from slackwater.sinks.targets.rows import digests_of, keys_as_json, standing_rows

SET_ASIDE = "slackwater_set_aside"
# More refused rows in one batch are no matter of rows: the table does not suit.
MOST_REFUSED = 1_000
# Classes of SQLSTATE: data exception, integrity constraint violation, program limit exceeded.
_STATES_OF_ROWS = ("22", "23", "54")
KEY_CHARACTERS = 1_000
_REASON_CHARACTERS = 300

Apply = Callable[[sa.Connection, pa.Table], None]


class _Refusal(NamedTuple):
    """A row, by its number in its table, and why the database refuses it."""

    place: int
    error: Exception


class SqlRows:
    """The rows of a target's table, and those that are set aside. `storable` makes a row's values as the
    database takes them.
    """

    def __init__(
        self,
        table: sa.Table,
        sink: str,
        context: SinkContext,
        storable: Callable[[pa.Table], Sequence[dict[str, Any]]],
    ) -> None:
        self._table, self._sink, self._context, self._storable = table, sink, context, storable
        self._set_aside = sa.Table(SET_ASIDE, table.metadata, *_columns())
        values = {"pipeline": context.pipeline, "sink": sink, "lineage": context.lineage}
        self._own_values = values
        self._is_own = sa.and_(*(self._set_aside.c[name] == value for name, value in values.items()))

    def apply(self, connection: sa.Connection, changes: pa.Table, *, replaces: bool) -> None:
        """Write a batch of rows of `corrections` in a transaction that has begun; `replaces`: the table may
        already have rows that it inserts.
        """
        rows, replaced_identities, places, replaced_places = standing_rows(changes, self._context)
        identity = list(self._context.identity)
        if self.count(connection):
            identities = pa.concat_tables([replaced_identities, rows.select(identity)])
            self._forget(connection, digests_of(identities))
        stuck_rows = self._delete(connection, replaced_identities)
        if replaces:
            self._delete(connection, rows.select(identity))
        refusals = self._insert(connection, rows)
        self._record(connection, changes.take(replaced_places), replaced_identities, stuck_rows)
        self._record(connection, changes.take(places), rows, refusals)

    def count(self, connection: sa.Connection) -> int:
        """How many rows are set aside."""
        statement = sa.select(sa.func.count()).select_from(self._set_aside).where(self._is_own)
        return int(connection.execute(statement).scalar_one())

    def set_aside(self, connection: sa.Connection) -> list[SetAside]:
        columns = self._set_aside.c
        names = (columns.key, columns.column_name, columns.reason, columns.seq, columns.key_group)
        statement = sa.select(*names, columns.digest).where(self._is_own).order_by(columns.seq, columns.key)
        return [SetAside(*row) for row in connection.execute(statement)]

    def forget_all(self, connection: sa.Connection) -> None:
        """Take no row for set aside any more."""
        connection.execute(sa.delete(self._set_aside).where(self._is_own))

    def _forget(self, connection: sa.Connection, digests: Sequence[str]) -> None:
        is_one = sa.and_(self._is_own, self._set_aside.c.digest == sa.bindparam("one"))
        connection.execute(sa.delete(self._set_aside).where(is_one), [{"one": digest} for digest in digests])

    def _delete(self, connection: sa.Connection, identities: pa.Table) -> list[_Refusal]:
        """Delete the rows of `identities` that exist; returns those that have to stay. An identity that the
        database can't even be asked for does not exist.
        """
        refusals = _halving(connection, self._delete_rows, identities, self._too_many)
        return [refusal for refusal in refusals if isinstance(refusal.error, sa.exc.IntegrityError)]

    def _delete_rows(self, connection: sa.Connection, identities: pa.Table) -> None:
        names = {name: f"identity_{name}" for name in identities.column_names}
        conditions = [self._table.c[name] == sa.bindparam(parameter) for name, parameter in names.items()]
        values = identities.rename_columns(names).to_pylist()
        connection.execute(sa.delete(self._table).where(*conditions), values)

    def _insert(self, connection: sa.Connection, rows: pa.Table) -> list[_Refusal]:
        """Insert rows, replacing rows of erased keys that nobody deleted by hand; returns refused ones."""
        try:
            with connection.begin_nested():
                self._insert_rows(connection, rows)
            return []
        except Exception as error:
            if not is_of_row(error):
                raise
        self._delete(connection, rows.select(list(self._context.identity)))
        return _halving(connection, self._insert_rows, rows, self._too_many)

    def _insert_rows(self, connection: sa.Connection, rows: pa.Table) -> None:
        if rows.num_rows:
            connection.execute(sa.insert(self._table), self._storable(rows))

    def _record(
        self, connection: sa.Connection, changes: pa.Table, rows: pa.Table, refusals: Sequence[_Refusal]
    ) -> None:
        for place, error in refusals:
            row, change = rows.slice(place, 1), changes.slice(place, 1)
            identity = row.select(list(self._context.identity))
            [key], [digest] = keys_as_json(identity), digests_of(identity)
            values = {
                **self._own_values,
                "digest": digest,
                "seq": change.column("seq")[0].as_py(),
                "key_group": change.column("key_group")[0].as_py(),
                "key": key[:KEY_CHARACTERS],
                "column_name": ", ".join(self._columns_at_fault(connection, row)),
                "reason": reason_of(error),
            }
            self._forget(connection, [digest])
            connection.execute(sa.insert(self._set_aside), values)

    def _columns_at_fault(self, connection: sa.Connection, row: pa.Table) -> list[str]:
        """The columns at fault in a refused row: the key's if the row is refused without results, else each
        result with which alone it is refused.
        """
        results = [name for name in row.column_names if name not in self._context.identity]

        def is_refused(kept: str | None) -> bool:
            columns = dict(zip(row.column_names, row.columns, strict=True))
            columns |= {name: pa.nulls(1, row.column(name).type) for name in results if name != kept}
            try:
                with connection.begin_nested() as savepoint:
                    self._insert_rows(connection, pa.table(columns))
                    savepoint.rollback()
            except Exception as error:
                if not is_of_row(error):
                    raise
                return True
            return False

        if is_refused(None):
            return [name for name, _ in self._context.keys]
        return [name for name in results if is_refused(name)]

    def _too_many(self, error: Exception) -> SinkUnsuitable:
        return SinkUnsuitable(
            f"sink {self._sink}: the table {self._table.fullname} refuses more than {MOST_REFUSED:,} rows of "
            f"one batch, the last one for this: {reason_of(error)}. Nothing of the batch was written. Give "
            "the table columns that take these values, or name another one: it is created when absent.",
            sink=self._sink,
        )


def is_of_row(error: Exception) -> bool:
    """Whether the database refuses a value for good, rather than being out of reach or lacking something.
    Drivers refuse some values themselves.
    """
    if isinstance(error, sa.exc.DBAPIError):
        state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
        if error.connection_invalidated:
            return False
        if isinstance(state, str):
            return state[:2] in _STATES_OF_ROWS
        return isinstance(error, sa.exc.DataError | sa.exc.IntegrityError)
    cause = error.orig if isinstance(error, sa.exc.StatementError) else error
    return isinstance(cause, ValueError | OverflowError)


def reason_of(error: Exception) -> str:
    """What the database says, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    text = next(iter(str(cause).strip().splitlines()), "") or type(cause).__name__
    return without_credentials(text.replace("\0", "\\0"))[:_REASON_CHARACTERS]


def _halving(
    connection: sa.Connection, apply: Apply, rows: pa.Table, too_many: Callable[[Exception], Exception]
) -> list[_Refusal]:
    """Apply `rows`, and return those that are refused, found by halving."""
    refusals: list[_Refusal] = []
    pieces = [range(rows.num_rows)] if rows.num_rows else []
    while pieces:
        piece = pieces.pop()
        try:
            with connection.begin_nested():
                apply(connection, rows.slice(piece.start, len(piece)))
        except Exception as error:
            if not is_of_row(error):
                raise
            if len(piece) > 1:
                middle = piece.start + len(piece) // 2
                pieces += [range(middle, piece.stop), range(piece.start, middle)]
                continue
            refusals.append(_Refusal(piece.start, error))
            if len(refusals) > MOST_REFUSED:
                raise too_many(error) from None
    return refusals


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("pipeline", sa.String(63), primary_key=True),
        sa.Column("sink", sa.String(63), primary_key=True),
        sa.Column("lineage", sa.String(63), primary_key=True),
        # SHA-256 of the identity, which may be longer than an index takes.
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("key_group", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("column_name", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    ]
