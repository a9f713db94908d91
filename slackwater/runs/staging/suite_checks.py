"""Validates what a run would publish by Great Expectations: each suite of the pipeline over the rows that the
staged panes would be in `published`, the newest firing of each window.

The rows are a frame of pandas up to PANDAS_ROWS, and a DataFrame of Spark beyond. An expectation that is a
query in SQL is Spark's, however few the rows are: the library judges no other frame by it. NaN counts as null
in both frames. Over no rows every expectation passes, and the library is not asked.

A check for each expectation is the result; what the library raises is a failed check, too.
"""

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.replaying.pane_metrics import SAMPLES
from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.errors import SlackwaterError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.suites import Suite, ephemeral_context, library, short_text
from slackwater.runs.staging.validation import Check
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.schemas import Shape, table_columns
from slackwater.tables.sql import query

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.expectations.expectation import Expectation as LibraryExpectation
    from pyspark.sql import DataFrame

PANDAS_ROWS = 1_000_000
# The columns of `published` that a publication numbers: before it nobody knows them.
_NUMBERED_COLUMNS = ("revision", "run_seq")
_SEVERITIES = {"critical": "reject", "warning": "warn", "info": "warn"}
_LIBRARY_SEVERITIES = {"reject": "critical", "warn": "warning"}
_NUMBER = "slackwater_number"
_EXACT_IN_A_DOUBLE = 2**53
_NOT_OF_THE_LIBRARY = (SlackwaterError, MemoryError)


@dataclass(frozen=True)
class RowsToPublish:
    """The rows that a run's staged panes, in the files `paths`, would be in `published`, in the frames
    that the library takes.
    """

    pipeline: Pipeline
    shape: Shape
    panes: Folder
    run_id: str
    paths: Sequence[str]

    @cached_property
    def _files(self) -> StoredFiles:
        return self.panes.files(Within.only("run_id", self.run_id))

    @property
    def are_few(self) -> bool:
        return self._files.rows <= PANDAS_ROWS

    @property
    def are_none(self) -> bool:
        """Whether there are no rows, as far as that is known before Spark reads them."""
        return not self.paths or (self.are_few and self.table.num_rows == 0)

    @cached_property
    def table(self) -> pa.Table:
        where = pc.field("run_id") == self.run_id
        panes = self._in_form(self._files.read(self._files.read_schema.names, where))
        return query(self._sql("panes", '"'), panes=panes)

    def pandas(self) -> "pd.DataFrame":
        return frame_of_pandas(self.table)

    def spark(self) -> "DataFrame":
        from slackwater.runtime.session import session

        spark = session(f"slackwater validate {self.pipeline.name}")
        panes = spark.read.format("delta").load(self.panes.uri)
        panes = panes.where(panes["run_id"] == self.run_id)
        in_form = self._in_form
        if self.pipeline.results or self.pipeline.having is not None:
            from pyspark.sql.pandas.types import from_arrow_schema

            stored = self._files.read_schema
            schema = in_form(stored.empty_table()).schema

            def batches_in_form(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    yield from in_form(pa.Table.from_batches([batch])).cast(schema).to_batches()

            panes = panes.select(*stored.names).mapInArrow(batches_in_form, from_arrow_schema(schema))
        return spark.sql(self._sql("{panes}", "`"), panes=panes)

    @property
    def _in_form(self) -> Callable[[pa.Table], pa.Table]:
        results = tuple(
            (field.name, field.type) for field in dict(table_columns(self.shape)["corrections"])["new"]
        )
        return partial(PublishedForm.of(self.pipeline).apply, results=results)

    def _sql(self, panes: str, quote: str) -> str:
        """SQL of DuckDB and of Spark for the rows, from the panes of the run."""

        def quoted(name: str) -> str:
            return f"{quote}{name}{quote}"

        values = {"window_date": _DAY}
        values |= {
            name: f"CASE WHEN isnan({quoted(name)}) THEN NULL ELSE {quoted(name)} END"
            for name, kind in self.shape.published or self.shape.results
            if pa.types.is_floating(kind)
        }
        columns = ", ".join(
            f"{values.get(name, quoted(name))} AS {quoted(name)}"
            for name, _ in table_columns(self.shape)["published"]
            if name not in _NUMBERED_COLUMNS
        )
        window = [quoted(name) for name in (*self.shape.key_names, *self.shape.window_names)]
        if self.shape.windows is None:  # firings of the global window stand side by side
            window.append("CASE WHEN window_start IS NULL THEN firing ELSE 0 END")
        newest = f"rank() OVER (PARTITION BY {', '.join(window)} ORDER BY firing DESC)"
        replaces = self.pipeline.keyed_process is None and not self.pipeline.purges
        keys = map(quoted, self.shape.key_names)
        order = ["key_group", *keys, "window_end", "timestamp", "firing", "ordinal"]
        return (
            f"SELECT {columns} FROM (SELECT *, {newest if replaces else 1} AS __place FROM {panes}) "
            f"WHERE __place = 1 AND kind <> 'withdrawn' ORDER BY {', '.join(order)}"
        )


_DAY = "CAST(coalesce(window_start, window_end - INTERVAL 1 MILLISECOND, timestamp) AS DATE)"


def frame_of_pandas(rows: pa.Table) -> "pd.DataFrame":
    """Rows as the library takes them; integers with nulls are doubles, or `Int64` where a double rounds."""
    import pandas as pd

    frame = rows.to_pandas()
    for field in rows.schema:
        column = rows.column(field.name)
        if pa.types.is_int64(field.type) and column.null_count and _is_rounded(column):
            frame[field.name] = column.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame


def _is_rounded(column: pa.ChunkedArray) -> bool:
    bounds = pc.min_max(column)
    return any(bound is not None and abs(bound) > _EXACT_IN_A_DOUBLE for bound in bounds.as_py().values())


def check_suites(suites: Sequence[Suite], rows: RowsToPublish) -> list[Check]:
    if not suites:
        return []
    if rows.are_none:
        return [_check_of_nothing(suite, item) for suite in suites for item in suite.expectations]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's and pandas' are about code that is not the user's
        batches = _Batches(rows)
        return [check for suite in suites for check in _checks_of(suite, batches)]


def _check_of_nothing(suite: Suite, item: Mapping[str, Any]) -> Check:
    return Check(
        expectation=suite.title(item),
        column_name=_column_of(item),
        severity=_severity_of(suite, item),
        passed=True,
        observed="no values",
        unexpected=0,
        checked=0,
        sample_json=None,
    )


def _column_of(item: Mapping[str, Any]) -> str | None:
    column = item.get("kwargs", {}).get("column")
    return column if isinstance(column, str) else None


def _severity_of(suite: Suite, item: Mapping[str, Any]) -> str:
    return suite.severity or _SEVERITIES.get(item.get("severity", "critical"), "reject")


class _Batches:
    """The rows as batches of the library, each made when the first expectation asks for it."""

    def __init__(self, rows: RowsToPublish) -> None:
        self._rows = rows
        self._context = ephemeral_context()
        self._keys = [*rows.shape.key_names, "window_start"]

    @cached_property
    def pandas(self) -> Any:
        source = self._context.data_sources.add_pandas("pandas")
        return self._batch(source, self._rows.pandas())

    @cached_property
    def spark(self) -> Any:
        source = self._context.data_sources.add_spark("spark", persist=False)
        return self._batch(source, self._rows.spark())

    def _batch(self, source: Any, frame: Any) -> Any:
        definition = source.add_dataframe_asset("published").add_batch_definition_whole_dataframe("published")
        return definition.get_batch({"dataframe": frame})

    def batch_for(self, expectation: "LibraryExpectation") -> tuple[Any, str]:
        """The batch that judges an expectation, and the library's format of its result: only the complete
        one has some of the rows that a query finds.
        """
        from great_expectations.expectations import UnexpectedRowsExpectation

        result_format = "COMPLETE" if isinstance(expectation, UnexpectedRowsExpectation) else "SUMMARY"
        is_for_pandas = self._rows.are_few and _judges_pandas(expectation)
        return self.pandas if is_for_pandas else self.spark, result_format

    def settings(self, result_format: str) -> dict[str, Any]:
        """The library's settings of a format, with the columns that locate an unexpected value."""
        return {"result_format": result_format, "unexpected_index_column_names": self._keys}


def _judges_pandas(expectation: "LibraryExpectation") -> bool:
    """Whether the library has all that an expectation asks for of frames of pandas."""
    from great_expectations.exceptions import MetricError, MetricProviderError
    from great_expectations.execution_engine import PandasExecutionEngine
    from great_expectations.expectations.registry import get_metric_provider

    engine = PandasExecutionEngine()
    try:
        dependencies = expectation.get_validation_dependencies(engine, {})
        for metric in dependencies.get_metric_configurations():
            get_metric_provider(metric.metric_name, engine)
    except (MetricProviderError, MetricError):
        return False
    except Exception:  # noqa: BLE001 - of its own code; it is raised again, and reported, in the validation
        return True
    return True


def _checks_of(suite: Suite, batches: _Batches) -> Iterator[Check]:
    results: dict[int, Any] = {}
    errors: dict[int, str] = {}
    expectations: dict[tuple[Any, str], list[tuple[int, Any]]] = {}
    for number, item in enumerate(suite.expectations):
        with _caught(errors, number):
            expectation = _library_expectation(suite, number, item)
            expectations.setdefault(batches.batch_for(expectation), []).append((number, expectation))
    for (batch, result_format), by_number in expectations.items():
        results |= _results(batch, suite.name, by_number, errors, batches.settings(result_format))
    for number, item in enumerate(suite.expectations):
        yield _check_of(suite, item, results.get(number), errors.get(number))


def _library_expectation(suite: Suite, number: int, item: Mapping[str, Any]) -> "LibraryExpectation":
    """The expectation as the library has it, with its number in the suite."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    if suite.custom is not None:
        _custom_expectations(suite.custom)
    severity = (
        item.get("severity", "critical") if suite.severity is None else _LIBRARY_SEVERITIES[suite.severity]
    )
    parts = {**item, "severity": severity, "meta": {**item.get("meta", {}), _NUMBER: number}}
    return ExpectationConfiguration(**{"kwargs": {}, **parts}).to_domain_obj()


@cache
def _custom_expectations(code: str) -> ModuleType:
    """The user's file, run once: the library then knows the expectations that it defines by their types."""
    module = ModuleType(f"slackwater_suite_{sha256(code.encode()).hexdigest()[:12]}")
    exec(compile(code, module.__name__, "exec"), vars(module))
    return module


def _results(
    batch: Any,
    name: str,
    expectations_by_number: Sequence[tuple[int, "LibraryExpectation"]],
    errors: dict[int, str],
    result_format: Mapping[str, Any],
) -> dict[int, Any]:
    """The library's result by number; it validates a suite at once. Where that raises, each expectation is
    validated alone, and `errors` gets what the failing one has raised.
    """
    gx = library()
    try:
        suite = gx.ExpectationSuite(name=name, expectations=[item for _, item in expectations_by_number])
        results = batch.validate(suite, result_format=result_format).results
    except _NOT_OF_THE_LIBRARY:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a failed check
        if len(expectations_by_number) == 1:
            errors[expectations_by_number[0][0]] = _error_text(error)
            return {}
        results_of_each = (
            _results(batch, name, [pair], errors, result_format) for pair in expectations_by_number
        )
        return {number: result for part in results_of_each for number, result in part.items()}
    return {result.expectation_config.meta.pop(_NUMBER): result for result in results}


@contextmanager
def _caught(errors: dict[int, str], number: int) -> Iterator[None]:
    try:
        yield
    except _NOT_OF_THE_LIBRARY:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a failed check
        errors[number] = _error_text(error)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _check_of(suite: Suite, item: Mapping[str, Any], result: Any, error: str | None) -> Check:
    plain = {} if result is None else result.to_json_dict()
    plain.get("expectation_config", {}).get("kwargs", {}).pop("batch_id", None)
    values = plain.get("result") or {}
    passed = bool(plain.get("success"))
    message = error or (None if passed else _exception_in(plain.get("exception_info") or {}))
    sample = [_plain(value) for value in _samples_in(values)[:SAMPLES]]
    return Check(
        expectation=suite.title(item),
        column_name=_column_of(item),
        severity=_severity_of(suite, item),
        passed=passed,
        observed=short_text(f"Great Expectations raised {message}" if message else _observed(values)),
        unexpected=int(values.get("unexpected_count", not passed)),
        checked=int(values["element_count"]) - int(values.get("missing_count", 0))
        if "element_count" in values
        else 1,
        sample_json=json.dumps(sample) if sample and not passed else None,
        result_json=json.dumps(plain or _result_of_error(item, error), default=str),
    )


def _result_of_error(item: Mapping[str, Any], error: str | None) -> dict[str, Any]:
    """The library's result, as JSON, of an expectation that has raised before the library had one."""
    info = {"raised_exception": True, "exception_message": error, "exception_traceback": None}
    config = {"type": item["type"], "kwargs": item.get("kwargs", {}), "meta": item.get("meta", {})}
    return {
        "success": False,
        "expectation_config": config,
        "result": {},
        "meta": {},
        "exception_info": info,
    }


def _exception_in(info: Mapping[str, Any]) -> str | None:
    parts = [info, *(part for part in info.values() if isinstance(part, Mapping))]
    messages = (str(part["exception_message"]) for part in parts if part.get("raised_exception"))
    return next((" ".join(message.split()) for message in messages), None)


def _observed(values: Mapping[str, Any]) -> str:
    """What an expectation has looked at: its value, or how many values and the first unexpected place."""
    if "element_count" not in values:
        value = values.get("observed_value")
        if "unexpected_rows" in (values.get("details") or {}):
            return f"{value} unexpected rows"
        return value if isinstance(value, str) else json.dumps(value, default=str)
    count, nulls = values["element_count"], values.get("missing_count", 0)
    unexpected = values.get("unexpected_count")
    text = f"{unexpected} of {count} values unexpected" if unexpected else f"{count} values"
    text += f", {nulls} null" if nulls else ""
    places = values.get("partial_unexpected_index_list") or [{}]
    names = values.get("unexpected_index_column_names", ())
    first = ", ".join(f"{name} {places[0][name]}" for name in names if name in places[0])
    return f"{text}, the first at {first}" if first else text


def _samples_in(values: Mapping[str, Any]) -> list[Any]:
    details = values.get("details") or {}
    return values.get("partial_unexpected_list") or details.get("unexpected_rows") or []


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
