"""`python -m tests.windowing.recipes.memory --views N`: what each recipe holds at most, beside the naive way
to the same result.

Memory is tracemalloc's peak while an operator is fed with one view after the other; the views themselves are
made on the way.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.testing import OperatorHarness, Pane
from tests.windowing.recipes import (
    incremental_aggregate,
    projection_before_the_window,
    purge_with_window_state,
)
from tests.windowing.recipes.page_views import DAY_MS, page_views

RECIPES: tuple[ModuleType, ...] = (
    purge_with_window_state,
    incremental_aggregate,
    projection_before_the_window,
)
MINUTE_MS = 60_000


class Fed(NamedTuple):
    """What a day's views came to.

    Attributes:
        panes: all of them.
        peak: bytes allocated at most at one time.
        left: entries of each state after the windows' cleanup.
    """

    panes: list[Pane]
    peak: int
    left: dict[str, int]


def feed(config: WindowOperatorConfig, views: int, project: Callable[[Any], Any] | None = None) -> Fed:
    """Feed a day of views, with a watermark every minute and a last one that ends the day."""
    gc.collect()
    tracemalloc.start()
    try:
        harness = OperatorHarness(config)
        minute = 0
        for site, view, timestamp in page_views(views):
            while timestamp >= (minute + 1) * MINUTE_MS:
                minute += 1
                harness.process_watermark(minute * MINUTE_MS - 1)
            harness.process_element(site, view if project is None else project(view), timestamp)
        harness.process_watermark(DAY_MS)
        return Fed(harness.panes, tracemalloc.get_traced_memory()[1], harness.state_entries)
    finally:
        tracemalloc.stop()


def both_ways(recipe: ModuleType, views: int) -> tuple[Fed, Fed]:
    """The naive way and the recipe."""
    return feed(recipe.naive, views), feed(recipe.lean, views, getattr(recipe, "project", None))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.windowing.recipes.memory", description=__doc__)
    parser.add_argument(
        "--views", type=int, default=50_000, help="page views of the day (default: %(default)s)"
    )
    views = parser.parse_args(arguments).views
    print(f"{'':34}{'naive':>12}{'recipe':>12}{'ratio':>8}")
    for recipe in RECIPES:
        naive, lean = both_ways(recipe, views)
        name = recipe.__name__.rpartition(".")[2].replace("_", " ")
        print(f"{name:34}{naive.peak / 1e6:9.2f} MB{lean.peak / 1e6:9.2f} MB{naive.peak / lean.peak:7.1f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
