"""Keys of a table's rows have the key groups that Flink gives them, belong to one range each, and come back
in the types that they had.
"""

from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.rows.keys import Keys
from slackwater.pipelines import DeltaSource, Pipeline, agg
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


@st.composite
def keys_and_hash_codes(draw: st.DrawFn) -> tuple[pa.Table, list[int]]:
    """Up to five keys of one to three columns, and Java's hash code of each."""
    names = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    kinds = [KINDS[name][0] for name in names]
    rows = draw(st.lists(st.tuples(*(KINDS[name][1] for name in names)), max_size=5))
    columns = [pa.array([row[number] for row in rows], kind) for number, kind in enumerate(kinds)]
    table = pa.table(columns, names=[f"c{number}" for number in range(len(kinds))])
    codes = [tuple_hash(list(row), kinds) if len(kinds) > 1 else java_hash(row[0], kinds[0]) for row in rows]
    return table, codes


def columns_of(table: pa.Table) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in table.schema}


@given(
    st.sampled_from([1, 128, 32768]),
    st.data(),
)
def test_key_groups_are_flinks_and_keys_come_back_as_they_were(
    max_parallelism: int, data: st.DataObject
) -> None:
    table, codes = data.draw(keys_and_hash_codes())
    keys = keys_on(columns_of(table), max_parallelism)
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


@given(
    st.sampled_from([1, 3, 128]),
    st.sampled_from([1, 2, 5, 128, 129, 1000]),
    st.data(),
)
def test_each_key_is_in_the_one_range_that_has_its_place(
    max_parallelism: int, ranges: int, data: st.DataObject
) -> None:
    table, codes = data.draw(keys_and_hash_codes())
    keys = keys_on(columns_of(table), max_parallelism)
    groups = keys.groups(table)
    numbers = keys.range_numbers(table, groups, ranges)
    places = [spread(code) % max_parallelism * 2**31 + spread(code) for code in codes]
    assert groups.tolist() == [place // 2**31 for place in places]
    assert keys.places(table).tolist() == places
    table = table.append_column("key_group", pa.array(groups))
    for number in set(numbers.tolist()):
        owned = keys.range(number, ranges)
        are_owned = [owned.first <= place < owned.beyond for place in places]
        assert are_owned == (numbers == number).tolist()
        assert [*map(keys.holder(owned), keys.values(table))] == are_owned
        assert keys.rows_in(owned, table).equals(table.filter(pa.array(are_owned)))


def test_wider_integers_have_the_places_of_the_declared_ones() -> None:
    """As in the shuffle, where integer keys travel with 64 bits."""
    keys = keys_on({"a": pa.int32()}, 7)
    narrow = pa.table({"a": pa.array([-5, 0, 2**31 - 1], pa.int32())})
    assert keys.places(narrow.cast(pa.schema([("a", pa.int64())]))).tolist() == keys.places(narrow).tolist()
    assert keys_on({"a": pa.int64()}, 7).places(narrow).tolist()[0] != keys.places(narrow).tolist()[0]


def test_the_airports_of_new_york_are_where_flink_puts_them() -> None:
    """ "EWR".hashCode() is 69 · 31² + 87 · 31 + 82 = 69088."""
    assert java_hash("EWR", pa.string()) == 69_088
    table = pa.table({"origin": ["EWR", "JFK", "LGA"]})
    assert keys_on({"origin": pa.string()}).groups(table).tolist() == [
        spread(java_hash(name, pa.string())) % 128 for name in ("EWR", "JFK", "LGA")
    ]
