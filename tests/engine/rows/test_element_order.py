"""Elements are ordered on whole columns as one would order them one by one."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.rows.columns_read import (
    ARRIVAL,
    columns_read,
)
from slackwater.engine.rows.element_order import in_order
from slackwater.pipelines import DeltaSource
from slackwater.windowing.snapshot import row_digests
from tests.engine.rows.declared_rows import START_MS, declared, times

ordered = declared(source=DeltaSource("t", event_time="e", arrival_time="a", order_by="o"), key_by="k")


def elements_of(rows: list[tuple[int, float | None, str, int]]) -> pa.Table:
    """Elements as `prepare` gives them, numbered in `tag`, a column that the pipeline does not read."""
    arrivals, orders, keys, xs = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    )
    return pa.table(
        {
            "a": times([(START_MS + arrival) * 1000 for arrival in arrivals]),
            "e": times([START_MS * 1000] * len(rows)),
            "k": pa.array(keys, pa.string()),
            "x": pa.array(xs, pa.int64()),
            "o": pa.array(orders, pa.float64()),
            "tag": pa.array(range(len(rows)), pa.int64()),
            ARRIVAL: pa.array([START_MS + arrival for arrival in arrivals], pa.int64()),
        }
    )


orders = st.none() | st.sampled_from([math.nan, 0.0, -0.0, 1.0])


class TestOrder:
    @settings(max_examples=100)
    @given(
        st.lists(st.tuples(st.integers(0, 2), orders, st.sampled_from("ab"), st.integers(0, 1)), max_size=10),
        st.randoms(use_true_random=False),
        st.integers(0, 10),
    )
    def test_it_is_by_arrival_then_order_then_hash_whatever_order_rows_came_in(
        self, rows: list[Any], random: Any, cut: int
    ) -> None:
        elements = elements_of(rows)
        read = columns_read(ordered, elements.column_names)
        shuffled = list(range(len(rows)))
        random.shuffle(shuffled)
        pieces = [elements.take(pa.array(part, pa.int64())) for part in (shuffled[:cut], shuffled[cut:])]

        sorted_rows = in_order(ordered, pa.concat_tables(pieces))

        def rank(order: float | None) -> tuple[int, float]:
            return (0, 0.0) if order is None else (1, 0.0) if math.isnan(order) else (2, order)

        digests = list(row_digests(elements, read))
        tags = sorted(range(len(rows)), key=lambda tag: (rows[tag][0], rank(rows[tag][1]), digests[tag]))
        expected = elements.take(pa.array(tags, pa.int64()))
        assert repr(sorted_rows.select(read).to_pylist()).replace("-0.0", "0.0") == repr(
            expected.select(read).to_pylist()
        ).replace("-0.0", "0.0")
        assert sorted(sorted_rows.column("tag").to_pylist()) == list(range(len(rows)))

    def test_ties_are_the_exception_and_the_others_are_not_hashed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elements = elements_of([(2, None, "a", 0), (0, 1.0, "a", 0), (1, None, "b", 0), (1, 1.0, "a", 0)])
        monkeypatch.setattr(
            "slackwater.engine.rows.element_order.row_digests",
            lambda *_: pytest.fail("a row without a tie was hashed"),
        )
        assert in_order(ordered, elements).column("tag").to_pylist() == [1, 2, 3, 0]

    def test_without_an_order_column_equal_arrivals_are_ties(self) -> None:
        pipeline = declared(source=DeltaSource("t", event_time="e", arrival_time="a"), key_by="k")
        elements = elements_of([(1, 2.0, "a", 0), (1, 1.0, "b", 0), (1, 0.0, "c", 0), (0, 9.0, "z", 0)])
        digests = list(row_digests(elements, columns_read(pipeline, elements.column_names)))
        sorted_rows = in_order(pipeline, elements).column("tag").to_pylist()
        assert sorted_rows == [3, *sorted(range(3), key=lambda tag: digests[tag])]

    @pytest.mark.parametrize(
        ("one", "two", "kind"),
        [
            ("0", "1", pa.string()),
            (0, 1, pa.int8()),
            (False, True, pa.bool_()),
            (date(2013, 1, 1), date(2013, 1, 2), pa.date32()),
            (Decimal("-0.5"), Decimal("0.1"), pa.decimal128(5, 1)),
            (b"0", b"1", pa.binary()),
            (datetime(2013, 1, 1), datetime(2013, 1, 2), pa.timestamp("us")),  # noqa: DTZ001
            (-0.5, 0.0, pa.float32()),
        ],
        ids=str,
    )
    def test_any_plain_type_orders(self, one: Any, two: Any, kind: pa.DataType) -> None:
        elements = elements_of([(0, None, "a", 0)] * 3).set_column(4, "o", pa.array([two, None, one], kind))
        assert in_order(ordered, elements).column("tag").to_pylist() == [1, 2, 0]

    @pytest.mark.parametrize("rows", [[(0, 1.0), (0, 2.0), (1, 0.0)], [(0, 1.0), (1, None), (2, math.nan)]])
    def test_rows_that_are_in_order_are_not_sorted(
        self, rows: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elements = elements_of([(arrival, order, "a", 0) for arrival, order in rows])
        monkeypatch.setattr(
            "slackwater.engine.rows.element_order.pc.sort_indices",
            lambda *_, **__: pytest.fail("they were sorted"),
        )
        assert in_order(ordered, elements) is elements

    def test_no_elements_are_in_order(self) -> None:
        assert in_order(ordered, elements_of([])).num_rows == 0
