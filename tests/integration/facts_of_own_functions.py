"""What the pipeline of own_functions.py must leave, computed from the model's windows by a few lines of
Python.

The same facts twice, as in facts.py. Must not import slackwater.
"""

from collections import Counter
from typing import Any

from tests.integration.facts import outcome
from tests.integration.stored import StoredTables


def published(to: str) -> Counter:
    """Newest firing of each window: the last five of its flights, and the worst delay of all that it was
    shown.
    """
    facts: Counter = Counter()
    for pane in outcome(to).published:
        kept: list[Any] = []
        worst, firing = None, 0
        on_time = _on_time_members(to, pane)
        for number, flight in enumerate(pane.members, 1):
            kept.append(flight)
            if number > on_time or number % 3 == 0:
                firing, kept, worst = firing + 1, kept[-5:], _worst(kept[-5:], worst)
            if number == on_time:
                firing, kept, worst = firing + 1, kept[-5:], _worst(kept[-5:], worst)
        tails = tuple(flight.values["tailnum"] for flight in kept)
        facts[(pane.key, *pane.window, firing, pane.kind, len(kept), worst, tails)] += 1
    return facts


def _worst(flights: list[Any], before: int | None) -> int:
    return max([flight.values["dep_delay"] for flight in flights] + ([] if before is None else [before]))


def _on_time_members(to: str, pane: Any) -> int:
    """How many flights the window had when the watermark reached its end; none if it was opened later."""
    firings = (
        one
        for one in outcome(to).panes
        if (one.key, one.window, one.kind) == (pane.key, pane.window, "on_time")
    )
    return next((len(one.members) for one in firings), 0)


def published_in(stored: StoredTables) -> Counter:
    """The same, as the table has it; windows that have not ended yet are left out, which the model does not
    fire.
    """
    return Counter(
        (
            row["origin"],
            row["window_start"],
            row["window_end"],
            row["firing"],
            row["kind"],
            row["flights"],
            row["worst"],
            tuple(row["tails"]),
        )
        for row in stored.rows("published")
        if row["kind"] != "early"
    )
