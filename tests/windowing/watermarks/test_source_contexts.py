"""Source contexts by hand, step by step: what leaves the source at which moment of the clock."""

from __future__ import annotations

import pytest

from slackwater.windowing.errors import ConfigurationError, WatermarkStateError
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.watermarks import SourceContext, TimeCharacteristic, source_context

from .recorder import Entry, Recorder

LONG_MAX = 2**63 - 1
EVENT, INGESTION, PROCESSING = (
    TimeCharacteristic.EVENT_TIME,
    TimeCharacteristic.INGESTION_TIME,
    TimeCharacteristic.PROCESSING_TIME,
)


class Source:
    """A context with its clock and all that has left it."""

    def __init__(
        self, characteristic: TimeCharacteristic, now: int = 0, **options: int | bool | None
    ) -> None:
        self.service = HarnessProcessingTimeService(now)
        self.output = Recorder()
        self.context: SourceContext = source_context(characteristic, self.service, self.output, **options)

    def at(self, now: int) -> list[Entry]:
        self.service.advance_to(now)
        return self.output.take()

    def collect(self, element: str, timestamp: int | None = None) -> list[Entry]:
        self.context.collect(element, timestamp)
        return self.output.take()

    def emit(self, watermark: int) -> list[Entry]:
        self.context.emit_watermark(watermark)
        return self.output.take()


def test_processing_time_has_neither_timestamps_nor_watermarks_nor_idleness() -> None:
    source = Source(PROCESSING, idle_timeout_ms=10)
    assert source.collect("a", 5) == [("element", "a", None)]
    source.context.mark_as_temporarily_idle()
    assert source.emit(7) == source.emit(LONG_MAX) == source.at(1000) == []


def test_event_time_passes_what_the_source_says() -> None:
    source = Source(EVENT)
    assert source.collect("a", 5) == [("element", "a", 5)]
    assert source.collect("b") == [("element", "b", None)]
    assert source.emit(4) == [("watermark", 4)]
    assert source.emit(3) == [("watermark", 3)]
    assert source.at(10_000) == []


def test_event_time_without_progress_passes_the_final_watermark_alone() -> None:
    source = Source(EVENT, progressive=False)
    assert source.emit(4) == []
    assert source.emit(LONG_MAX) == [("watermark", LONG_MAX)]


def test_a_source_is_idle_after_a_whole_check_period_without_news() -> None:
    source = Source(EVENT, idle_timeout_ms=100)
    assert source.at(50) == []
    assert source.collect("a", 1) == [("element", "a", 1)]
    assert source.at(100) == []  # the period [0, 100) had an element
    assert source.at(199) == []
    assert source.at(200) == [("status", "idle")]
    assert source.at(500) == []
    assert source.emit(9) == [("status", "active"), ("watermark", 9)]
    # The checks rested; the watermark starts a period at 500.
    assert source.at(599) == []
    assert source.at(600) == [("status", "idle")]
    assert source.collect("b", 2) == [("status", "active"), ("element", "b", 2)]


def test_a_source_may_declare_itself_idle() -> None:
    source = Source(EVENT)
    source.context.mark_as_temporarily_idle()
    source.context.mark_as_temporarily_idle()
    assert source.output.take() == [("status", "idle")]
    assert source.collect("a", 1) == [("status", "active"), ("element", "a", 1)]


def test_ingestion_time_stamps_elements_and_emits_the_clock_rounded_down() -> None:
    source = Source(INGESTION, now=100, watermark_interval_ms=10)
    assert source.collect("a", 5) == [("element", "a", 100), ("watermark", 100)]
    assert source.at(109) == []
    assert source.at(110) == []  # the timer is due, but 110 is not past the next watermark's time, 110
    assert source.collect("b") == [("element", "b", 110)]
    assert source.at(123) == [("watermark", 120)]
    assert source.collect("c") == [("element", "c", 123)]
    assert source.at(131) == []
    assert source.collect("d") == [("element", "d", 131), ("watermark", 130)]
    assert source.at(133) == []  # the timer comes, but the element was first


def test_ingestion_time_ignores_watermarks_but_the_final_one_which_ends_its_own() -> None:
    source = Source(INGESTION, now=100, watermark_interval_ms=10)
    assert source.emit(5) == []
    assert source.emit(LONG_MAX) == [("watermark", LONG_MAX)]
    assert source.emit(LONG_MAX) == []
    assert source.service.pending() == 0
    assert source.at(500) == []
    assert source.collect("a") == [("element", "a", 500)]


def test_ingestion_time_looks_for_idleness_at_each_watermark_timer() -> None:
    source = Source(INGESTION, now=100, watermark_interval_ms=10, idle_timeout_ms=25)
    assert source.collect("a") == [("element", "a", 100), ("watermark", 100)]
    assert source.at(111) == [("watermark", 110)]
    assert source.at(122) == [("watermark", 120)]
    # The check at 125 finds the element in its period; the watermark timer at 132 finds 32 > 25 ms of
    # silence.
    assert source.at(125) == []
    assert source.at(132) == [("status", "idle")]
    assert source.at(200) == []
    assert source.collect("b") == [("status", "active"), ("element", "b", 200), ("watermark", 200)]


def test_a_source_that_never_spoke_is_left_to_the_idleness_check() -> None:
    source = Source(INGESTION, now=100, watermark_interval_ms=10, idle_timeout_ms=25)
    assert source.at(111) == [("watermark", 110)]
    assert source.at(122) == [("watermark", 120)]
    assert source.at(125) == [("status", "idle")]


def test_before_1970_the_watermark_is_rounded_towards_zero_as_java_does() -> None:
    source = Source(INGESTION, now=-95, watermark_interval_ms=10)
    # The next watermark's time starts at 0, so nothing is due before 1970.
    assert source.collect("a") == [("element", "a", -95)]
    assert source.at(7) == [("watermark", 0)]


@pytest.mark.parametrize("characteristic", list(TimeCharacteristic))
def test_a_closed_context_refuses_everything_and_leaves_no_timer(characteristic: TimeCharacteristic) -> None:
    source = Source(characteristic, idle_timeout_ms=10)
    source.context.close()
    source.context.close()
    assert source.service.pending() == 0
    assert source.at(1000) == []
    for use in (
        lambda: source.context.collect("a"),
        lambda: source.context.emit_watermark(1),
        source.context.mark_as_temporarily_idle,
    ):
        with pytest.raises(WatermarkStateError, match="closed"):
            use()


def test_durations_below_one_millisecond_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="watermark interval cannot be smaller than 1 ms, got 0 ms"):
        Source(INGESTION, watermark_interval_ms=0)
    for characteristic in (INGESTION, EVENT):
        with pytest.raises(ConfigurationError, match="idle timeout cannot be smaller than 1 ms, got 0 ms"):
            Source(characteristic, idle_timeout_ms=0)
