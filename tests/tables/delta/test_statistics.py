"""The statistics of a file are those of its rows, whether columns come plain or as dictionaries."""

import json
import math
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.statistics import Statistics
from slackwater.tables.delta.stored_files import Within, files_within
from tests.properties.search import searched

TEXTS = ("a", "b", "c")


@st.composite
def dictionary_columns(draw: st.DrawFn) -> pa.DictionaryArray:
    """Texts as a dictionary, of which some entries may be nobody's."""
    entries = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3, unique=True))
    indices = draw(st.lists(st.none() | st.integers(0, len(entries) - 1), max_size=4))
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(entries))


@settings(max_examples=200)
@given(st.lists(dictionary_columns(), min_size=1, max_size=3))
def test_a_dictionary_has_the_statistics_of_its_values(chunks: list[pa.DictionaryArray]) -> None:
    table = pa.table({"text": pa.chunked_array(chunks)})
    values = [value for chunk in chunks for value in chunk.to_pylist()]
    values_not_null = [value for value in values if value is not None]
    bounds = ({"text": min(values_not_null)}, {"text": max(values_not_null)}) if values_not_null else ({}, {})
    log_statistics = json.loads(Statistics().add(table).to_json())
    assert log_statistics == {
        "numRecords": len(values),
        "minValues": bounds[0],
        "maxValues": bounds[1],
        "nullCount": {"text": len(values) - len(values_not_null)},
    }


LAST = "\U0010ffff"
long_texts = st.builds(lambda end: 31 * "x" + end, st.text(st.sampled_from(["x", LAST]), max_size=6))


@given(st.lists(st.text(max_size=40) | long_texts, min_size=1))
def test_long_texts_have_bounds_that_are_short_and_hold_all_of_them(texts: list[str]) -> None:
    log_statistics = json.loads(Statistics().add(pa.table({"text": pa.array(texts)})).to_json())
    least, greatest = log_statistics["minValues"]["text"], log_statistics["maxValues"]["text"]
    assert all(least <= text <= greatest for text in texts)
    assert len(least) <= 32 and (len(greatest) <= 33 or greatest[32:].count(LAST) == len(greatest) - 32)


floats = st.floats() | st.sampled_from([-0.0, 0.0, 0.1, 1e-7, 1e300])
PRUNED = {
    "ratio": (pa.float64(), floats),
    "small_ratio": (pa.float32(), st.floats(width=32)),
    "price": (pa.decimal128(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    "sum": (pa.decimal128(38, 6), st.decimals(-(10**31), 10**31, places=6)),
    "is_open": (pa.bool_(), st.booleans()),
}
columns = st.sampled_from(sorted(PRUNED)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.lists(st.lists(st.none() | PRUNED[name][1], min_size=1, max_size=3), min_size=1, max_size=4),
        PRUNED[name][1],
        PRUNED[name][1],
    )
)


@searched(15, long=60)
@given(columns)
@example(("ratio", [[0.0], [1.0]], 0.0, math.nan))
def test_files_that_are_passed_over_hold_no_rows_within_the_bounds(
    drawn: tuple[str, list[list[Any]], Any, Any],
) -> None:
    """DuckDB says which rows lie within; it takes NaN for the greatest value, as Spark does. The log is read
    as delta-rs lists it and as commits of this process are listed, which agree.
    """
    name, values_of_files, low, high = drawn
    kind = PRUNED[name][0]
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", pa.schema([(name, kind)]))
        folder.ensure()
        path_by_number = {}
        for number, values in enumerate(values_of_files):
            paths_before = set(folder.files().paths)
            folder.append(pa.table({name: pa.array(values, kind)}))
            [path_by_number[number]] = set(folder.files().paths) - paths_before
        listed = folder.open().actions
        by_delta_rs = pa.table(DeltaTable(folder.uri).get_add_actions(flatten=True))
        bounds = [column for column in by_delta_rs.column_names if column.startswith(("min.", "max."))]
        assert (
            listed.sort_by("path")
            .select(["path", *bounds])
            .equals(by_delta_rs.sort_by("path").select(["path", *bounds]))
        )
        chosen = set(files_within(listed, Within(name, low, high))["path"].to_pylist())
    for number, values in enumerate(values_of_files):
        rows = pa.table({"v": pa.array(values, kind)})
        limits = pa.table({"low": pa.array([low], kind), "high": pa.array([high], kind)})
        with duckdb.connect() as connection:
            connection.register("limits", limits)
            connection.register("rows", rows)
            [(count,)] = connection.execute(
                "SELECT count(*) FROM rows, limits WHERE v BETWEEN low AND high"
            ).fetchall()
        if count:
            assert path_by_number[number] in chosen


def test_nan_as_the_greatest_value_is_no_bound() -> None:
    """Spark writes it so."""
    files = pa.table({"path": ["a", "b"], "min.v": [1.0, 1.0], "max.v": [math.nan, 2.0]})
    assert files_within(files, Within("v", 5.0, None))["path"].to_pylist() == ["a"]
    assert files_within(files, Within("v", None, 0.5)).num_rows == 0


def bounds(values: list[Any], kind: pa.DataType) -> tuple[Any, Any]:
    statistics = json.loads(Statistics().add(pa.table({"v": pa.array(values, kind)})).to_json())
    return statistics["minValues"].get("v"), statistics["maxValues"].get("v")


def test_bounds_of_numbers_are_exact_or_too_wide() -> None:
    price, long_sum = pa.decimal128(9, 2), pa.decimal128(20, 2)
    assert bounds([1.5, None, -0.25], pa.float64()) == (-0.25, 1.5)
    assert [math.copysign(1, bound) for bound in bounds([0.0, -0.0], pa.float64())] == [-1, 1]
    assert bounds([1.0, math.nan], pa.float64()) == bounds([1.0, math.inf], pa.float64()) == (None, None)
    assert bounds([Decimal("12.30"), Decimal("-0.05")], price) == (-0.05, 12.3)
    assert bounds([Decimal("123456789012345678.91")], long_sum) == (123456789012345678, 123456789012345679)
    assert bounds([Decimal("999999999999999999.99")], long_sum) == (None, None), "19 digits are too many"
    assert bounds([Decimal("0.00000001")], pa.decimal128(9, 8)) == (0, 1)
    assert bounds([True, None], pa.bool_()) == (True, True)
