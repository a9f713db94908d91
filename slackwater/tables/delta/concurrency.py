"""Several tables worked on at once, by a few threads. Knows nothing of what the work is."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Most of the time that small commits take is spent outside of Python, or waiting for storage.
_THREADS = 4


def map_concurrently(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`work` on each of `items`, several at once; the results in the items' order. The items must concern
    independent tables. An error is raised at its item's turn, after `work` has ended for all.
    """
    with ThreadPoolExecutor(_THREADS, "tables") as threads:
        return threads.map(work, items)
