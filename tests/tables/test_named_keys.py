"""Any key of any type can be named, also one with a comma; other texts are refused with an example."""

from datetime import date

import duckdb
import pyarrow as pa
import pytest

from slackwater.tables.arrow_values import python_values
from slackwater.tables.named_keys import NotAKey, is_key, key_scalars
from slackwater.tables.sql import sql_equality

ONE = pa.table({"k": ["a,b", "a", '["a"]', "[1]", ""]})
THREE = pa.table(
    {"k": ["a,b", "a", "a"], "n": pa.array([7, 7, -8], pa.int64()), "is_b": [True, False, False]}
)


def rows_of(rows: pa.Table, text: str) -> list[int]:
    return [
        number for number, has_key in enumerate(is_key(rows, rows.column_names, text).to_pylist()) if has_key
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [("a,b", [0]), ("a", [1]), ("", [4]), ('["a,b"]', [0]), ('["[\\"a\\"]"]', [2]), ('["[1]"]', [3])],
)
def test_the_text_is_the_value_of_a_single_column(text: str, places: list[int]) -> None:
    assert rows_of(ONE, text) == places


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a,7,false", [1]),
        ("a,-8,False", [2]),
        ('["a,b", 7, true]', [0]),
        ('["a", "7", "false"]', [1]),
        ("b,7,true", []),
    ],
)
def test_several_columns_take_values_between_commas_or_a_json_list(text: str, places: list[int]) -> None:
    assert rows_of(THREE, text) == places


def test_a_date_is_written_as_iso_has_it() -> None:
    assert rows_of(pa.table({"day": [date(2013, 1, 1), date(1969, 12, 31)]}), "1969-12-31") == [1]


@pytest.mark.parametrize("days", [2_932_897, -719_163, 106_751_991])  # years 10000, 0 and 294247
def test_a_date_that_python_has_not_is_written_as_it_is_shown(days: int) -> None:
    dates = pa.table({"day": pa.array([0, days, days + 1], pa.int32()).cast(pa.date32())})
    displayed_day = python_values(dates.column("day"))[1]
    assert displayed_day == f"{days} days since 1970" and rows_of(dates, displayed_day) == [1]
    condition, value = sql_equality("day", key_scalars([("day", pa.date32())], displayed_day)["day"], "?")
    with duckdb.connect() as connection:
        connection.register("dates", dates)
        assert connection.execute(f"SELECT count(*) FROM dates WHERE {condition}", [value]).fetchall() == [
            (1,)
        ]


@pytest.mark.parametrize("text", ["2013-13-01", "10000-01-01", "a", "x days since 1970"])
def test_a_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(NotAKey, match=f"'{text}' is no value of the key column day, which is date32"):
        is_key(pa.table({"day": [date(2013, 1, 1)]}), ["day"], text)


@pytest.mark.parametrize(("text", "count"), [("a", 1), ("a,b,7,true", 4), ('["a,b", 7]', 2)])
def test_another_number_of_values_is_refused_with_both_ways_to_write_them(text: str, count: int) -> None:
    with pytest.raises(
        NotAKey, match=rf"has {count} values, and the key has 3: k, n, is_b.*commas.*JSON list.*--key '\["
    ) as error:
        is_key(THREE, THREE.column_names, text)
    assert error.value.exit_code == 2
