"""The texts by which rows of several sources are ordered, and the columns that a union adds."""

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.aggregates.operands import order_rank
from slackwater.engine.source.naming import Naming, has_sortable_texts, sortable_texts

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(
        datetime(1, 1, 2),  # noqa: DTZ001
        datetime(9999, 12, 30),  # noqa: DTZ001
        timezones=st.just(UTC),
    ),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_texts_sort_as_the_values_do(kind: pa.DataType, data: st.DataObject) -> None:
    assert has_sortable_texts(kind)
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=9))
    texts = sortable_texts(pa.array(values, kind)).to_pylist()
    assert [text is None for text in texts] == [value is None for value in values]
    places = range(len(values))
    for one in places:
        for other in places:
            if values[one] is None or values[other] is None:
                continue
            ranks = order_rank(values[one]), order_rank(values[other])
            assert (texts[one].encode() < texts[other].encode()) == (ranks[0] < ranks[1])


def test_rows_of_a_source_get_its_name_its_partitions_and_its_place() -> None:
    own = pa.table({"when": [1, 2, 3], "shard": pa.array([7, None, 7]), "offset": pa.array([5, None, -5])})
    schema = pa.schema([("at", pa.int64()), ("missing", pa.float64())])
    naming = Naming(
        title="clicks",
        table="sources/clicks",
        position=3,
        own_names={"at": "when", "missing": None},
        partition="shard",
        order="offset",
        schema=schema,
        own_schema=own.schema,
    )
    columns = ("at", "missing", "source", "source_partition", "source_order")
    assert naming.own_columns(columns) == ("when", "shard", "offset")
    rows = naming.rows(own, columns).to_pydict()
    assert rows["at"] == [1, 2, 3]
    assert rows["missing"] == [None] * 3
    assert rows["source"] == ["clicks"] * 3
    assert rows["source_partition"] == ["clicks/7", "clicks/", "clicks/7"]
    assert rows["source_order"] == ["0003:8000000000000005", "0003", "0003:7ffffffffffffffb"]
    assert sorted(rows["source_order"])[0] == "0003"


def test_nan_is_the_greatest_and_zero_has_no_sign() -> None:
    least, greatest, nan, zero, minus = sortable_texts(
        pa.array([-math.inf, math.inf, math.nan, 0.0, -0.0])
    ).to_pylist()
    assert least < zero == minus < greatest < nan


def test_a_list_has_no_order() -> None:
    assert not has_sortable_texts(pa.list_(pa.int64()))
    assert not has_sortable_texts(pa.decimal128(5, 2))
