"""Spans are only a short way to write a list of seqs: every operation is that of the list."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.tables.ledger.spans import (
    Span,
    concatenation,
    count_of,
    in_common,
    rest_behind,
    seq_numbers,
    seqs_of,
    since,
    spans_of,
    up_to,
)

LISTS = st.lists(st.integers(1, 20), unique=True, max_size=12)


@given(LISTS)
def test_spans_are_the_fewest_that_give_the_list(seqs: list[int]) -> None:
    spans = spans_of(seqs)
    assert list(seqs_of(spans)) == seqs
    assert seq_numbers(spans).tolist() == seqs and count_of(spans) == len(seqs)
    assert len(spans) == (1 if seqs else 0) + sum(b != a + 1 for a, b in itertools.pairwise(seqs))


@given(LISTS.filter(bool), st.data())
def test_a_list_is_cut_before_or_behind_one_of_its_seqs(seqs: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(seqs) - 1))
    assert list(seqs_of(up_to(spans_of(seqs), seqs[at]))) == seqs[: at + 1]
    assert list(seqs_of(since(spans_of(seqs), seqs[at]))) == seqs[at:]
    assert rest_behind(spans_of(seqs), seqs[at]) == spans_of(seqs[at + 1 :])
    assert concatenation(up_to(spans_of(seqs), seqs[at]), spans_of(seqs[at + 1 :])) == spans_of(seqs)


@given(LISTS, LISTS)
def test_two_lists_have_their_beginning_in_common(a: list[int], b: list[int]) -> None:
    pairs = zip(a, b, strict=False)
    expected = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    assert in_common(spans_of(a), spans_of(b)) == expected
    longer_list = [*a, *(seq for seq in b if seq not in a)]
    assert in_common(spans_of(a), spans_of(longer_list)) == len(a)


def test_a_seq_that_is_not_live_cuts_nothing() -> None:
    live = (Span(1, 2), Span(5, 6))
    for cut in (up_to, since, rest_behind):
        with pytest.raises(ValueError, match="3 is not live"):
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
