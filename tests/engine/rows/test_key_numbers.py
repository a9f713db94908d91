"""Keys as dense numbers: short texts, long ones and dictionaries with entries that no row has, against
Python's own grouping.
"""

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.rows.key_numbers import (
    KEY_GROUP,
    KeyNumbers,
    keys_of,
    numbers_between,
    split_keys,
    with_keys,
    with_own_dictionaries,
)
from slackwater.engine.rows.key_ranges import range_cuts
from slackwater.engine.rows.keys import Keys
from slackwater.engine.transport.packing import pack

SHORT = [f"user-{number % 37}" for number in range(200)]
LONG = [f"a name of forty letters and more, number {number % 37}" for number in range(200)]


def pairs(numbered: KeyNumbers, names: list[str]) -> list[tuple[object, ...]]:
    """The key of each row, with its group."""
    distinct = list(
        zip(*(numbered.distinct.column(name).to_pylist() for name in (KEY_GROUP, *names)), strict=True)
    )
    assert len(set(distinct)) == len(distinct)
    return [distinct[number] for number in numbered.numbers.tolist()]


@pytest.mark.parametrize("texts", [SHORT, LONG, [*SHORT, *LONG], [""], []])
@pytest.mark.parametrize("others", [False, True])
def test_each_row_finds_its_key_again(texts: list[str], others: bool) -> None:
    numbers = [place % 3 for place in range(len(texts))]
    columns = {
        "name": pa.chunked_array([texts[:70], texts[70:]], pa.string()),
        **({"number": pa.array(numbers, pa.int64())} if others else {}),
    }
    rows, keys = pa.table(columns), Keys(tuple((name, column.type) for name, column in columns.items()), 128)
    names = keys.names
    groups = keys.groups(rows).tolist()
    expected = list(zip(groups, *(rows.column(name).to_pylist() for name in names), strict=True))

    of_batch = KeyNumbers.from_batch(rows, keys)
    assert pairs(of_batch, names) == expected
    assert np.all(np.diff(of_batch.groups) >= 0)

    parked = pa.table({KEY_GROUP: pa.array(groups, pa.int32()), **columns})
    of_range = KeyNumbers.from_range(keys_of(parked, keys), keys)
    assert pairs(of_range, names) == expected
    all_keys = list(
        zip(*(of_range.distinct.column(name).to_pylist() for name in (KEY_GROUP, *names)), strict=True)
    )
    assert all_keys == sorted(set(expected))


@pytest.mark.parametrize(
    ("kind", "far"),
    [
        (pa.int64(), 1),
        (pa.int64(), 1_000),
        (pa.int32(), 1 << 20),
        (pa.int64(), 1 << 40),
        (pa.int64(), 1 << 55),
    ],
    ids=str,
)
def test_each_row_finds_its_integer_again(kind: pa.DataType, far: int) -> None:
    values = pa.array([(place * 7 % 37 - 20) * far for place in range(200)], kind)
    rows, keys = pa.table({"number": values}), Keys((("number", kind),), 128)
    groups = keys.groups(rows).tolist()
    expected = list(zip(groups, values.to_pylist(), strict=True))
    assert pairs(KeyNumbers.from_batch(rows, keys), ["number"]) == expected

    parked = pa.table({KEY_GROUP: pa.array(groups, pa.int32()), "number": values})
    of_range = KeyNumbers.from_range(keys_of(parked, keys), keys)
    assert pairs(of_range, ["number"]) == expected
    assert list(zip(*(column.to_pylist() for column in of_range.distinct.columns), strict=True)) == sorted(
        set(expected)
    )


def test_entries_of_a_dictionary_that_no_row_has_are_no_keys() -> None:
    keys = Keys((("name", pa.string()),), 128)
    dictionaries = [["b", "a", "never"], ["never", "c", "b"]]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(names))
        for places, names in zip([[0, 1, 0], [2, 1]], dictionaries, strict=True)
    ]
    groups = keys.groups(pa.table({"name": ["b", "a", "b", "b", "c"]}))
    numbered = KeyNumbers.from_range(
        pa.table({KEY_GROUP: pa.array(groups, pa.int64()), "name": pa.chunked_array(chunks)}), keys
    )
    assert sorted(numbered.distinct.column("name").to_pylist()) == ["a", "b", "c"]
    assert [name for _, name in pairs(numbered, ["name"])] == ["b", "a", "b", "b", "c"]


def test_a_piece_of_the_rows_of_several_batches_takes_along_its_own_keys_only() -> None:
    keys = Keys((("name", pa.string()),), 128)
    batches = [SHORT[:60], LONG[:50], SHORT[30:]]
    tables = []
    for number, names in enumerate(batches):
        rows = pa.table({"name": names, "batch": [number] * len(names)})
        numbered = KeyNumbers.from_batch(rows, keys)
        order = np.argsort(numbered.numbers, kind="stable")
        tables.append(with_keys(rows.take(pa.array(order)), numbered.numbers[order], numbered.distinct))
    all_rows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    assert {*split_keys(all_rows)[1].column("name").to_pylist()} == {*SHORT, *LONG}

    for start in range(0, all_rows.num_rows, 40):
        piece = with_own_dictionaries(all_rows.slice(start, 40))
        piece_keys, rows = split_keys(piece)
        [names] = piece_keys.column("name").chunks
        assert names.to_pylist() == rows.column("name").to_pylist()
        assert sorted(names.dictionary.to_pylist()) == sorted(set(names.to_pylist()))


def test_the_ranges_of_sent_rows_are_those_of_their_keys_whatever_else_they_hold() -> None:
    keys = Keys((("key", pa.int64()),), 2)
    distinct = pa.table({"key_group": [0, 1], "key": [11, 12]})
    distinct = distinct.set_column(0, "key_group", pa.array(keys.groups(distinct).astype("int64")))
    own_rows = distinct.sort_by("key_group")
    rows = pack(with_keys(pa.table({"key": [7, 8, 9]}), np.array([0, 0, 1]), own_rows))
    for ranges in (1, 2, 9):
        expected = keys.range_numbers(own_rows, keys.groups(own_rows), ranges)[[0, 0, 1]]
        assert numbers_between(range_cuts(ranges, 2), rows, keys).tolist() == expected.tolist()
