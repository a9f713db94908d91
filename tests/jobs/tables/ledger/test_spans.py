"""Spans are only a short way to write a list of seqs: every operation is that of the list."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.jobs.tables.ledger.spans import Span, in_common, seqs_of, since, spans_of, up_to

LISTS = st.lists(st.integers(1, 20), unique=True, max_size=12)


@given(LISTS)
def test_spans_are_the_fewest_that_give_the_list(seqs: list[int]) -> None:
    spans = spans_of(seqs)
    assert list(seqs_of(spans)) == seqs
    assert len(spans) == (1 if seqs else 0) + sum(b != a + 1 for a, b in itertools.pairwise(seqs))


@given(LISTS.filter(bool), st.data())
def test_a_list_is_cut_before_or_behind_one_of_its_seqs(seqs: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(seqs) - 1))
    assert list(seqs_of(up_to(spans_of(seqs), seqs[at]))) == seqs[: at + 1]
    assert list(seqs_of(since(spans_of(seqs), seqs[at]))) == seqs[at:]


def test_a_seq_that_is_not_live_cuts_nothing() -> None:
    live = (Span(1, 2), Span(5, 6))
    for cut in (up_to, since):
        with pytest.raises(ValueError, match="not in tuple"):
            cut(live, 3)


def test_what_two_branches_have_in_common_ends_at_the_first_difference() -> None:
    main = (Span(1, 3), Span(9, 9))
    assert [
        in_common(main, other)
        for other in (main, (Span(1, 2), Span(5, 6)), (Span(1, 2), Span(9, 9)), (), (Span(2, 3),))
    ] == [
        4,
        2,
        2,
        0,
        0,
    ]
