"""Published rows are compared row by row: by window, by timestamp where there is none, and in order where a
window has several.
"""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from slackwater.inspection.changes.comparison import PublishedComparison
from slackwater.tables.schemas import Shape, table_schemas

SCHEMA = table_schemas(
    Shape(keys=(("k", pa.string()),), results=(("n", pa.int64()), ("x", pa.float64())), parts=(), source=())
)["published"]


def hour(number: int) -> datetime:
    return datetime(2013, 1, 1, number, tzinfo=UTC)


def row(key: str, start: int | None, n: int | None, x: float | None = None, **more: Any) -> dict[str, Any]:
    window = {} if start is None else {"window_start": hour(start), "window_end": hour(start + 1)}
    return {"k": key, **window, "n": n, "x": x, "firing": 1, "ordinal": 0, "run_seq": 1, **more}


def differences(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    tables = [pa.Table.from_pylist(rows, schema=SCHEMA) for rows in (left, right)]
    rows_that_differ = PublishedComparison(tables[0], tables[1], ("k",), ("n", "x")).differences()
    return [
        (item["key"]["k"], item["window_start"], item["there"], item["left"], item["right"])
        for item in rows_that_differ
    ]


def test_equal_rows_in_any_order_and_of_any_run_do_not_differ() -> None:
    nan = float("nan")
    left = [row("a", 0, 1), row("b", 0, None, nan)]
    assert differences(left, [{**item, "run_seq": 7, "revision": 3} for item in reversed(left)]) == []


def test_a_window_that_one_has_and_one_whose_results_differ() -> None:
    assert differences([row("a", 0, 1), row("a", 1, 2, 0.5)], [row("a", 1, 2, None), row("b", 2, 3)]) == [
        ("a", hour(0), "left", {"n": 1, "x": None}, None),
        ("a", hour(1), "both", {"n": 2, "x": 0.5}, {"n": 2, "x": None}),
        ("b", hour(2), "right", None, {"n": 3, "x": None}),
    ]


def test_several_firings_of_a_window_are_compared_in_their_order() -> None:
    left = [row("a", 0, 5, firing=2), row("a", 0, 1, firing=1)]
    right = [row("a", 0, 1, firing=3), row("a", 0, 6, firing=9), row("a", 0, 7, firing=9, ordinal=1)]
    assert differences(left, right) == [
        ("a", hour(0), "both", {"n": 5, "x": None}, {"n": 6, "x": None}),
        ("a", hour(0), "right", None, {"n": 7, "x": None}),
    ]


def test_rows_without_a_window_are_told_apart_by_their_timestamp() -> None:
    left = [row("a", None, 1, timestamp=hour(1)), row("a", None, 2, timestamp=hour(2)), row("a", None, 3)]
    right = [row("a", None, 2, timestamp=hour(2)), row("a", None, 3), row("a", None, 1, timestamp=hour(3))]
    assert differences(left, right) == [
        ("a", None, "left", {"n": 1, "x": None}, None),
        ("a", None, "right", None, {"n": 1, "x": None}),
    ]
