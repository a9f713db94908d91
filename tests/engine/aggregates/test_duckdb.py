"""Every aggregate of the registry results in what DuckDB says over the same rows: nulls, NaN, both zeros and
the extremes of each type among them. Each kind stands beside its SQL.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.aggregates import OverflowAtRow
from slackwater.engine.aggregates.table import AGGREGATES
from slackwater.windowing.columnar.arrays.groups import Groups
from tests.engine.aggregates.contract import Case, cases_of
from tests.engine.aggregates.elements import drawn_elements, rows_of
from tests.properties.search import searched


class Sql(NamedTuple):
    """The result in DuckDB's SQL over the rows of a table t. `error` is how far the two may be apart, where
    DuckDB computes with rounded numbers, or the result is an approximation.
    """

    result: str
    error: str | None = None


_ROUNDED = "1e-12 * sum(abs(x::DOUBLE))"
_ROUNDED_FLOATS = f"if(any_value(typeof(x)) IN ('FLOAT', 'DOUBLE'), {_ROUNDED}, 0)"
_SQUARED = "1e-9 * sum(x::DOUBLE * x::DOUBLE)"
_PAIRS = "FILTER (o IS NOT NULL)"
_CROSSED = f"1e-12 * sum(abs(x::DOUBLE) * (abs(o) + 1)) {_PAIRS}"
_LARGEST = f"(1 + max(abs(x::DOUBLE)) {_PAIRS})"
_IS_LEVEL_X = f"max(x) {_PAIRS} IS NOT DISTINCT FROM min(x) {_PAIRS}"
_IS_LEVEL_O = "max(o) IS NOT DISTINCT FROM min(o)"
# Infinite where the rounded variance of DuckDB is mostly rounding, NaN where a value is not finite.
_SPREAD = f"stddev_pop(x::DOUBLE) {_PAIRS}"
_IN_RELATION = (
    f"(1e-8 * if({_SPREAD} < 1e-140, 'inf'::DOUBLE, 1 + max(abs(x::DOUBLE)) {_PAIRS} / {_SPREAD})"
    f" + sum(0 * (x::DOUBLE * x::DOUBLE) + 0 * o) {_PAIRS})"
)
# Infinite, or an error, where the distance of two values is greater than every double.
_INTERPOLATED = "1e-12 * (2 * max(abs(x::DOUBLE)))"
_AT_QUANTILE = "list_sort(list(x))[1 + floor({q}::DECIMAL(9, 4) * (count(x) - 1))::INT]::DOUBLE"
_RANK = {
    "event_time": "__event_ms, __arrival_ms, o NULLS FIRST",
    "arrival": "__arrival_ms, o NULLS FIRST",
}
# Kind → its SQL, over the rows u that count; {by} is the order of rows, {q} the quantile.
SQL: dict[str, Sql] = {
    "count": Sql("count(x)"),
    "sum": Sql("sum(x)", _ROUNDED_FLOATS),
    "mean": Sql("avg(x::DOUBLE)", _ROUNDED),
    "min": Sql("min(x)"),
    "max": Sql("max(x)"),
    "variance": Sql("var_samp(x::DOUBLE)", _SQUARED),
    "stddev": Sql("stddev_samp(x::DOUBLE)", f"sqrt({_SQUARED})"),
    "var_pop": Sql("var_pop(x::DOUBLE)", _SQUARED),
    "stddev_pop": Sql("stddev_pop(x::DOUBLE)", f"sqrt({_SQUARED})"),
    "covar_pop": Sql("covar_pop(x::DOUBLE, o)", _CROSSED),
    "covar_samp": Sql("covar_samp(x::DOUBLE, o)", _CROSSED),
    "corr": Sql(f"if({_IS_LEVEL_X} OR {_IS_LEVEL_O}, NULL, corr(x::DOUBLE, o))", _IN_RELATION),
    "regr_slope": Sql(f"if({_IS_LEVEL_O}, NULL, regr_slope(x::DOUBLE, o))", f"{_LARGEST} * {_IN_RELATION}"),
    "regr_intercept": Sql("regr_intercept(x::DOUBLE, o)", f"{_LARGEST} * {_IN_RELATION}"),
    "regr_r2": Sql("regr_r2(x::DOUBLE, o)", _IN_RELATION),
    "histogram": Sql(
        "if(count(x) = 0, NULL, [count_if(x::DOUBLE <= -1.5), count_if(x::DOUBLE > -1.5 AND x::DOUBLE <= 0), "
        "count_if(x::DOUBLE > 0 AND x::DOUBLE <= 100.25), count_if(x::DOUBLE > 100.25)])"
    ),
    "bool_and": Sql("bool_and(x)"),
    "bool_or": Sql("bool_or(x)"),
    "bit_and": Sql("bit_and(x)"),
    "bit_or": Sql("bit_or(x)"),
    "bit_xor": Sql("bit_xor(x)"),
    "first": Sql("first(x ORDER BY {by})"),
    "last": Sql("last(x ORDER BY {by})"),
    "min_by": Sql("first(x ORDER BY o, x) FILTER (o IS NOT NULL)"),
    "max_by": Sql("last(x ORDER BY o, x) FILTER (o IS NOT NULL)"),
    "collect_list": Sql("list(x ORDER BY {by})[:{limit}]"),
    "string_agg": Sql("string_agg(x, '{separator}' ORDER BY {by})"),
    "count_distinct": Sql("count(DISTINCT x)"),
    "sum_distinct": Sql("sum(DISTINCT x)", _ROUNDED_FLOATS),
    "collect_set": Sql("list_sort(list(DISTINCT x))"),
    "mode": Sql("(SELECT x FROM u GROUP BY x ORDER BY count(*) DESC, x LIMIT 1)"),
    "top": Sql(
        "(SELECT list(s) FROM (SELECT {{'value': x, 'count': count(*)}} AS s FROM u GROUP BY x "
        "ORDER BY count(*) DESC, x LIMIT {limit}))"
    ),
    "median": Sql("median(x::DOUBLE)", _INTERPOLATED),
    "quantile": Sql("quantile_cont(x::DOUBLE, {q})", _INTERPOLATED),
    "function": Sql("nullif(count(x), 0)"),
    "approx_distinct": Sql("count(DISTINCT x)", "3"),
    "approx_quantile": Sql(
        _AT_QUANTILE,
        f"2.3e-308 + 0.21 * abs({_AT_QUANTILE})",
    ),
}
CASES = [case for kind in AGGREGATES for case in cases_of(kind) if case.aggregate.column is not None]
DATABASE = duckdb.connect(config={"threads": 1})


def _answer(case: Case, rows: pa.Table) -> tuple[Any, Any]:
    """(DuckDB's result, the error that it allows: 0 for none, None where DuckDB can't say)."""
    item, sql = case.aggregate, SQL[case.aggregate.kind]
    where = "x IS NOT NULL" + (f" AND {item.where}" if item.where else "")
    settings = {"by": _RANK.get(item.by or ""), "q": item.quantile, "separator": item.separator}
    settings["limit"] = item.limit or 1000
    DATABASE.register("t", rows)
    columns = ", ".join(text.format(**settings) for text in (sql.result, sql.error or "0"))
    try:
        table = DATABASE.sql(
            f"WITH u AS (FROM t WHERE {where}) SELECT {columns}, count(*) FROM u"
        ).to_arrow_table()
    except duckdb.OutOfRangeException:  # a sum of more than 38 digits, a variance beyond the greatest double
        return None, None
    result, error, _ = (column.to_pylist()[0] for column in table.columns)
    return result, 0 if error is None else error if math.isfinite(error) else None


def _is_near(ours: Any, theirs: Any, error: float) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_is_near, ours, theirs, [error] * len(ours)))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(map(_is_near, ours.values(), theirs.values(), [error] * len(ours)))
    if not isinstance(ours, float | int | Decimal) or not isinstance(theirs, float | int | Decimal):
        return bool(ours == theirs)
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    return abs(Fraction(ours) - Fraction(theirs)) <= Fraction(error)


def test_every_registered_kind_has_its_sql() -> None:
    assert set(SQL) == set(AGGREGATES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(st.data())
@searched(4, long=30)
def test_an_aggregate_is_what_duckdb_says(case: Case, data: st.DataObject) -> None:
    elements = data.draw(drawn_elements(case.values))
    if case.aggregate.by is not None:  # the hash of a row, which decides at last, is not one of DuckDB's
        elements = [item._replace(arrival=number) for number, item in enumerate(elements)]
    rows = rows_of(elements, case.values.type)
    theirs, error = _answer(case, rows)
    bound = case.bind()
    accumulators = bound.partial(rows, Groups(np.zeros(rows.num_rows, np.int64), 1))
    try:
        [ours] = bound.results(accumulators).to_pylist()
    except OverflowAtRow:
        assert theirs is None or abs(theirs) >= 2**63
        return
    if error is not None:
        assert _is_near(ours, theirs, error), (ours, theirs)
