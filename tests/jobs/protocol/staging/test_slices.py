"""Which slices a command runs: they continue the lineage without gap or overlap, and what is refused names a
command that is not.
"""

import re
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.jobs.commands.options import Time
from slackwater.jobs.errors import UsageError
from slackwater.jobs.protocol.staging.slices import (
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
        length_ms=DAY,
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
                length_ms=1,
                max_slices=40,
            )

    @given(st.integers(-(10**6), 10**6), st.integers(0, 400), st.integers(-50, 500), st.integers(1, 60))
    def test_slices_are_contiguous_and_cut_at_whole_lengths(
        self, start: int, reached: int, to: int, length: int
    ) -> None:
        slices = catch_up(start, start + reached, start + to, length)
        assert [slice_.from_ms for slice_ in slices[:1]] == [start + reached][: len(slices)]
        assert [slice_.to_ms for slice_ in slices[-1:]] == [start + to][: len(slices)]
        assert all(before.to_ms == after.from_ms for before, after in pairwise(slices))
        assert all((slice_.to_ms - start) % length == 0 for slice_ in slices[:-1])
        assert all(0 < slice_.to_ms - slice_.from_ms <= length for slice_ in slices)
        assert bool(slices) == (to > reached)
        if slices:
            lineage = Lineage(start, start + reached)
            catching_up = partial(choose, "p", lineage, from_ms=None, to_ms=start + to, length_ms=length)
            assert catching_up(max_slices=len(slices)) == slices
            with pytest.raises(TooManySlices, match=f"takes {len(slices)} slices"):
                catching_up(max_slices=len(slices) - 1)


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
            length_ms=DAY,
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
