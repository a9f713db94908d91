"""Great Expectations' report on runs: its validation results, and Data Docs, the pages that it draws of them.
It is made when somebody asks for it, of what `validations` has recorded of the runs, and reads no pane.

The one file that imports Great Expectations, which takes seconds. The library judges anew, by the recorded
counts; a test holds its verdicts equal to ours.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from slackwater.jobs.errors import UsageError
from slackwater.jobs.inspection.inspection import Inspection
from slackwater.jobs.pipelines import Expectation
from slackwater.jobs.tables.file_relations import quoted, text
from slackwater.jobs.tables.run_files.staging import declaration_of

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.expectations.expectation import Expectation as LibraryExpectation

_SITE = "slackwater"
_SEVERITIES = {"reject": "critical", "warn": "warning"}


class ValidatedRun(NamedTuple):
    """A run, or a try at one, by its run id, and when it was validated."""

    run_id: str
    at: datetime


class NothingToReport(UsageError):
    """None of the runs has checked an expectation of its panes, or none has recorded its declarations."""


def write_data_docs(inspection: Inspection, runs: Sequence[ValidatedRun], folder: Path) -> Path:
    """Write Data Docs of `runs`, oldest first, into `folder`, and each result as JSON into its `results`.
    Gives the first page.

    Runs without expectations of their panes are left out, and so are those of which no declarations are
    recorded.

    Raises:
        NothingToReport: no run is left.
    """
    results = {
        run: library_result(inspection.pipeline, run, pairs)
        for run in runs
        if (pairs := _expectations_and_checks(inspection, run.run_id))
    }
    if not results:
        raise NothingToReport(
            f"{inspection.pipeline}: none of these runs has checked expectations of its results (expect=…), "
            f"so there is nothing to report. `slackwater runs {inspection.pipeline} SEQ` shows the other "
            "checks."
        )
    folder.joinpath("results").mkdir(parents=True, exist_ok=True)
    for run, result in results.items():
        path = folder / "results" / f"{run.run_id}.json"
        path.write_text(json.dumps(result.to_json_dict(), indent=2), encoding="utf-8")
    _build_site(inspection.pipeline, results, folder.resolve())
    return folder / "index.html"


def library_result(
    pipeline: str, run: ValidatedRun, pairs: Sequence[tuple[Expectation, Mapping[str, Any]]]
) -> "ExpectationSuiteValidationResult":
    """The validation result of one run.

    Args:
        pipeline: its name, which the library's suite has, too.
        run: whose result it is.
        pairs: each expectation, with its row of `validations`.
    """
    gx = _library()
    from great_expectations.core import ExpectationSuiteValidationResult

    results = [_library_judgement(expectation, check) for expectation, check in pairs]
    count_met = sum(bool(result.success) for result in results)
    return ExpectationSuiteValidationResult(
        success=count_met == len(results),
        results=results,
        suite_name=pipeline,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": count_met,
            "unsuccessful_expectations": len(results) - count_met,
            "success_percent": 100 * count_met / len(results),
        },
        meta={
            "great_expectations_version": gx.__version__,
            "run_id": {"run_name": run.run_id, "run_time": run.at.isoformat()},
            "validation_time": run.at.isoformat(),
        },
    )


def _library() -> Any:
    """Great Expectations, which sends nobody what it is used for."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    return great_expectations


def _expectations_and_checks(
    inspection: Inspection, run_id: str
) -> list[tuple[Expectation, Mapping[str, Any]]]:
    """The expectations of the panes that a run has declared, each with its row of `validations`."""
    declaration = declaration_of(inspection.tables.attempts, run_id) or {}
    checks = {row["expectation"]: row for row in inspection.checks_of(run_id) if row["column_name"]}
    types = {field.name: field.type for field in inspection.tables["panes"].schema}
    expectations = [
        _expectation_of(description, types.get(description["column"]))
        for description in declaration.get("expect", ())
        if description["class"] == Expectation.__name__
    ]
    return [(item, checks[item.title]) for item in expectations if item.title in checks]


def _expectation_of(description: Mapping[str, Any], kind: pa.DataType | None) -> Expectation:
    """An expectation from its plain values, see `Pipeline.describe`; `kind`: the type of its column."""

    def value_of(plain: Any) -> Any:
        if isinstance(plain, Mapping):
            return Decimal(plain["decimal"])
        if kind is not None and pa.types.is_date(kind) and plain is not None:
            return date.fromisoformat(plain)
        if kind is not None and pa.types.is_timestamp(kind) and plain is not None:
            return datetime.fromisoformat(plain)
        return plain

    return Expectation(
        kind=description["kind"],
        column=description["column"],
        minimum=value_of(description["minimum"]),
        maximum=value_of(description["maximum"]),
        values=tuple(value_of(value) for value in description["values"]),
        severity=description["severity"],
    )


def _library_judgement(expectation: Expectation, check: Mapping[str, Any]) -> "ExpectationValidationResult":
    """The library's result of one expectation, which it judges by the counts of the check."""
    from great_expectations.execution_engine import PandasExecutionEngine

    library_expectation, engine = _library_expectation(expectation), PandasExecutionEngine()
    is_query = hasattr(library_expectation, "unexpected_rows_query")
    settings = {"result_format": {"result_format": "COMPLETE" if is_query else "BASIC"}}
    sample = json.loads(check["sample_json"] or "[]")
    metrics = {}
    for metric in library_expectation.get_validation_dependencies(
        engine, settings
    ).get_metric_configurations():
        # The library's metrics are called by what they count, ours are of the values that an expectation
        # looks at: among those of `between` and `in_set` are no nulls.
        value: Any = check["unexpected"]
        if metric.metric_name == "table.row_count":
            value = check["checked"]
        elif metric.metric_name.endswith(".unexpected_values"):
            value = sample
        elif metric.metric_name == "unexpected_rows_query.table":
            value = [{expectation.column: value} for value in sample]
        elif (
            metric.metric_name == "column_values.nonnull.unexpected_count" and expectation.kind != "not_null"
        ):
            value = 0
        metrics[metric.id] = value
    return library_expectation.metrics_validate(metrics, settings, engine)


def _library_expectation(expectation: Expectation) -> "LibraryExpectation":
    """The expectation as the library declares it. Its bounds are doubles and times; others stand in a
    query.
    """
    gx = _library()
    from great_expectations.expectations.row_conditions import Column

    severity, column = _SEVERITIES[expectation.severity], expectation.column
    if expectation.kind == "not_null":
        return gx.expectations.ExpectColumnValuesToNotBeNull(column=column, severity=severity)
    is_known = Column(column).is_not_null()
    if expectation.kind == "in_set":
        return gx.expectations.ExpectColumnValuesToBeInSet(
            column=column, value_set=list(expectation.values), row_condition=is_known, severity=severity
        )
    sides = {"<": expectation.minimum, ">": expectation.maximum}
    if all(bound is None or _is_bound_of_library(bound) for bound in sides.values()):
        return gx.expectations.ExpectColumnValuesToBeBetween(
            column=column,
            min_value=expectation.minimum,
            max_value=expectation.maximum,
            row_condition=is_known,
            severity=severity,
        )
    broken = " OR ".join(
        f"{quoted(column)} {sign} {text(bound)}" for sign, bound in sides.items() if bound is not None
    )
    return gx.expectations.UnexpectedRowsExpectation(
        unexpected_rows_query=f"SELECT * FROM {{batch}} WHERE {broken}",
        description=expectation.title,
        severity=severity,
    )


def _is_bound_of_library(bound: Any) -> bool:
    """Whether a bound stays what it is where it becomes a double or a time."""
    if isinstance(bound, date):
        return True
    is_number = isinstance(bound, int | float | Decimal) and not isinstance(bound, bool)
    return is_number and (math.isinf(bound) or (abs(bound) < 1e300 and Decimal(float(bound)) == bound))


def _build_site(
    pipeline: str, results: Mapping[ValidatedRun, "ExpectationSuiteValidationResult"], folder: Path
) -> None:
    """Let the library draw its pages of the results into `folder`."""
    gx = _library()
    from great_expectations.core import RunIdentifier
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.add_data_docs_site(
        site_name=_SITE,
        site_config={
            "class_name": "SiteBuilder",
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(folder),
            },
        },
    )
    newest = list(results.values())[-1]
    expectations = [
        configuration.to_domain_obj()
        for result in newest.results
        if (configuration := result.expectation_config)
    ]
    context.suites.add(gx.ExpectationSuite(name=pipeline, expectations=expectations))
    for run, result in results.items():
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(pipeline),
            run_id=RunIdentifier(run_name=run.run_id, run_time=run.at),
            batch_identifier="panes",
        )
        context.validation_results_store.set(key, result)
    context.build_data_docs(site_names=[_SITE])
