"""A Delta table to which every correction is appended: a change feed.

A batch is one commit with the position as its application transaction, made only if nobody else has committed
since the position was read.
"""

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.pipelines.sinks import START, SinkContext, SinkPosition, SinkTarget
from slackwater.sinks.errors import SinkUnsuitable
from slackwater.sinks.targets.rows import columns_of
from slackwater.sinks.targets.transactions import position_in, transaction_of
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.parts import Parts
from slackwater.tables.errors import CommitConflict

_NUMBER, _IS_AFTER = "__number", "__is_after"


class ChangeFeedTarget(SinkTarget):
    """An opened `ChangeFeedSink`."""

    def __init__(self, name: str, context: SinkContext, folder: Folder) -> None:
        self._name, self._context, self._folder = name, context, folder
        self._application = f"slackwater sink {context.pipeline}.{name} {context.lineage}"

    @classmethod
    def open(cls, name: str, uri: str, context: SinkContext) -> "ChangeFeedTarget":
        """The feed at `uri`, absolute or relative to the warehouse; an old feed gets the pipeline's new
        result columns. Raises SinkUnsuitable.
        """
        is_absolute = "://" in uri or uri.startswith("/")
        folder = uri.split("/")[0]
        if not is_absolute and folder in (context.pipeline, "sources"):
            raise SinkUnsuitable(
                f"sink {name}: {uri} lies in the folder {folder} of the warehouse, which has tables of its "
                "own. Name another folder, such as feeds/.",
                sink=name,
            )
        location = uri if is_absolute else f"{context.warehouse}/{uri}"
        schema = pa.schema(list(feed_columns(context)))
        existing_table = Folder.existing_at(location)
        missing = (
            []
            if existing_table is None
            else [name for name in schema.names if name not in existing_table.schema.names]
        )
        target = cls(name, context, Folder(location, schema))
        added_columns = [schema.field(column) for column, _ in context.results if column in missing]
        if len(added_columns) == len(missing) and target.position() != START:
            target._folder.add_columns(added_columns)
            missing = []
        if missing:
            raise SinkUnsuitable(
                f"sink {name}: the table {location} is there and lacks {', '.join(missing)}. Name another "
                "place: it is "
                "created when absent.",
                sink=name,
                missing=missing,
            )
        return target

    def position(self) -> SinkPosition:
        """See `SinkTarget.position`; raises SinkUnsuitable for rows that this sink has not delivered."""
        return self._position_in(self._folder.find())

    def _position_in(self, table: OpenTable | None) -> SinkPosition:
        position = position_in(table, self._application)
        if position == START and table is not None and table.actions.num_rows:
            raise SinkUnsuitable(
                f"sink {self._name}: the table {self._folder.uri} holds rows that this sink has not "
                "delivered: rows of another sink, another warehouse, or a lineage that no longer exists. "
                "Name another place, or remove the table: it is created when absent.",
                sink=self._name,
            )
        return position

    def deliver(self, changes: pa.Table, start: SinkPosition, end: SinkPosition) -> bool:
        table = self._folder.ensure()
        if self._position_in(table) != start:
            return False
        with Parts(self._folder) as parts:
            parts.add(feed_rows(changes, self._context))
            files = parts.close()
        try:
            self._folder.commit_files(
                files, expected_table=table, transaction=transaction_of(self._application, end)
            )
        except CommitConflict:
            return False
        return True

    def reset(self, position: SinkPosition) -> None:
        """Raises SinkUnsuitable: nothing that was appended is taken back."""
        raise SinkUnsuitable(
            f"sink {self._name}: a change feed only grows, so it is not delivered to again. Remove the "
            f"table {self._folder.uri}, and the next delivery writes it anew from the first correction; or "
            "name another place.",
            sink=self._name,
        )


def feed_columns(context: SinkContext) -> tuple[tuple[str, pa.DataType], ...]:
    names = {name for name, _ in columns_of(context)}
    others = (
        ("kind", pa.string()),
        ("firing", pa.int64()),
        ("cause", pa.string()),
        ("seq", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
    )
    return (
        ("op", pa.string()),
        *columns_of(context),
        *((name, kind) for name, kind in others if name not in names),
    )


def feed_rows(changes: pa.Table, context: SinkContext) -> pa.Table:
    """One row for an insert or a withdrawal, two for an update, the one before first."""
    op = changes.column("op").cast(pa.string())
    number = pa.array(range(changes.num_rows), pa.int64())
    changes_with_numbers = changes.set_column(changes.schema.get_field_index("op"), "op", op).append_column(
        _NUMBER, number
    )
    before = changes_with_numbers.filter(pc.not_equal(op, "insert"))
    after = changes_with_numbers.filter(pc.not_equal(op, "withdraw"))
    rows = pa.concat_tables(
        [
            _images(before, "old", {"update": "update_before", "withdraw": "delete"}, context),
            _images(after, "new", {"update": "update_after", "insert": "insert"}, context),
        ]
    )
    order = pc.sort_indices(rows, [(_NUMBER, "ascending"), (_IS_AFTER, "ascending")])
    return rows.take(order).drop_columns([_NUMBER, _IS_AFTER])


def _images(changes: pa.Table, image: str, ops: dict[str, str], context: SinkContext) -> pa.Table:
    results = {name for name, _ in context.results}
    names = pa.array(ops.values(), pa.string())
    columns = {
        name: pc.struct_field(changes.column(image), name) if name in results else changes.column(name)
        for name, _ in feed_columns(context)
    }
    columns["op"] = names.take(pc.index_in(changes.column("op"), value_set=pa.array(ops, pa.string())))
    is_after = pa.repeat(pa.scalar(image == "new"), changes.num_rows)
    rows = {name: columns[name].cast(kind) for name, kind in feed_columns(context)}
    return pa.table({**rows, _NUMBER: changes.column(_NUMBER), _IS_AFTER: is_after})
