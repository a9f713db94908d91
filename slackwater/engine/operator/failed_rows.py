"""Elements on which a user's function raised, as rows of `quarantine` or as the error that ends the run."""

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.rows.columns_read import SOURCE_FILE, source_columns
from slackwater.engine.rows.rows_as_json import as_json
from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.tables.schemas import TIME
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.runtime.slice_runner import FailedElement

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
