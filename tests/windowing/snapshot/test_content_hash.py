"""The content hash depends on the values of rows alone, and on every one of them."""

import hashlib
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.windowing.snapshot import ContentHash, row_digests
from slackwater.windowing.snapshot.content_hash import fingerprint, fingerprints
from slackwater.windowing.snapshot.row_encoding import encode_rows, encode_value

rows = st.lists(
    st.tuples(
        st.none() | st.text(max_size=3), st.none() | st.integers(-3, 3), st.none() | st.floats(width=16)
    ),
    max_size=8,
)


def table_of(values: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [(), (), ()]
    kinds = (pa.string(), pa.int64(), pa.float64())
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=["s", "i", "f"]
    )


def hash_of(*tables: pa.Table, name: str = "panes") -> str:
    content = ContentHash()
    for table in tables:
        content.add(name, table, without=())
    return str(content)


@settings(max_examples=60)
@given(rows, st.randoms(use_true_random=False), st.integers(0, 8))
def test_neither_order_nor_files_nor_tasks_show(values: list[tuple[Any, ...]], random: Any, cut: int) -> None:
    expected_hash = hash_of(table_of(values))
    shuffled_rows = list(values)
    random.shuffle(shuffled_rows)
    assert hash_of(table_of(shuffled_rows[:cut]), table_of(shuffled_rows[cut:])) == expected_hash
    parts = [ContentHash(), ContentHash()]
    for part, half in zip(parts, (shuffled_rows[:cut], shuffled_rows[cut:]), strict=True):
        part.add("panes", table_of(half), without=())
    total = ContentHash.parse(str(parts[0]))
    total.merge(ContentHash.parse(str(parts[1])))
    assert str(total) == expected_hash


@settings(max_examples=60)
@given(rows, rows)
def test_hashes_are_equal_exactly_when_the_multisets_of_rows_are(
    ours: list[tuple[Any, ...]], others: list[tuple[Any, ...]]
) -> None:
    def multiset(values: list[tuple[Any, ...]]) -> list[str]:
        return sorted(
            repr((s, i, "nan" if f is not None and math.isnan(f) else None if f is None else f + 0.0))
            for s, i, f in values
        )

    assert (hash_of(table_of(ours)) == hash_of(table_of(others))) == (multiset(ours) == multiset(others))


def test_a_known_row_has_the_hash_made_by_hand() -> None:
    """The table's name, then every value but run_id and null: a word, multiplied in by what tells its kind
    and place, and their sum.
    """
    table = pa.table(
        {
            "run_id": ["r1"],
            "origin": ["EWR"],
            "flights": [3],
            "late": pa.nulls(1, pa.int64()),
            "mean": [1.5],
            "done": [True],
        },
    )

    def words(data: bytes) -> tuple[int, int]:
        digest = hashlib.sha256(data).digest()
        return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")

    text = (
        (3 ^ int.from_bytes(b"EWR\0\0\0\0\0", "big")) * 0x9E3779B97F4A7C15 % 2**64
    )  # one word of a short text, behind its length
    word, total = words(b"s\0\0\0\5panes")
    for value, tag, place in (
        (text ^ text >> 32, b"s", 0),
        (3, b"i", 1),
        (0x3FF8000000000000, b"d", 3),
        (1, b"t", 4),
    ):
        word = (word ^ value) * (words(tag + bytes([0, 0, 0, place]))[0] | 1) % 2**64
        word ^= word >> 32
        total = (total + word) % 2**64
    halves = []
    for half in (word, total):
        for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            half = (half ^ half >> 33) * multiplier % 2**64
        halves.append(half ^ half >> 33)
    content = ContentHash()
    content.add("panes", table, without=("run_id",))
    assert str(content) == f"1:{halves[0]:016x}{halves[1]:016x}"
    content.add("panes", table, without=("run_id",))
    assert str(content) == f"2:{2 * halves[0] % 2**64:016x}{2 * halves[1] % 2**64:016x}"


def test_no_rows_have_the_hash_zero() -> None:
    assert hash_of(table_of([])) == "0:" + "0" * 32
    lists = pa.table({"x": pa.chunked_array([[], [[1]]], pa.list_(pa.int64()))})
    assert hash_of(lists.slice(0, 0)) == hash_of(table_of([]))
    assert hash_of(lists) == hash_of(lists.combine_chunks())


def test_values_that_change_places_between_two_rows_change_the_hash() -> None:
    """Sums of halves that were linear in a value, or in its highest bit, would not see it; neither half rests
    on the other.
    """
    for one, other in ((1.5, -1.5), (0, -(2**63)), (1, 2), ("a", "b"), (True, False), (None, 0)):
        for extra in ([], [7], ["x", None]):
            rows = [["k", one, *extra], ["l", other, *extra]]
            swapped_rows = [["k", other, *extra], ["l", one, *extra]]
            for shift in (0, 64):
                total, swapped_total = (
                    sum(fingerprint(row, "panes") >> shift for row in both_rows) % 2**64
                    for both_rows in (rows, swapped_rows)
                )
                assert total != swapped_total


SMALL = st.sampled_from(
    [None, 0, 1, 2**32, 2**63 - 1, -(2**63), -(2**63) + 2**31, 0.0, 1.0, -1.0, "", "0", "1", True, False]
)


@settings(max_examples=300)
@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=6))
@example([(0, -(2**63)), (0, -(2**63) + 2**31)])
@example([(7, None), (None, 7)])
def test_rows_that_differ_have_other_fingerprints(columns: list[tuple[Any, Any]]) -> None:
    """Also where few bits differ, the highest ones, a null moves, or a value is one of another kind."""
    one, other = zip(*columns, strict=True)
    if repr(one) != repr(other):
        assert fingerprint(one, "t") % 2**64 != fingerprint(other, "t") % 2**64, (
            "the half that knows of every step"
        )


@pytest.mark.parametrize(
    ("value", "encoding"),
    [
        (None, b"n"),
        (True, b"t"),
        (False, b"f"),
        (0, b"i" + bytes(8)),
        (-1, b"i" + b"\xff" * 8),
        (255, b"i" + bytes(7) + b"\xff"),
        (2**63 - 1, b"i\x7f" + b"\xff" * 7),
        (-(2**63), b"i\x80" + bytes(7)),
        (2**63, b"I\0\0\0\x09\0\x80" + bytes(7)),
        (-(2**71), b"I\0\0\0\x09\x80" + bytes(8)),
        (-0.0, b"d" + bytes(8)),
        (1.0, b"d\x3f\xf0" + bytes(6)),
        (math.nan, b"d\x7f\xf8" + bytes(6)),
        (-math.nan, b"d\x7f\xf8" + bytes(6)),
        ("é", b"s\0\0\0\2\xc3\xa9"),
        (b"\0", b"b\0\0\0\1\0"),
        (Decimal("1.50"), b"m\0\0\0\0031.5"),
        (Decimal("-0.00"), b"m\0\0\0\0010"),
        (Decimal("1E+2"), b"m\0\0\0\003100"),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), b"i" + bytes(7) + b"\1"),
        (date(1970, 1, 2), b"i" + bytes(7) + b"\1"),
        (time(0, 0, 1), b"i" + bytes(5) + b"\x0f\x42\x40"),
        ([], b"[]"),
        ([1, None], b"[i" + bytes(7) + b"\1n]"),
        ({"start": 1, "end": None}, b"{i" + bytes(7) + b"\1n}"),
    ],
    ids=repr,
)
def test_known_encodings(value: Any, encoding: bytes) -> None:
    assert encode_value(value) == encoding


NUMBERS = [0, 1, -1, 256, 0.0, 1.0, math.nan, math.inf, Decimal(1), Decimal("0.1")]
NEIGHBOURS = [None, "", "n", b"", False, True, "1", b"1", [], [None], [[]], {}, [1], ["1"], *NUMBERS]


def test_values_that_look_alike_are_apart() -> None:
    assert len({encode_value(value) for value in NEIGHBOURS}) == len(NEIGHBOURS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a", None), (None, "a")),
        (([1], [2, 3]), ([1, 2], [3])),
        (([], 1), ([1], None)),
        ((b"\0", b""), (b"", b"\0")),
        ((1, 0), (0, 1)),
    ],
)
def test_what_moves_from_one_column_to_the_next_is_another_row(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    assert b"".join(map(encode_value, one)) != b"".join(map(encode_value, other))


@pytest.mark.parametrize(
    ("value", "narrow", "wide"),
    [
        (7, pa.int8(), pa.int64()),
        (0.25, pa.float32(), pa.float64()),
        (Decimal("7.25"), pa.decimal128(5, 2), pa.decimal128(38, 4)),
        ("7", pa.string(), pa.large_string()),
        (b"7", pa.binary(), pa.binary(1)),
        (datetime(2013, 1, 1, tzinfo=UTC), pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")),
        (datetime(2013, 1, 1, tzinfo=UTC), pa.timestamp("s", tz="UTC"), pa.timestamp("ns", tz="UTC")),
    ],
)
def test_the_width_of_a_type_does_not_show(value: Any, narrow: pa.DataType, wide: pa.DataType) -> None:
    one, other = (pa.table({"x": pa.array([value, None], kind)}) for kind in (narrow, wide))
    assert hash_of(one) == hash_of(other)


def test_a_time_in_a_struct_is_encoded_like_one_in_a_column() -> None:
    moment = datetime(2013, 1, 1, 5, tzinfo=UTC)
    day = date(2013, 1, 1)
    for value, kind in (
        (moment, pa.timestamp("us", tz="UTC")),
        (moment.replace(tzinfo=None), pa.timestamp("us")),
        (day, pa.date32()),
    ):
        plain = pa.table({"x": pa.array([value], kind)})
        lists = pa.table({"x": pa.array([[value]], pa.list_(kind))})
        [of_plain] = row_digests(plain, ["x"])
        head = encode_value("")
        integer = plain.column("x")[0].cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).as_py()
        assert of_plain == hashlib.sha256(head + encode_value(integer)).digest()
        [of_nested] = row_digests(lists, ["x"])
        assert of_nested == hashlib.sha256(head + b"[" + encode_value(integer) + b"]").digest()


COLUMNS = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(max_size=4)),
    (pa.large_string(), st.text(max_size=4)),
    (pa.string(), st.text("aé", min_size=5, max_size=70)),
    (pa.binary(), st.sampled_from([bytes(7), bytes(8), bytes(9), b"x" * 64, b"x" * 63 + b"\0", b"x" * 65])),
    (pa.string_view(), st.text(max_size=20)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "bc", ""])),
    (pa.binary(), st.binary(max_size=4)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("ms"), st.datetimes().map(lambda moment: moment.replace(microsecond=0))),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (
        pa.decimal128(12, 9),
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-9)),
    ),
    (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-3, 3), max_size=3)),
    (
        pa.struct([("a", pa.string()), ("b", pa.float64())]),
        st.fixed_dictionaries({"a": st.text(max_size=2), "b": st.floats()}),
    ),
]


@settings(max_examples=150)
@given(st.data())
def test_columns_are_encoded_as_their_values_are_one_by_one(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    rows = data.draw(st.integers(0, 5))
    columns = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for kind, values in chosen
    ]
    column_slices = [pa.concat_arrays([column[:1], column]).slice(min(1, rows)) for column in columns]
    expected = [
        b"head" + b"".join(map(encode_value, row))
        for row in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
    assert encode_rows(columns, b"head").to_pylist() == expected
    assert encode_rows(column_slices, b"head").to_pylist() == expected


@settings(max_examples=150)
@given(st.data())
def test_fingerprints_of_columns_are_those_of_their_rows_one_by_one(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    rows = data.draw(st.integers(1, 5))
    columns = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for kind, values in chosen
    ]
    for arrays in (columns, [pa.concat_arrays([column[:1], column]).slice(1) for column in columns]):
        halves = zip(*(half.tolist() for half in fingerprints(arrays, encode_value("t"))), strict=True)
        expected = [
            fingerprint(row, "t") for row in zip(*(column.to_pylist() for column in columns), strict=True)
        ]
        assert [high << 64 | low for high, low in halves] == expected


def test_a_hash_over_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match="panes: no column is left to hash"):
        ContentHash().add("panes", pa.table({"run_id": ["r"]}), without=("run_id",))


def test_equal_rows_of_two_tables_are_apart() -> None:
    assert hash_of(table_of([("a", 1, 1.0)]), name="panes") != hash_of(
        table_of([("a", 1, 1.0)]), name="timers"
    )


def test_a_value_without_a_canonical_encoding_is_refused() -> None:
    with pytest.raises(TypeError, match="no canonical encoding for complex"):
        encode_value(1j)
