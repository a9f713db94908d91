"""Which slices a command runs: they continue the lineage without gap or overlap, and what is refused names a
command that is not.
"""

import re
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg
from slackwater.cli.options import Time
from slackwater.errors import UsageError
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import config_hash
from slackwater.runs.staging.slices import (
    Cuts,
    GapOrOverlap,
    Lineage,
    Slice,
    TooManySlices,
    catch_up,
    choose,
    iso,
)

DAY = 86_400_000
START = 1_356_998_400_000  # 2013-01-01T00:00:00Z
START_2025_03_29 = 1_743_206_400_000


def days(*ends: float) -> list[Slice]:
    return [Slice(START + int(a * DAY), START + int(b * DAY)) for a, b in pairwise(ends)]


def chosen(end: float | None, from_: float | None, to: float, most: int | None = 40) -> list[Slice]:
    """What is chosen for a pipeline of daily slices, in days after its start."""
    lineage = Lineage(START, None if end is None else START + int(end * DAY))
    return choose(
        "flights",
        lineage,
        from_ms=None if from_ is None else START + int(from_ * DAY),
        to_ms=START + int(to * DAY),
        cuts=Cuts(START, timedelta(days=1)),
        max_slices=most,
    )


class TestCatchingUp:
    def test_an_empty_lineage_begins_at_its_start(self) -> None:
        assert chosen(None, None, 3) == days(0, 1, 2, 3)

    def test_it_goes_on_from_the_head(self) -> None:
        assert chosen(2, None, 4) == days(2, 3, 4)

    def test_the_last_slice_ends_where_asked(self) -> None:
        assert chosen(2, None, 3.25) == days(2, 3, 3.25)

    def test_cuts_stay_where_they_are_when_the_head_stands_between_two(self) -> None:
        assert chosen(2.5, None, 4) == days(2.5, 3, 4)

    @pytest.mark.parametrize("to", [-1, 0, 1, 2])
    def test_what_is_covered_is_nothing_to_do(self, to: int) -> None:
        assert chosen(2, None, to) == []

    def test_too_many_slices_are_refused_with_their_number_and_the_command(self) -> None:
        assert len(chosen(2, None, 42)) == 40
        told = (
            r"takes 41 slices, more than max_catch_up = 40\. Run it with `slackwater run flights --to "
            r"2013-02-13T00:00:00Z --all`"
        )
        with pytest.raises(TooManySlices, match=told) as refused:
            chosen(2, None, 43)
        assert (refused.value.slices, refused.value.most, refused.value.exit_code) == (41, 40, 2)  # type: ignore[attr-defined]
        assert len(chosen(2, None, 43, most=None)) == 41

    def test_a_slip_of_the_unit_is_refused_at_once(self) -> None:
        """A year in slices of a millisecond is not listed before it is refused."""
        with pytest.raises(TooManySlices, match="31,536,000,000 slices"):
            choose(
                "flights",
                Lineage(START, None),
                from_ms=None,
                to_ms=START + 365 * DAY,
                cuts=Cuts(START, timedelta(milliseconds=1)),
                max_slices=40,
            )

    @given(st.integers(-(10**6), 10**6), st.integers(0, 400), st.integers(-50, 500), st.integers(1, 60))
    def test_slices_are_contiguous_and_cut_at_whole_lengths(
        self, start: int, reached: int, to: int, length: int
    ) -> None:
        cuts = Cuts(start, timedelta(milliseconds=length))
        slices = catch_up(cuts, start + reached, start + to)
        assert [slice_.from_ms for slice_ in slices[:1]] == [start + reached][: len(slices)]
        assert [slice_.to_ms for slice_ in slices[-1:]] == [start + to][: len(slices)]
        assert all(before.to_ms == after.from_ms for before, after in pairwise(slices))
        assert all((slice_.to_ms - start) % length == 0 for slice_ in slices[:-1])
        assert all(0 < slice_.to_ms - slice_.from_ms <= length for slice_ in slices)
        assert bool(slices) == (to > reached)
        if slices:
            lineage = Lineage(start, start + reached)
            catching_up = partial(choose, "p", lineage, from_ms=None, to_ms=start + to, cuts=cuts)
            assert catching_up(max_slices=len(slices)) == slices
            with pytest.raises(TooManySlices, match=f"takes {len(slices)} slices"):
                catching_up(max_slices=len(slices) - 1)


BERLIN = ZoneInfo("Europe/Berlin")


def berlin(text: str) -> int:
    """What clocks of Berlin show, the second time if twice, as an instant in milliseconds."""
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=1).timestamp() * 1000)


class TestDaysOfAZone:
    @pytest.mark.parametrize(
        ("times", "hours"),
        [
            (("2025-03-29", "2025-03-30", "2025-03-31", "2025-04-01"), (24, 23, 24)),
            (("2025-10-25", "2025-10-26", "2025-10-27", "2025-10-28"), (24, 25, 24)),
            # At a time of day that clocks skip on one day, and show twice on another.
            (("2025-03-29T02:30", "2025-03-30T03:30", "2025-03-31T02:30"), (24, 23)),
            (("2025-10-25T02:30", "2025-10-26T02:30", "2025-10-27T02:30"), (25, 24)),
        ],
    )
    def test_a_slice_of_a_day_is_a_day_of_the_zone(
        self, times: tuple[str, ...], hours: tuple[int, ...]
    ) -> None:
        ends = [berlin(text) for text in times]
        slices = catch_up(Cuts(ends[0], timedelta(days=1), BERLIN), ends[0], ends[-1])
        assert slices == [Slice(a, b) for a, b in pairwise(ends)]
        assert tuple((item.to_ms - item.from_ms) // 3_600_000 for item in slices) == hours

    @given(st.integers(-800, 800), st.integers(0, 86_399_999), st.integers(1, 9))
    def test_a_cut_before_an_instant_is_the_last_one_before_it(self, day: int, ms: int, length: int) -> None:
        cuts = Cuts(berlin("2025-01-01T02:30"), timedelta(days=length), BERLIN)
        instant = cuts.start_ms + day * DAY + ms
        number = cuts.before(instant)
        assert cuts.at(number) <= instant < cuts.at(number + 1)

    def test_a_pipeline_declares_them(self) -> None:
        def pipeline(**settings: Any) -> Pipeline:
            return Pipeline(
                name="p",
                source=DeltaSource("s", event_time="e", arrival_time="a"),
                watermarks=WatermarkStrategy.no_watermarks(),
                key_by="k",
                window=TumblingEventTimeWindows.of(timedelta(hours=1)),
                select={"n": agg.count()},
                start="2025-03-29",
                **settings,
            )

        in_utc, in_berlin = pipeline(), pipeline(timezone="Europe/Berlin")
        assert (in_utc.start_ms, in_berlin.start_ms) == (START_2025_03_29, berlin("2025-03-29"))
        assert Cuts.of(in_berlin, 0) == Cuts(0, timedelta(days=1), BERLIN)
        hourly = pipeline(timezone="Europe/Berlin", slice=timedelta(hours=1))
        assert Cuts.of(hourly, 0) == Cuts(0, timedelta(hours=1))
        assert config_hash(pipeline(timezone="UTC")) == config_hash(in_utc)
        with pytest.raises(PipelineError, match="timezone: The time zone 'Berlin' is not known"):
            pipeline(timezone="Berlin")


class TestOneSlice:
    def test_the_next_one_may_have_any_length(self) -> None:
        assert chosen(2, 2, 3) == days(2, 3)
        assert chosen(2, 2, 9.5) == days(2, 9.5)
        assert chosen(None, 0, 1) == days(0, 1)

    @pytest.mark.parametrize(("from_", "to"), [(0, 1), (0, 2), (0.5, 1.5), (1, 2)])
    def test_one_that_is_covered_is_nothing_to_do(self, from_: float, to: float) -> None:
        assert chosen(2, from_, to) == []

    @pytest.mark.parametrize(
        ("end", "from_", "to", "told"),
        [
            (
                2,
                3,
                4,
                "the lineage ends at 2013-01-03T00:00:00Z; 2013-01-04T00:00:00Z would leave a gap. Catch up "
                "with",
            ),
            (2, 1, 3, "overlaps what the lineage has, which ends at 2013-01-03T00:00:00Z. Continue it with"),
            (2, -1, 3, "overlaps what the lineage has"),
            (2, -1, 1, "the lineage begins at 2013-01-01T00:00:00Z; nothing before that can be run here"),
            (2, -2, -1, "nothing before that can be run here"),
            (
                None,
                1,
                2,
                "has no runs yet and its lineage begins at 2013-01-01T00:00:00Z, not at "
                "2013-01-02T00:00:00Z. Run",
            ),
            (None, -2, -1, "has no runs yet"),
        ],
    )
    def test_a_gap_or_an_overlap_is_refused(
        self, end: int | None, from_: float, to: float, told: str
    ) -> None:
        with pytest.raises(GapOrOverlap, match=re.escape(told)):
            chosen(end, from_, to)

    @pytest.mark.parametrize(("from_", "to"), [(3, 3), (3, 2)])
    def test_one_that_ends_before_it_begins_is_refused(self, from_: float, to: float) -> None:
        with pytest.raises(
            UsageError, match=r"--from 2013-01-04T00:00:00Z is not before --to .*half-open, \[from, to\)"
        ):
            chosen(2, from_, to)


@given(st.integers(-5, 5) | st.none(), st.none() | st.integers(-8, 8), st.integers(-8, 8), st.integers(1, 3))
def test_the_command_that_a_refusal_names_is_not_refused(
    end: int | None, from_: int | None, to: int, most: int
) -> None:
    assume(end is None or end > 0)
    try:
        chosen(end, from_, to, most)
    except UsageError as refused:
        commands = re.findall(r"`slackwater run flights ([^`]*)`", str(refused))
        assert len(commands) == 1
        words = commands[0].split()
        told = {
            name: Time().convert(value, None, None)
            for name, value in pairwise(words)
            if name in ("--from", "--to", "--start")
        }
        start, reached = told.get("--start", START), None if end is None else START + end * DAY
        if "--warehouse" in words or "--start" in words:
            reached = None
        choose(
            "flights",
            Lineage(start, reached),
            from_ms=told.get("--from"),
            to_ms=told["--to"],
            cuts=Cuts(start, timedelta(days=1)),
            max_slices=None if "--all" in words else 10**6,
        )


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (START, "2013-01-01T00:00:00Z"),
        (START + 1, "2013-01-01T00:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_as_the_command_line_takes_them(ms: int, text: str) -> None:
    assert iso(ms) == text
    assert Time().convert(text, None, None) == ms


def test_a_slice_reads_as_a_half_open_range() -> None:
    assert str(Slice(START, START + DAY)) == "[2013-01-01T00:00:00Z, 2013-01-02T00:00:00Z)"
