"""What is packed comes back as it was, and small integers travel narrow."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.transport.packing import concat_packed, pack, unpack, unpack_all

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300) | st.just(7)


@settings(max_examples=100)
@given(st.lists(st.tuples(LONGS, st.none() | LONGS, st.text(max_size=2)), max_size=8))
def test_unpack_is_the_inverse(rows):
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    table = pa.table(
        {
            "a": pa.array(columns[0], pa.int64()),
            "b": pa.array(columns[1], pa.int64()),
            "c": pa.array(columns[2], pa.string()),
        }
    )
    table = table.replace_schema_metadata({b"name": b"x"})
    packed_table = pack(table)
    pieces = [packed_table[:2], packed_table[2:3], pack(table[3:]), pack(table[:1])]
    expected = pa.concat_tables([table, table[:1]])
    assert unpack_all(pieces).equals(expected)
    assert unpack(concat_packed(pieces)).equals(expected, check_metadata=True)
    assert unpack(packed_table).equals(table, check_metadata=True)
    assert unpack(packed_table[1:3]).equals(table[1:3], check_metadata=True)
    assert unpack(packed_table, ("b",)).equals(table.select(["b"]), check_metadata=True)


def test_small_spans_travel_narrow_and_constants_not_at_all():
    packed_table = pack(pa.table({"same": [5, 5], "near": [10**12, 10**12 + 255], "far": [0, 2**40]}))
    assert {name: packed_table.schema.field(name).type for name in packed_table.column_names if name} == {
        "near": pa.uint8(),
        "far": pa.int64(),
    }


def test_tables_of_other_widths_go_together_at_the_least_width_that_holds_all():
    tables = [pack(pa.table({"n": values})) for values in ([5, 5], [7, 260], [2**20, 2**20 + 1])]
    assert concat_packed(tables[:1]).column_names == [""]
    assert concat_packed(tables[:2]).schema.field("n").type == pa.uint8()
    assert concat_packed(tables[:3]).schema.field("n").type == pa.uint32()
    assert unpack(concat_packed(tables[:3])).column("n").to_pylist() == [5, 5, 7, 260, 2**20, 2**20 + 1]
