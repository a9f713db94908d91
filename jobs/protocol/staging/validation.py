"""Decides whether a staged run may be published: the pipeline's expectations, and that no row was lost on the
way.

One aggregate pass over the staged panes gives one row of metrics; Great Expectations judges that row. It
never sees the panes themselves.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from slackwater.jobs.pipelines import Expectation
from slackwater.jobs.pipelines.errors import PipelineError
from slackwater.jobs.protocol.staging.slices import iso
from slackwater.jobs.runtime.session import IMPORTING_PYSPARK
from slackwater.jobs.tables.sql import query

PASSED, WARNED, FAILED = "passed", "warned", "failed"
_SAMPLES = 5


@dataclass(frozen=True)
class Check:
    """The outcome of one check: a row of `validations` without run_id, columns in the documented order.

    Attributes:
        expectation: its title, e.g. ``1 <= flights``.
        observed: what was seen, as text: the range of values, or the values.
        unexpected, checked: how many values broke the rule, of how many.
        sample_json: a few values that broke it.
    """

    expectation: str
    column_name: str | None
    severity: str
    passed: bool
    observed: str
    unexpected: int
    checked: int
    sample_json: str | None


def noted(what: str, observed: str) -> Check:
    """Something that is to be read with a run's checks and can't fail."""
    return Check(what, None, "note", True, observed, 0, 0, None)


def verdict(checks: Sequence[Check]) -> str:
    """``failed`` if a rejecting check failed, ``warned`` if only warning ones did, else ``passed``."""
    broken = {check.severity for check in checks if not check.passed}
    return FAILED if "reject" in broken else WARNED if broken else PASSED


def check_types(expectations: Sequence[Expectation], types: Mapping[str, pa.DataType]) -> None:
    """Refuse expectations whose bounds or values can't be compared with their column, of the type in `types`.

    Raises:
        PipelineError: naming the expectation, the column's type and what it takes.
    """
    for item in expectations:
        kind = types[item.column]
        type_name, fits = next(
            (family[1:] for family in _COMPARED if family[0](kind)),
            ("nothing to compare with", lambda value: False),
        )
        for value in (item.minimum, item.maximum, *item.values):
            if value is not None and not fits(value):
                raise PipelineError(
                    f"expect {item.title}",
                    f"column {item.column!r} is {kind}, which takes {type_name}, not {value!r}",
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


_COMPARED: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[Any], bool]], ...] = (
    (pa.types.is_boolean, "True and False", lambda value: isinstance(value, bool)),
    (pa.types.is_integer, "numbers", _is_number),
    (pa.types.is_floating, "numbers", _is_number),
    (pa.types.is_decimal, "numbers", _is_number),
    (pa.types.is_string, "text", lambda value: isinstance(value, str)),
    (
        pa.types.is_date,
        "datetime.date",
        lambda value: isinstance(value, date) and not isinstance(value, datetime),
    ),
    (
        pa.types.is_timestamp,
        "datetime.datetime (UTC where it has no zone)",
        lambda value: isinstance(value, datetime),
    ),
)


def check_panes(expectations: Sequence[Expectation], panes: pa.Table | pads.Dataset) -> list[Check]:
    """Judge the panes other than withdrawn ones. Over no panes every expectation passes; nulls are ignored
    unless `not_null` asks.

    Raises:
        PipelineError: see `check_types`.
    """
    if not expectations:
        return []
    check_types(expectations, {field.name: field.type for field in panes.schema})
    metrics = _metrics(expectations, panes)
    outcome = _judge(metrics, len(expectations))
    return [_check(item, number, metrics, outcome[number]) for number, item in enumerate(expectations)]


def check_conservation(counts: dict[str, int]) -> Check:
    """Rows read = filtered + accepted + late + unassigned + quarantined, to the row."""
    parts = ("rows_filtered", "rows_accepted", "rows_late", "rows_unassigned", "rows_quarantined")
    total = sum(counts[part] for part in parts)
    rows_read = counts["rows_read"]
    observed = f"{rows_read} read, {total} accounted for: " + ", ".join(
        f"{counts[part]} {part.removeprefix('rows_')}" for part in parts
    )
    return Check(
        "rows are conserved",
        None,
        "reject",
        rows_read == total,
        observed,
        abs(rows_read - total),
        rows_read,
        None,
    )


def check_assignments(counts: dict[str, int], assignments: dict[str, int]) -> Check:
    """Elements of windows open before + assignments made = missed + elements of windows open now + of windows
    cleaned up: whatever a window has taken is parked, or was there to be fired until the window was
    collected."""
    assignments_in = assignments["assignments_before"] + assignments["assignments_made"]
    assignments_out = (
        counts["assignments_missed"] + assignments["assignments_open"] + assignments["assignments_cleaned"]
    )
    observed = (
        f"{assignments['assignments_before']} before, {assignments['assignments_made']} made, "
        f"{counts['assignments_missed']} missed, "
        f"{assignments['assignments_open']} open, {assignments['assignments_cleaned']} cleaned up, of which "
        f"{counts['elements_never_fired']} were never in a firing"
    )
    return Check(
        "assignments are conserved",
        None,
        "reject",
        assignments_in == assignments_out,
        observed,
        abs(assignments_in - assignments_out),
        assignments_in,
        None,
    )


def check_collected(mark: int, earliest: int | None) -> Check:
    """No window fires that was collected before the slice: `earliest` is the least last instant of any window
    that has fired, `mark` the collected mark, both in milliseconds."""
    is_right = earliest is None or earliest > mark
    observed = (
        "no window fires"
        if earliest is None
        else f"the earliest window that fires ends at {iso(earliest + 1)}"
    )
    observed += f"; those up to {iso(mark + 1)} are collected"
    return Check(
        "collected windows stay collected", None, "reject", is_right, observed, int(not is_right), 1, None
    )


def check_life_cycles(counts: dict[str, int], open_before: int) -> Check:
    """Windows open before + opened = absorbed by merges + cleaned up + open now: no window appears or
    vanishes unaccounted for.
    """
    windows_in = open_before + counts["windows_opened"]
    windows_out = counts["windows_merged"] + counts["windows_cleaned"] + counts["windows_open"]
    parts = ", ".join(
        f"{counts[f'windows_{part}']} {part}" for part in ("opened", "merged", "cleaned", "open")
    )
    return Check(
        "windows are conserved",
        None,
        "reject",
        windows_in == windows_out,
        f"{open_before} before, {parts}",
        abs(windows_in - windows_out),
        windows_in,
        None,
    )


def warning(title: str, observed: str) -> Check:
    """A check of the protocol's own that has failed, and that does not keep a run from being published."""
    return Check(title, None, "warn", False, observed, 1, 1, None)


def load_judge() -> None:
    """Import Great Expectations, which takes seconds: a run does it on a thread of its own while it
    replays.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with IMPORTING_PYSPARK:
        import great_expectations  # noqa: F401 - the import is the work


def _metrics(expectations: Sequence[Expectation], panes: pa.Table | pads.Dataset) -> dict[str, Any]:
    """`checked_i`, `unexpected_i`, `low_i`, `high_i`, `sample_i` of each expectation i, from one aggregate
    over the panes.
    """
    terms: list[str] = []
    parameters: list[Any] = []
    for number, item in enumerate(expectations):
        kind = panes.schema.field(item.column).type
        column = f'"{item.column}"'
        broken, values = _broken(item, column, kind)
        checked = "count(*)" if item.kind == "not_null" else f"count({column})"
        value = column if any(is_plain(kind) for is_plain in _PLAIN) else f"{column}::VARCHAR"
        sample = (
            f"min_by({value}, {column}, {_SAMPLES}) FILTER (WHERE {broken})"
            if item.kind != "not_null"
            else "NULL"
        )
        terms.append(
            f"{checked} AS checked_{number}, count(*) FILTER (WHERE {broken}) AS unexpected_{number}, "
            f"{sample} AS "
            f"sample_{number}, min({column})::VARCHAR AS low_{number}, max({column})::VARCHAR AS "
            f"high_{number}"
        )
        parameters += values if item.kind == "not_null" else values * 2
    [row] = query(
        f"SELECT {', '.join(terms)} FROM panes WHERE kind <> 'withdrawn'", parameters, panes=panes
    ).to_pylist()
    return dict(row)


_PLAIN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean)


def _broken(item: Expectation, column: str, kind: pa.DataType) -> tuple[str, list[Any]]:
    """The SQL condition under which a value breaks the expectation, and its parameters."""
    if item.kind == "not_null":
        return f"{column} IS NULL", []
    if item.kind == "in_set":
        return f"{column} NOT IN ({', '.join('?' for _ in item.values)})", [
            _comparable(value, kind) for value in item.values
        ]
    sides = [(f"{column} < ?", item.minimum), (f"{column} > ?", item.maximum)]
    present = [(condition, _comparable(bound, kind)) for condition, bound in sides if bound is not None]
    return f"({' OR '.join(condition for condition, _ in present)})", [bound for _, bound in present]


def _comparable(value: Any, kind: pa.DataType) -> Any:
    """`value` as DuckDB can compare it with a column of type `kind`: one that a decimal column could not hold
    is compared as a double.
    """
    return (
        float(value)
        if pa.types.is_decimal(kind) and abs(value) >= 10 ** (kind.precision - kind.scale)
        else value
    )


def _judge(metrics: dict[str, Any], expectations: int) -> list[bool]:
    """Great Expectations on the row of metrics: of each expectation, no value may be unexpected."""
    load_judge()
    import great_expectations as gx
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    frame = pd.DataFrame(
        [{f"unexpected_{number}": metrics[f"unexpected_{number}"] for number in range(expectations)}]
    )
    batch = (
        context.data_sources.add_pandas("metrics")
        .add_dataframe_asset("metrics")
        .add_batch_definition_whole_dataframe("metrics")
    )
    suite = gx.ExpectationSuite(
        name="panes",
        expectations=[
            gx.expectations.ExpectColumnMaxToBeBetween(
                column=f"unexpected_{number}", min_value=0, max_value=0
            )
            for number in range(expectations)
        ],
    )
    outcome = batch.get_batch({"dataframe": frame}).validate(suite)
    judged = {
        str(configuration.kwargs["column"]): bool(result.success)
        for result in outcome.results
        if (configuration := result.expectation_config)
    }
    return [judged[f"unexpected_{number}"] for number in range(expectations)]


def _check(item: Expectation, number: int, metrics: dict[str, Any], passed: bool) -> Check:
    low, high = metrics[f"low_{number}"], metrics[f"high_{number}"]
    observed = "no values" if low is None else low if low == high else f"{low} … {high}"
    sample = [
        value if not isinstance(value, float) or math.isfinite(value) else str(value)
        for value in metrics[f"sample_{number}"] or ()
    ]
    return Check(
        item.title,
        item.column,
        item.severity,
        passed,
        observed,
        metrics[f"unexpected_{number}"],
        metrics[f"checked_{number}"],
        json.dumps(sample) if sample else None,
    )
