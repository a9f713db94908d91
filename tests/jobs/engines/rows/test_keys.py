"""Keys of a table's rows have the key groups that Flink gives them, and come back in the types that they
had.
"""

from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.pipelines import DeltaSource, Pipeline, agg
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy

# Java's hash codes and Flink's spreading of them, written down here once more from their definitions.


def java_int(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def java_hash(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, date):
        return java_int((value.year & 0xFFFFF800) ^ ((value.year << 11) + (value.month << 6) + value.day))
    if isinstance(value, str):
        total = 0
        data = value.encode("utf-16-be")
        for position in range(0, len(data), 2):
            total = java_int(31 * total + int.from_bytes(data[position : position + 2], "big"))
        return total
    return java_int((value & 0xFFFFFFFF) ^ (value >> 32)) if kind == pa.int64() else value


def spread(code: int) -> int:
    """MathUtils.murmurHash."""
    code = code * 0xCC9E2D51 % 2**32
    code = (code << 15 | code >> 17) % 2**32
    code = code * 0x1B873593 % 2**32
    code = (code << 13 | code >> 19) % 2**32
    code = (code * 5 + 0xE6546B64) % 2**32
    code ^= 4
    code ^= code >> 16
    code = code * 0x85EBCA6B % 2**32
    code ^= code >> 13
    code = code * 0xC2B2AE35 % 2**32
    code ^= code >> 16
    signed = java_int(code)
    return signed if signed >= 0 else -signed if signed != -(2**31) else 0


def tuple_hash(values: list[Any], kinds: list[pa.DataType]) -> int:
    total = 0
    for value, kind in zip(values, kinds, strict=True):
        total = java_int(31 * total + java_hash(value, kind))
    return total


KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=6)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
}


def keys_on(columns: dict[str, pa.DataType], max_parallelism: int = 128) -> Keys:
    pipeline = Pipeline(
        name="p",
        source=DeltaSource("t", event_time="e", arrival_time="a"),
        watermarks=WatermarkStrategy.monotonous(),
        key_by=list(columns),
        window=TumblingEventTimeWindows.of(timedelta(hours=1)),
        select={"n": agg.count()},
        start="2013-01-01",
        max_parallelism=max_parallelism,
    )
    return Keys.of(pipeline, pa.schema([("other", pa.string()), *columns.items()]))


@given(
    st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3),
    st.sampled_from([1, 128, 32768]),
    st.data(),
)
def test_key_groups_are_flinks_and_keys_come_back_as_they_were(
    names: list[str], max_parallelism: int, data: st.DataObject
) -> None:
    kinds = [KINDS[name][0] for name in names]
    rows = data.draw(st.lists(st.tuples(*(KINDS[name][1] for name in names)), max_size=5))
    columns = {f"c{number}": kind for number, kind in enumerate(kinds)}
    table = pa.table(
        [pa.array([row[number] for row in rows], kind) for number, kind in enumerate(kinds)],
        names=list(columns),
    )
    keys = keys_on(columns, max_parallelism)

    codes = [tuple_hash(list(row), kinds) if len(kinds) > 1 else java_hash(row[0], kinds[0]) for row in rows]
    assert keys.groups(table).tolist() == [spread(code) % max_parallelism for code in codes]
    assert pa.table(dict(keys.arrays(keys.values(table)))).equals(table)


def test_one_column_is_a_plain_value_and_several_are_a_tuple() -> None:
    table = pa.table({"a": ["x", "x"], "b": pa.array([1, 1], pa.int32())})
    assert keys_on({"a": pa.string()}).values(table) == ["x", "x"]
    [first, second] = keys_on({"a": pa.string(), "b": pa.int32()}).values(table)
    assert first == ("x", 1) and first is second


def test_no_keys_are_columns_without_rows() -> None:
    for columns in ({"a": pa.string()}, {"a": pa.string(), "b": pa.int32()}):
        arrays = keys_on(columns).arrays([])
        assert [(name, array.type, len(array)) for name, array in arrays] == [
            (name, kind, 0) for name, kind in columns.items()
        ]


@pytest.mark.parametrize("ranges", [1, 2, 3, 5, 128])
def test_every_key_group_is_in_one_range_and_ranges_are_contiguous(ranges: int) -> None:
    keys = keys_on({"a": pa.string()})
    numbers = keys.ranges_of(np.arange(128, dtype=np.int32), ranges).tolist()
    assert numbers == sorted(numbers) and set(numbers) == set(range(ranges))
    assert numbers == [
        group * ranges // 128 for group in range(128)
    ]  # KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup
    for number in range(ranges):
        owned = keys.range(number, ranges)
        assert [group for group in range(128) if numbers[group] == number] == list(
            range(owned.first, owned.last + 1)
        )


def test_the_airports_of_new_york_are_where_flink_puts_them() -> None:
    """ "EWR".hashCode() is 69 · 31² + 87 · 31 + 82 = 69088."""
    assert java_hash("EWR", pa.string()) == 69_088
    table = pa.table({"origin": ["EWR", "JFK", "LGA"]})
    assert keys_on({"origin": pa.string()}).groups(table).tolist() == [
        spread(java_hash(name, pa.string())) % 128 for name in ("EWR", "JFK", "LGA")
    ]
