"""Great Expectations' report on runs: its validation results, and Data Docs, the pages that it draws of them.
It is made when somebody asks for it, of what `validations` has recorded of the runs, and reads no pane.

The results of suites are recorded as the library has given them. Our own expectations it judges anew, by the
recorded counts; a test holds its verdicts equal to ours.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.pipelines import Expectation
from slackwater.pipelines.suites import Suite, ephemeral_context, library
from slackwater.tables.run_files.staging import declaration_of
from slackwater.tables.sql import quoted, text

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.expectations.expectation import Expectation as LibraryExpectation

_SITE = "slackwater"
_SEVERITIES = {"reject": "critical", "warn": "warning"}


class ValidatedRun(NamedTuple):
    run_id: str
    at: datetime


class ValidatedSuite(NamedTuple):
    """A suite by its name, which for our own expectations is the pipeline's, and a run that validated it."""

    name: str
    run: ValidatedRun
    is_own: bool

    @property
    def file(self) -> str:
        suffix = "" if self.is_own else f"-{quote(self.name, safe='')}"
        return f"{self.run.run_id}{suffix}.json"


class NothingToReport(UsageError):
    """None of the runs has checked an expectation of its panes, or none has recorded its declarations."""


def write_data_docs(inspection: Inspection, runs: Sequence[ValidatedRun], folder: Path) -> Path:
    """Write Data Docs of `runs`, oldest first, into `folder`, and each result as JSON into its `results`;
    returns the first page. Runs without expectations, or without recorded declarations, are left out. Raises
    NothingToReport: no run is left.
    """
    results: dict[ValidatedSuite, ExpectationSuiteValidationResult] = {}
    for run in runs:
        checks = inspection.checks_of(run.run_id)
        declaration = declaration_of(inspection.tables.attempts, run.run_id) or {}
        descriptions = declaration.get("expect", ())
        if pairs := _expectations_and_checks(inspection, checks, descriptions):
            own_suite = ValidatedSuite(inspection.pipeline, run, is_own=True)
            results[own_suite] = library_result(inspection.pipeline, run, pairs)
        for name, results_of_suite in _recorded_results(checks, descriptions).items():
            results[ValidatedSuite(name, run, is_own=False)] = _suite_result(name, run, results_of_suite)
    if not results:
        raise NothingToReport(
            f"{inspection.pipeline}: none of these runs has checked expectations of its results (expect=…), "
            f"so there is nothing to report. `slackwater runs {inspection.pipeline} SEQ` shows the other "
            "checks."
        )
    folder.joinpath("results").mkdir(parents=True, exist_ok=True)
    for suite, result in results.items():
        path = folder / "results" / suite.file
        path.write_text(json.dumps(result.to_json_dict(), indent=2), encoding="utf-8")
    _build_site(results, folder.resolve())
    return folder / "index.html"


def library_result(
    pipeline: str, run: ValidatedRun, pairs: Sequence[tuple[Expectation, Mapping[str, Any]]]
) -> "ExpectationSuiteValidationResult":
    return _suite_result(pipeline, run, [_library_judgement(item, check) for item, check in pairs])


def _suite_result(
    name: str, run: ValidatedRun, results: Sequence["ExpectationValidationResult"]
) -> "ExpectationSuiteValidationResult":
    gx = library()
    from great_expectations.core import ExpectationSuiteValidationResult

    count_met = sum(bool(result.success) for result in results)
    return ExpectationSuiteValidationResult(
        success=count_met == len(results),
        results=list(results),
        suite_name=name,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": count_met,
            "unsuccessful_expectations": len(results) - count_met,
            "success_percent": 100 * count_met / len(results) if results else None,
        },
        meta={
            "great_expectations_version": gx.__version__,
            "run_id": {"run_name": run.run_id, "run_time": run.at.isoformat()},
            "validation_time": run.at.isoformat(),
        },
    )


def _expectations_and_checks(
    inspection: Inspection, checks: Sequence[Mapping[str, Any]], descriptions: Sequence[Mapping[str, Any]]
) -> list[tuple[Expectation, Mapping[str, Any]]]:
    own_checks = {
        row["expectation"]: row for row in checks if row["column_name"] and not row.get("result_json")
    }
    types = {field.name: field.type for field in inspection.tables["panes"].schema}
    expectations = [
        _expectation_of(description, types.get(description["column"]))
        for description in descriptions
        if description["class"] == Expectation.__name__
    ]
    return [(item, own_checks[item.title]) for item in expectations if item.title in own_checks]


def _recorded_results(
    checks: Sequence[Mapping[str, Any]], descriptions: Sequence[Mapping[str, Any]]
) -> dict[str, list["ExpectationValidationResult"]]:
    """The name of each suite that a run has validated → the results of its expectations, in their order."""
    results_by_title = {
        row["expectation"]: row["result_json"] for row in checks if row.get("result_json") is not None
    }
    results: dict[str, list[ExpectationValidationResult]] = {}
    for description in descriptions:
        if results_by_title and description["class"] == Suite.__name__:
            suite = Suite(description["name"], tuple(description["expectations"]))
            texts = (results_by_title.get(suite.title(item)) for item in suite.expectations)
            results.setdefault(suite.name, []).extend(map(_read_result, filter(None, texts)))
    return {name: suite_results for name, suite_results in results.items() if suite_results}


def _read_result(result_json: str) -> "ExpectationValidationResult":
    library()
    from great_expectations.core.expectation_validation_result import expectationValidationResultSchema

    result: ExpectationValidationResult = expectationValidationResultSchema.load(json.loads(result_json))
    return result


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
    """The expectation as the library declares it; bounds that are no doubles or times become a query."""
    gx = library()
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


def _build_site(results: Mapping[ValidatedSuite, "ExpectationSuiteValidationResult"], folder: Path) -> None:
    gx = library()
    from great_expectations.core import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    context = ephemeral_context()
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
    drawable_results = {suite: _drawable(suite, result) for suite, result in results.items()}
    newest = {(suite.name, suite.is_own): result for suite, result in drawable_results.items()}
    expectations: dict[str, list[LibraryExpectation]] = {}
    for (name, _), result in newest.items():
        configurations = (item.expectation_config for item in result.results)
        expectations.setdefault(name, []).extend(
            item.to_domain_obj() for item in configurations if item is not None
        )
    for name, suite_expectations in expectations.items():
        context.suites.add(gx.ExpectationSuite(name=name, expectations=suite_expectations))
    for suite, result in drawable_results.items():
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(suite.name),
            run_id=RunIdentifier(run_name=suite.run.run_id, run_time=suite.run.at),
            batch_identifier="panes" if suite.is_own else "published",
        )
        context.validation_results_store.set(key, result)
    context.build_data_docs(site_names=[_SITE])


def _drawable(
    suite: ValidatedSuite, result: "ExpectationSuiteValidationResult"
) -> "ExpectationSuiteValidationResult":
    """The result without expectations that can't be made, on which no page can be drawn: a user's classes
    that are not imported here, and expectations that the library has refused.
    """

    def is_drawable(item: "ExpectationValidationResult") -> bool:
        try:
            return item.expectation_config is not None and bool(item.expectation_config.to_domain_obj())
        except Exception:  # noqa: BLE001 - what a class of a user's raises
            return False

    return _suite_result(suite.name, suite.run, [item for item in result.results if is_drawable(item)])
