"""The answer of `slackwater sources look`: what there is, its columns and what each could be, how disordered
and how late its rows are, and a pipeline file to start from.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from slackwater.inspection.sources.column_roles import ColumnRoles, RowTimes, column_roles
from slackwater.inspection.sources.disorder import Disorder, disorder_of
from slackwater.inspection.sources.pipeline_file import PipelineFile, pipeline_name
from slackwater.inspection.sources.role_rows import RoleRow, column_row, declared_role, time_row
from slackwater.inspection.sources.source_fields import SourceField, fields_of
from slackwater.inspection.sources.source_head import SourceHead, head_of
from slackwater.inspection.sources.source_kinds import SourceFormat, SourcePlace, place_at
from slackwater.inspection.sources.time_roles import TimeRoles, time_roles
from slackwater.inspection.sources.ways_to_delta import ways_to_delta
from slackwater.readable import count_text, size_text
from slackwater.tables.stores import is_local
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.times import to_datetime

_KAFKA = {"value", "partition", "offset", "timestamp"}
_DEBEZIUM = {"before", "after", "op", "ts_ms"}
_SETTLING = timedelta(minutes=11)
# Rows that were written so long after their events are history that was loaded at once.
_OLD_MS = 7 * 86_400_000


@dataclass(frozen=True, kw_only=True)
class SourceLook:
    """What `look_at` has seen.

    Attributes:
        location: as the user has named it.
        table: as a pipeline declares it.
        is_kafka: whether it has the columns of a Kafka topic; `is_debezium`: whether it holds Debezium's
            change events.
    """

    location: str
    table: str
    warehouse: str
    place: SourcePlace
    head: SourceHead
    fields: Sequence[SourceField]
    times: TimeRoles
    columns: ColumnRoles
    disorder: Disorder | None
    is_kafka: bool
    is_debezium: bool

    @property
    def is_declarable(self) -> bool:
        """Whether a pipeline can have it for a source as it is."""
        return self.place.format in (SourceFormat.DELTA, SourceFormat.PARQUET)

    @property
    def summary(self) -> str:
        head, kind = self.head, self.place.title
        version = "" if self.place.table is None else f", version {self.place.table.version()}"
        article = "an" if kind[0] in "AEIO" else "a"
        rows = "" if head.total_rows is None else f"{count_text(head.total_rows, 'row')} in "
        return (
            f"{self.location} is {article} {kind}: {rows}{count_text(head.total_files, 'file')}, "
            f"{size_text(head.total_bytes)}{version}."
        )

    @property
    def reading(self) -> str:
        head = self.head
        if head.why_no_rows is not None:
            return f"No row was read: {head.why_no_rows}."
        if not len(head.rows):
            return "It has no rows yet."
        if len(head.rows) == head.total_rows:
            return "All rows were read."
        total_text = "" if head.total_rows is None else f" of {head.total_rows:,}"
        return (
            f"Read: {len(head.rows):,}{total_text} rows, from {head.files_read:,} of "
            f"{count_text(head.total_files, 'file')}."
        )

    @property
    def notes(self) -> list[str]:
        notes = list(self.place.notes)
        if self.is_kafka:
            notes.append("It has the columns of a Kafka topic.")
        if self.is_debezium:
            notes.append(
                "It holds changes of a database, as Debezium writes them: each row is a change, with the row "
                "before and after it."
            )
        if self.place.format in (SourceFormat.ICEBERG, SourceFormat.HUDI):
            notes.append("The sample may hold rows that were deleted or replaced since.")
        if self._is_folder and self.place.is_file:
            notes.append(f"A pipeline reads all Parquet files of the folder, {self.place.uri}.")
        if any("=" in file.path.rpartition("/")[0] for file in self.place.files):
            notes.append("Values in the names of folders, such as day=…, are no columns of a pipeline.")
        return notes

    @property
    def what_to_do(self) -> list[str]:
        """A sentence, and the lines to type that make a source of it; empty where it is one as it is."""
        return [] if self.is_declarable else ways_to_delta(self.place, self.warehouse, self.table)

    @cached_property
    def roles(self) -> list[RoleRow]:
        event, arrival = self.times.event, self.times.arrival
        names = [name for name, _ in self.head.columns]
        rows = [
            time_row("event time", event, "event_at", names, "no value looks like a time"),
            time_row("arrival", arrival, "arrived_at", names, ""),
        ]
        if arrival is None:
            what = "its file was first seen" if self._is_folder else "a commit brought it"
            reason = f"no value says when a row arrived, so it arrives when {what}"
            if self.disorder is not None and self.disorder.delays.median_ms > _OLD_MS:
                reason += (
                    '; for history that was loaded at once, order="event" instead replays it by the events\' '
                    "times"
                )
            rows[1] = RoleRow(
                role="arrival", field=None, expression=None, column="COMMIT_TIME", reason=reason
            )
        elif event is not None and event.time is arrival.time:
            rows[1] = replace(rows[0], role="arrival", reason=arrival.reason)
        nothing = {
            "source partition": "no column in which the rows of each value are in better order",
            "order": "no column of numbers that are unique and grow",
            "key": "no column with values that come more than once",
        }
        for role, choice in (
            ("source partition", self.columns.partition),
            ("order", self.columns.order),
            ("key", self.columns.key),
        ):
            rows.append(column_row(role, choice, names, nothing[role]))
        return rows

    @property
    def _is_folder(self) -> bool:
        return self.place.format is SourceFormat.PARQUET

    @property
    def start(self) -> date | None:
        """The first day of the arrivals, by the log or by the sample; of rows that arrive with a commit, the
        day of the oldest file.
        """
        arrival = self.times.arrival
        if arrival is None:
            first_ms = self.head.first_written_ms
        else:
            first_ms = self.head.least_ms(arrival.time.field.column) if arrival.time.is_role_itself else None
            if first_ms is None:
                first_ms = int(np.nanmin(arrival.time.ms))
        return None if first_ms is None else to_datetime(first_ms).date()

    def pipeline_file(self, path: str | None) -> PipelineFile | None:
        """The file to start from; None where there is no event time. `path`: where it is written."""
        event, start = declared_role(self.roles[0]), self.start
        if event is None or start is None:
            return None
        name = pipeline_name(self.place.uri if self.is_declarable else self.table)
        declared_roles = [declared_role(row) for row in self.roles]
        return PipelineFile(
            name=name,
            table=self.table,
            looked_at=shlex.quote(self.location),
            is_folder=self._is_folder and self.is_declarable,
            event=event,
            arrival=None if self.times.arrival is None else declared_roles[1],
            arrival_reason=self.roles[1].reason,
            partition=declared_roles[2],
            order=declared_roles[3],
            key=declared_roles[4],
            disorder=self.disorder,
            start=start,
            commands=self.commands(path),
            notes=self._notes_of_file(),
        )

    def commands(self, path: str | None) -> list[str]:
        """The next two commands: they replay the first day, or what there is of it."""
        assert self.start is not None, "a file needs a start"
        name = pipeline_name(self.place.uri if self.is_declarable else self.table)
        file = shlex.quote(path or f"{name.removesuffix('_per_hour')}.py")
        end = datetime.combine(self.start + timedelta(days=1), time(), UTC)
        # What is still to come, or has only just come, no run reads yet.
        newest_end = (datetime.now(UTC) - _SETTLING).replace(second=0, microsecond=0)
        text = f"{min(end, newest_end):%Y-%m-%dT%H:%M}".removesuffix("T00:00")
        return [f"slackwater {verb} {name} --to {text} --pipelines {file}" for verb in ("plan", "run")]

    def _notes_of_file(self) -> list[str]:
        notes = []
        if self.is_debezium:
            notes.append('The rows are changes; where="…" may leave deletions out, by Debezium\'s op.')
        texts = [self.times.event, self.times.arrival]
        if any(chosen is not None and "without a zone" in chosen.time.reason for chosen in texts):
            notes.append(
                'Times without a zone count as UTC. If they are of another one, add zone="Europe/Berlin" (or '
                "yours) to the source."
            )
            if any(chosen is not None and "epoch" in chosen.time.reason for chosen in texts):
                notes.append(
                    "Then numbers since 1970 must be told apart from local times: timezone('UTC', …) around "
                    "their expression."
                )
        return notes

    def as_json(self, path: str | None) -> dict[str, Any]:
        file = self.pipeline_file(path)
        return {
            "location": self.location,
            "uri": self.place.uri,
            "format": self.place.format.value,
            "title": self.place.title,
            "table": self.table,
            "is_declarable": self.is_declarable,
            "version": None if self.place.table is None else self.place.table.version(),
            "rows": self.head.total_rows,
            "files": self.head.total_files,
            "bytes": self.head.total_bytes,
            "rows_read": len(self.head.rows),
            "files_read": self.head.files_read,
            "is_kafka": self.is_kafka,
            "is_debezium": self.is_debezium,
            "notes": self.notes,
            "what_to_do": self.what_to_do,
            "columns": self.column_rows(),
            "roles": [asdict(row) for row in self.roles],
            "disorder": None if self.disorder is None else asdict(self.disorder),
            "pipeline": None if file is None else file.name,
            "pipeline_file": None if file is None else file.text,
            "commands": [] if file is None else list(file.commands),
        }

    def column_rows(self) -> list[dict[str, Any]]:
        """A row for each column and field: its type, what the sample says of it, and what it could be."""
        if not self.fields:
            return [
                {
                    **{"name": name, "type": kind, "could_be": []},
                    **dict.fromkeys(("null_share", "distinct", "example", "expression", "why")),
                }
                for name, kind in self.head.columns
            ]
        return [self._column_row(field) for field in self.fields]

    def _column_row(self, field: SourceField) -> dict[str, Any]:
        chosen = [(row.role, row.reason) for row in self.roles if row.field == field.name]
        candidates = {item.field.name for item in self.times.candidates}
        could_be = [role for role, _ in chosen]
        reasons = [reason for _, reason in chosen]
        if field.name in candidates and not chosen:
            could_be.append("a time")
            reasons.append(field.times[0].reason)
        could_be_key = next((item for item in self.columns.keys if item.field.name == field.name), None)
        if could_be_key is not None and "key" not in could_be:
            could_be.append("a key")
            reasons.append(could_be_key.reason)
        if field.holds_json:
            could_be.append("JSON")
        return {
            "name": field.name,
            "type": field.type,
            "could_be": could_be,
            "null_share": field.null_share if len(field.values) else None,
            "distinct": field.distinct,
            "example": field.example,
            "expression": field.expression if not field.times else field.times[0].expression,
            "why": "; ".join(reasons) or None,
        }


def look_at(location: str, warehouse_location: str | None) -> SourceLook:
    """Look at a path, one relative to the warehouse or to the working folder, or a URI.

    Raises:
        NothingThere: nothing is there, or nothing that is known.
        LogDamaged, DamagedFile: what is there is damaged.
    """
    warehouse = Warehouse.at(warehouse_location)
    uri = _uri_of(warehouse, location)
    place = place_at(uri)
    head = head_of(place)
    fields = fields_of(head.rows, head.columns) if len(head.rows) else []
    columns = {field.column: field.values for field in fields if field.is_column}
    is_kafka = columns.keys() >= _KAFKA
    is_debezium = columns.keys() >= _DEBEZIUM or any(_is_debezium(name, fields) for name in columns)
    times = time_roles(fields, columns, is_kafka=is_kafka, is_debezium=is_debezium)
    row_times = _row_times(times, head)
    time_names = {item.field.name for item in times.candidates}
    chosen_columns = column_roles(fields, row_times, time_names, is_kafka=is_kafka)
    partition = chosen_columns.partition
    disorder = None
    if row_times is not None:
        codes = None if partition is None else partition.field.codes[row_times.places]
        disorder = disorder_of(row_times.event_ms, row_times.arrival_ms, codes)
    return SourceLook(
        location=location,
        table=_declared_table(warehouse, place),
        warehouse=warehouse.root,
        place=place,
        head=head,
        fields=fields,
        times=times,
        columns=chosen_columns,
        disorder=disorder,
        is_kafka=is_kafka,
        is_debezium=is_debezium,
    )


def _is_debezium(column: str, fields: Sequence[SourceField]) -> bool:
    paths = {field.path for field in fields if field.column == column and field.path}
    return {("op",), ("ts_ms",)} <= paths and any(path[0] in ("before", "after") for path in paths)


def _row_times(times: TimeRoles, head: SourceHead) -> RowTimes | None:
    """The rows with both times; those without an arrival came when their file was written."""
    if times.event is None:
        return None
    event_ms = times.event.time.ms
    arrival_ms = head.written_ms.astype(np.float64) if times.arrival is None else times.arrival.time.ms
    places = np.flatnonzero(~np.isnan(event_ms) & ~np.isnan(arrival_ms))
    return RowTimes(places, event_ms[places].astype(np.int64), arrival_ms[places].astype(np.int64))


def _uri_of(warehouse: Warehouse, location: str) -> str:
    """Where `location` is: below the warehouse, if it is there, else in the working folder, else as given."""
    uri = warehouse.source(location)
    if "://" in location or os.path.isabs(location):
        return uri
    is_in_warehouse = is_local(uri) and os.path.exists(uri.removeprefix("file://"))
    if not is_in_warehouse and os.path.exists(location):
        return os.path.abspath(location)
    return uri


def _declared_table(warehouse: Warehouse, place: SourcePlace) -> str:
    if place.format not in (SourceFormat.DELTA, SourceFormat.PARQUET):
        return f"sources/{pipeline_name(place.uri).removesuffix('_per_hour')}"
    return place.uri.removeprefix(f"{warehouse.root}/")
