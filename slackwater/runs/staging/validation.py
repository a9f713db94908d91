"""Decides whether a staged run may be published: by the pipeline's expectations, and by equations between the
counts of a run, which hold if no row and no window was lost on the way.

Reads no row. Range tasks have taken metrics of the panes (`pane_metrics`); an expectation is met if these
count no value that breaks it.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from slackwater.engine.replaying.pane_metrics import merge_metrics, pane_metrics
from slackwater.pipelines import Expectation
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.staging.slices import iso
from slackwater.tables.sql import query

PASSED, WARNED, FAILED = "passed", "warned", "failed"


@dataclass(frozen=True)
class Check:
    """The outcome of one check: a row of `validations` without run_id, columns in the documented order.

    Attributes:
        expectation: the title of the check, e.g. ``1 <= flights``.
        column_name: None for checks of the protocol's own.
        severity: "reject", "warn" or "note".
        observed: the range of values, or what else the check has looked at.
        unexpected, checked: how many values broke the rule, of how many.
        result_json: for a suite's expectation the result of Great Expectations.
    """

    expectation: str
    column_name: str | None
    severity: str
    passed: bool
    observed: str
    unexpected: int
    checked: int
    sample_json: str | None
    result_json: str | None = None


def note(title: str, observed: str) -> Check:
    """A remark among a run's checks that can't fail."""
    return own_check(title, "note", True, observed, unexpected=0, checked=0)


def warning(title: str, observed: str) -> Check:
    """A failed check of the protocol's own that does not keep a run from being published."""
    return own_check(title, "warn", False, observed)


def own_check(
    title: str,
    severity: str,
    passed: bool,
    observed: str,
    *,
    unexpected: int | None = None,
    checked: int = 1,
) -> Check:
    """A check of the protocol's own, by default of one value."""
    return Check(
        expectation=title,
        column_name=None,
        severity=severity,
        passed=passed,
        observed=observed,
        unexpected=int(not passed) if unexpected is None else unexpected,
        checked=checked,
        sample_json=None,
    )


def verdict(checks: Sequence[Check]) -> str:
    """``failed`` if a rejecting check failed, ``warned`` if only warning ones did, else ``passed``."""
    broken = {check.severity for check in checks if not check.passed}
    return FAILED if "reject" in broken else WARNED if broken else PASSED


def check_types(expectations: Sequence[Expectation], types: Mapping[str, pa.DataType]) -> None:
    """Refuse expectations whose bounds can't be compared with their column's type. Raises PipelineError."""
    for item in expectations:
        kind = types[item.column]
        type_name, fits = next(
            (family[1:] for family in _COMPARABLE_TYPES if family[0](kind)),
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


# Families of column types: (whether a type is of the family, what it is compared with in words, whether a
# value is such a thing). The first family that a type is of counts.
_COMPARABLE_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[Any], bool]], ...] = (
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


def check_panes(
    expectations: Sequence[Expectation], schema: pa.Schema, metrics: Sequence[pa.Table]
) -> list[Check]:
    """One check for each expectation, over the panes that are not withdrawn, by the metrics that each task
    has handed over (see `pane_metrics`). Over no panes every expectation passes; only `not_null` looks at
    nulls. Raises PipelineError: see `check_types`.
    """
    if not expectations:
        return []
    check_types(expectations, {field.name: field.type for field in schema})
    metrics_of_no_panes = pane_metrics(expectations, schema.empty_table())
    row = _texts(expectations, merge_metrics(expectations, [metrics_of_no_panes, *metrics]))
    return [_check_of(item, number, row) for number, item in enumerate(expectations)]


def check_conservation(counts: dict[str, int]) -> Check:
    """Rows read = filtered + duplicate + accepted + late + unassigned + quarantined, to the row."""
    parts = (
        *("rows_filtered", "rows_duplicate", "rows_accepted"),
        *("rows_late", "rows_unassigned", "rows_quarantined"),
    )
    total = sum(counts[part] for part in parts)
    rows_read = counts["rows_read"]
    terms = ", ".join(f"{counts[part]} {part.removeprefix('rows_')}" for part in parts)
    return _conservation(
        "rows are conserved", rows_read, total, f"{rows_read} read, {total} accounted for: {terms}"
    )


def check_assignments(counts: dict[str, int], assignments: dict[str, int]) -> Check:
    """Elements of windows open before + assignments made = missed + elements of windows open now +
    elements of windows cleaned up: an assigned element is parked with its window, or could be in a firing
    until the window was collected.
    """
    assignments_in = assignments["assignments_before"] + assignments["assignments_made"]
    assignments_out = (
        counts["assignments_missed"] + assignments["assignments_open"] + assignments["assignments_cleaned"]
    )
    terms = (
        f"{assignments['assignments_before']} before, {assignments['assignments_made']} made, "
        f"{counts['assignments_missed']} missed, "
        f"{assignments['assignments_open']} open, {assignments['assignments_cleaned']} cleaned up, of which "
        f"{counts['elements_never_fired']} were never in a firing"
    )
    return _conservation("assignments are conserved", assignments_in, assignments_out, terms)


def check_collected(mark: int, earliest: int | None) -> Check:
    """No window fires that was collected before the slice: `earliest` is the least last instant of a fired
    window, `mark` the collected mark, both in milliseconds.
    """
    is_met = earliest is None or earliest > mark
    firing = (
        "no window fires"
        if earliest is None
        else f"the earliest window that fires ends at {iso(earliest + 1)}"
    )
    observed = f"{firing}; those up to {iso(mark + 1)} are collected"
    return own_check("collected windows stay collected", "reject", is_met, observed)


def check_life_cycles(counts: dict[str, int], open_before: int) -> Check:
    """Windows open before + opened = absorbed by merges + cleaned up + open now, to the window."""
    windows_in = open_before + counts["windows_opened"]
    windows_out = counts["windows_merged"] + counts["windows_cleaned"] + counts["windows_open"]
    parts = ", ".join(
        f"{counts[f'windows_{part}']} {part}" for part in ("opened", "merged", "cleaned", "open")
    )
    return _conservation("windows are conserved", windows_in, windows_out, f"{open_before} before, {parts}")


def _conservation(title: str, count_in: int, count_out: int, observed: str) -> Check:
    is_met, difference = count_in == count_out, abs(count_in - count_out)
    return own_check(title, "reject", is_met, observed, unexpected=difference, checked=count_in)


_PLAIN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean)


def _texts(expectations: Sequence[Expectation], metrics: pa.Table) -> dict[str, Any]:
    terms = []
    for number, item in enumerate(expectations):
        terms += [f"low_{number}::VARCHAR AS low_{number}", f"high_{number}::VARCHAR AS high_{number}"]
        if item.kind != "not_null":
            kind = metrics.schema.field(f"low_{number}").type
            is_plain = any(is_of_family(kind) for is_of_family in _PLAIN)
            terms.append(f"sample_{number}{'' if is_plain else '::VARCHAR[]'} AS sample_{number}")
    [row] = query(f"SELECT * REPLACE ({', '.join(terms)}) FROM metrics", metrics=metrics).to_pylist()
    return dict(row)


def _check_of(item: Expectation, number: int, metrics: Mapping[str, Any]) -> Check:
    low, high = metrics[f"low_{number}"], metrics[f"high_{number}"]
    sample = [
        value if not isinstance(value, float) or math.isfinite(value) else str(value)
        for value in metrics.get(f"sample_{number}") or ()
    ]
    unexpected = metrics[f"unexpected_{number}"]
    return Check(
        expectation=item.title,
        column_name=item.column,
        severity=item.severity,
        passed=unexpected == 0,
        observed="no values" if low is None else low if low == high else f"{low} … {high}",
        unexpected=unexpected,
        checked=metrics[f"checked_{number}"],
        sample_json=json.dumps(sample) if sample else None,
    )
