"""Rows of `panes`, `late_events` and `side_<tag>`, from the records of a window log; and elements on which a
user's function raised, as rows of `quarantine` or as the error that ends the run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.engine.operator.emitted_rows import EmittedColumns, EmittedRowError, side_outputs_of
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, KEY_GROUP, SOURCE_FILE, source_columns
from slackwater.engine.rows.keys import Keys
from slackwater.engine.rows.python_values import as_json
from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.window_columns import own_window_class_of
from slackwater.tables.schemas import TIME, Shape, side_table
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.runtime.slice_runner import FailedElement
from slackwater.windowing.runtime.window_log import LoggedLateElement, LoggedPane, SideRow
from slackwater.windowing.snapshot import WindowColumns, times
from slackwater.windowing.windows import Window


@dataclass(frozen=True)
class Owners:
    """The columns that say which key and window a row is of."""

    keys: Keys
    windows: WindowColumns

    @classmethod
    def of(cls, pipeline: Pipeline, keys: Keys) -> "Owners":
        return cls(keys, WindowColumns(own_window_class_of(pipeline)))

    def arrays(self, keys: Sequence[Any], windows: Sequence[Window]) -> dict[str, pa.Array]:
        return {
            "key_group": pa.array(self.keys.groups_of(keys), pa.int32()),
            **dict(self.keys.arrays(keys)),
            **self.windows.arrays(windows),
        }


def pane_rows(
    panes: Sequence[LoggedPane], results: Sequence[pa.Array], owners: "Owners", shape: Shape
) -> pa.Table:
    """One row for each pane, with its results by column; a withdrawal is null in each."""
    return pa.table(
        {
            **owners.arrays([pane.key for pane in panes], [pane.window for pane in panes]),
            "firing": pa.array([pane.firing for pane in panes], pa.int64()),
            "ordinal": pa.array([pane.ordinal for pane in panes], pa.int64()),
            "kind": pa.array([pane.kind for pane in panes], pa.string()),
            **dict(zip(shape.result_names, results, strict=True)),
            "elements": pa.array([pane.elements for pane in panes], pa.int64()),
            "watermark": watermarks(pane.watermark for pane in panes),
            "tick_end": times([pane.tick_end for pane in panes], "tick_end"),
            "cause_arrival": times([pane.cause_arrival for pane in panes], "cause_arrival"),
        }
    )


def side_tables(pipeline: Pipeline, owners: "Owners", rows: Sequence[SideRow]) -> dict[str, pa.Table]:
    """The table of each declared side output. Raises EmittedRowError for a row of any other."""
    rows_by_tag: dict[str, list[SideRow]] = {tag: [] for tag in pipeline.side_columns}
    for row in rows:
        if row.tag not in rows_by_tag:
            names = ", ".join(map(repr, rows_by_tag)) or "none"
            raise EmittedRowError(
                f"a function wrote to the side output {row.tag!r} (key {row.key!r}, window {row.window!r}); "
                f"declared: {names}. Add it to side_outputs.",
                key=row.key,
                window=row.window,
            )
        rows_by_tag[row.tag].append(row)
    outputs = side_outputs_of(pipeline)
    return {side_table(tag): side_rows(rows, owners, outputs[tag]) for tag, rows in rows_by_tag.items()}


def side_rows(rows: Sequence[SideRow], owners: "Owners", output: EmittedColumns) -> pa.Table:
    keys, windows = [row.key for row in rows], [row.window for row in rows]
    values = output.arrays([row.value for row in rows], list(zip(keys, windows, strict=True)))
    return pa.table(
        {
            **owners.arrays(keys, windows),
            "firing": pa.array([row.firing for row in rows], pa.int64()),
            "ordinal": pa.array([row.ordinal for row in rows], pa.int64()),
            "timestamp": times(
                [None if row.timestamp == LONG_MAX else row.timestamp for row in rows], "timestamp"
            ),
            **{name: column for (name, _), column in zip(output.results, values, strict=True)},
        }
    )


def late_rows(
    late: Sequence[LoggedLateElement], rows: pa.Table, owners: "Owners", schema: pa.Schema
) -> pa.Table:
    """One row for each late element: the source's columns, from `rows`, and the windows that it missed."""
    columns = {name: rows.column(name) for name in schema.names if name in rows.column_names}
    columns["key_group"] = rows.column(KEY_GROUP)
    columns["event_time"] = times(rows.column(EVENT).to_pylist(), "event_time")
    columns["arrival_time"] = times(rows.column(ARRIVAL).to_pylist(), "arrival_time")
    columns["windows"] = _missed_windows(late, owners.windows)
    columns["late_by_ms"] = pa.array([item.watermark - item.timestamp for item in late], pa.int64())
    columns["watermark"] = watermarks(item.watermark for item in late)
    return pa.table({field.name: columns[field.name] for field in schema if field.name != "run_id"})


def _missed_windows(late: Sequence[LoggedLateElement], windows: WindowColumns) -> pa.Array:
    columns = windows.arrays(window for item in late for window in item.windows)
    names = ["start", "end", *(name for name, _ in windows.own_columns)]
    offsets = [0]
    for item in late:
        offsets.append(offsets[-1] + len(item.windows))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(list(columns.values()), names=names)
    )


def watermarks(values: Iterable[int]) -> pa.Array:
    """Watermarks as times; null before the first watermark, and for the final one."""
    return times(
        [None if watermark in (LONG_MIN, LONG_MAX) else watermark for watermark in values], "watermark"
    )


REASON = "user_code"


class FunctionRaised(PermanentError):
    """A user's function raised on an element. Attributes: key, window, timestamp, row."""


def failed_rows(pipeline: Pipeline, failed_elements: Sequence[FailedElement], elements: pa.Table) -> pa.Table:
    """Rows of `quarantine`, without run_id and source version; `position` counts the rows of `elements`."""
    rows = elements.take(pa.array([item.position for item in failed_elements], pa.int64()))
    source = pipeline.roles.source
    return pa.table(
        {
            **({} if source is None else {source: rows.column(source)}),
            "reason_code": pa.array([REASON] * len(failed_elements), pa.string()),
            "reason": pa.array([item.reason for item in failed_elements], pa.string()),
            "row_json": pa.array(as_json(rows.select(source_columns(rows.column_names))), pa.string()),
            "source_file": rows.column(SOURCE_FILE).cast(pa.string()),
            "arrival_time": rows.column(pipeline.roles.arrival_time).cast(TIME, safe=False),
            "column_name": pa.nulls(len(failed_elements), pa.string()),
        }
    )


def function_raised(pipeline: Pipeline, error: UserCodeError, row: pa.Table) -> FunctionRaised:
    [text] = as_json(row.select(source_columns(row.column_names)))
    way_out = (
        "Mend the function; what a firing or merge raises always fails the run"
        if pipeline.on_error == "quarantine"
        else "Mend the function, or declare on_error='quarantine' to set such rows aside"
    )
    return FunctionRaised(
        f"{pipeline.name}: {error}, row {text}. {way_out}.",
        key=error.key,
        window=error.window,
        timestamp=error.timestamp,
        row=text,
    )
