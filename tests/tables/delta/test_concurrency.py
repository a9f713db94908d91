"""Work on several tables at once."""

import threading

import pytest

from slackwater.tables.stores import map_concurrently


def test_results_come_in_the_order_of_their_items() -> None:
    assert list(map_concurrently(lambda n: n * n, range(20))) == [n * n for n in range(20)]


def test_the_first_error_in_the_items_order_is_raised_when_all_work_has_ended() -> None:
    last_item_ended = threading.Event()

    def work(n: int) -> None:
        if n == 0:
            assert last_item_ended.wait(10)
        if n == 3:
            last_item_ended.set()
        if n in (1, 2):
            raise ValueError(n)

    with pytest.raises(ValueError, match=r"^1$"):
        list(map_concurrently(work, range(4)))
    assert last_item_ended.is_set()
