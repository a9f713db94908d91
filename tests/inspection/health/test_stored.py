"""What waits behind the ledger: the roll-forward, sinks, and snapshots that upkeep would drop."""

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from slackwater import ChangeFeedSink, Health
from slackwater.inspection.health import stored
from slackwater.inspection.health.findings import Colour
from slackwater.inspection.health.stored import judge_published, judge_sinks, judge_snapshots
from slackwater.pipelines.sinks import Sink, SinkContext, SinkPosition
from slackwater.runs.publishing.delivery import Delivery, SinkState
from tests.inspection.health.subjects import HOUR, MINUTE, Lineage, declared
from tests.tables.ledger.ledger_rows import day


def test_published_is_green_where_it_shows_the_newest_row(lineage: Lineage) -> None:
    lineage.commit(0)
    lineage.publish(1)
    finding = judge_published(lineage.subject(day(99)))
    assert (finding.colour, finding.value) == (Colour.GREEN, 0)


@pytest.mark.parametrize(
    ("waiting", "colour"),
    [
        (9 * MINUTE, Colour.GREEN),
        (10 * MINUTE, Colour.YELLOW),
        (59 * MINUTE, Colour.YELLOW),
        (HOUR, Colour.RED),
    ],
)
def test_published_lags_since_the_first_row_that_it_lacks(
    lineage: Lineage, waiting: timedelta, colour: Colour
) -> None:
    lineage.commit(0)
    lineage.publish(1)
    lineage.commit(1, at=day(2))
    lineage.commit(2, at=day(2) + waiting)
    finding = judge_published(lineage.subject(day(2) + waiting))
    assert (finding.colour, finding.value) == (colour, 2)
    assert finding.text.startswith("`published` lags the ledger by 2 rows, for ")
    assert finding.command == "slackwater publish flights"


FEED = ChangeFeedSink("feed", uri="feeds/flights")


@dataclass(frozen=True)
class Answer:
    """What a sink says of itself, in place of `Delivery.states`."""

    position: SinkPosition | None
    backlog: int | None
    problem: str | None = None
    seconds: float = 0

    def states(self, delivery: Delivery, name: str) -> list[SinkState]:
        time.sleep(self.seconds)
        return [SinkState(FEED, self.position, 2, self.backlog, self.problem)]


@pytest.mark.parametrize(
    ("answer", "now", "colour", "text"),
    [
        (Answer(SinkPosition(2, 5), 0), day(9), Colour.GREEN, "1 sink, nothing waits"),
        # Row 2 is not delivered; it was committed at 3 January 01:00.
        (Answer(SinkPosition(1, 7), 5), day(2) + 69 * MINUTE, Colour.GREEN, None),
        (
            Answer(SinkPosition(1, 7), 5),
            day(2) + 70 * MINUTE,
            Colour.YELLOW,
            "5 corrections for the sink feed have waited for 10 minutes",
        ),
        (Answer(SinkPosition(1, 7), 5), day(2) + 2 * HOUR, Colour.RED, None),
        (
            Answer(None, None, "no route\nto host"),
            day(3),
            Colour.YELLOW,
            "sink feed can't be reached: no route",
        ),
        (
            Answer(None, None, "sink feed: PostgreSQL has failed (refused)"),
            day(3),
            Colour.YELLOW,
            "sink feed can't be reached: PostgreSQL has failed (refused)",
        ),
        (Answer(None, None, seconds=0.5), day(3), Colour.YELLOW, "sink feed did not answer within 0 s"),
    ],
)
def test_a_sink_is_judged_by_how_long_corrections_wait(
    lineage: Lineage,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer,
    now: Any,
    colour: Colour,
    text: str | None,
) -> None:
    monkeypatch.setattr(Delivery, "states", lambda delivery, name: answer.states(delivery, name))
    monkeypatch.setattr(stored, "SINK_SECONDS", 0.2)
    lineage.commit(0)
    lineage.commit(1)
    finding = judge_sinks(lineage.subject(now, declared(sinks=[FEED])))
    assert finding.colour is colour
    assert text is None or finding.text == text


@dataclass(frozen=True)
class BrokenSink(Sink):
    """A sink of the user's own that raises."""

    name: str = "mine"

    @property
    def place(self) -> str:
        return "nowhere"

    def open(self, context: SinkContext) -> Any:
        raise RuntimeError("a fault in a sink of the user's own")


def test_a_sink_that_raises_can_not_be_reached(lineage: Lineage) -> None:
    lineage.commit(0)
    finding = judge_sinks(lineage.subject(day(2), declared(sinks=[BrokenSink()])))
    assert finding.colour is Colour.YELLOW
    assert finding.text.startswith("sink mine can't be reached: ")
    assert "a fault in a sink of the user's own" in finding.text


def test_sinks_of_a_pipeline_that_is_not_registered_are_not_judged(lineage: Lineage) -> None:
    assert judge_sinks(lineage.subject(day(2), None)).colour is None
    assert judge_sinks(lineage.subject(day(2))).colour is Colour.GREEN


def test_snapshots_are_due_once_twice_as_many_are_stored_as_are_kept(lineage: Lineage) -> None:
    # Of seven runs over seven days with periods of 30 days, the newest 3 and one of the period are kept.
    for number in range(7):
        lineage.commit(number)
        lineage.park(f"main {number}", "window_state", [{}])
    pipeline = {"keep_snapshots": 3, "keep_snapshot_every": timedelta(days=30)}
    finding = judge_snapshots(lineage.subject(day(7), declared(**pipeline)))
    assert (finding.colour, finding.value) == (Colour.YELLOW, 3)
    assert finding.text.startswith("7 snapshots are stored (")
    assert finding.command == "slackwater maintain flights"
    kept_more = declared(**{**pipeline, "keep_snapshots": 4})
    assert judge_snapshots(lineage.subject(day(7), kept_more)).colour is Colour.GREEN
    strict = declared(Health(snapshots_due=(1, 3)), **pipeline)
    assert judge_snapshots(lineage.subject(day(7), strict)).colour is Colour.RED
    assert judge_snapshots(lineage.subject(day(7), None)).colour is None
