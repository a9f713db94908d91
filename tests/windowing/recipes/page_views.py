"""What the recipes are tried on: a day of page views of a few sites, made from a seed. Plain dicts, as a
source would hand them over.
"""

import random
from collections.abc import Iterator
from typing import Any

DAY_MS = 86_400_000


def page_views(count: int, visitors: int = 500) -> Iterator[tuple[str, dict[str, Any], int]]:
    """(site, view, timestamp), evenly over one day. No two views share an object."""
    source = random.Random(7)
    for number in range(count):
        view = {
            "visitor": f"visitor-{source.randrange(visitors)}",
            "url": f"/articles/{source.randrange(10**9)}",
            "agent": f"browser {source.randrange(10**9)}",
            "referrer": f"search?q={source.randrange(10**9)}",
            "ms": source.randrange(1, 5_000),
        }
        yield f"site-{number % 3}", view, number * DAY_MS // count
