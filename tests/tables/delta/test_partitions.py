"""Rows go to the folder of their partition, in their order."""

import pyarrow as pa

from slackwater.tables.delta.written_files import by_partition, folder_of


def test_rows_are_told_apart_by_their_partition_and_keep_their_order() -> None:
    rows = pa.table({"n": [1, 2, 3, 4, 5], "day": ["b", None, "a", "b", None]})
    parts = {value: part.column("n").to_pylist() for value, part in by_partition(rows, ["day"])}
    assert parts == {"b": [1, 4], None: [2, 5], "a": [3]}
    assert [part.column_names for _, part in by_partition(rows, ["day"])] == [["n"]] * 3


def test_a_table_without_partitions_is_one_part_in_its_own_folder() -> None:
    rows = pa.table({"n": [1, 2]})
    assert list(by_partition(rows, [])) == [(None, rows)]
    assert list(by_partition(rows.slice(0, 0), [])) == []
    assert folder_of([], None) == ""


def test_a_null_has_the_folder_that_every_reader_of_partitions_knows() -> None:
    assert folder_of(["day"], None) == "day=__HIVE_DEFAULT_PARTITION__/"
    assert folder_of(["day"], "2013-01-07") == "day=2013-01-07/"
