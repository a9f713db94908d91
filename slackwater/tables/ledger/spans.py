"""The arithmetic of the ledger's column `live`: the seqs of the live runs in slice order, written as spans.

A restatement puts runs with greater seqs before runs with smaller ones: the live seqs 1 2 7 8 4 are the spans
1-2, 7-8, 4-4. Pure functions on tuples of spans, always the fewest that give the list.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs


class Span(NamedTuple):
    """Consecutive seqs, both ends included, all live."""

    first_seq: int
    last_seq: int


Spans = tuple[Span, ...]


def seqs_of(live: Spans) -> tuple[int, ...]:
    """Every live seq, in slice order."""
    return tuple(chain.from_iterable(range(first, last + 1) for first, last in live))


def spans_of(seqs: Sequence[int]) -> Spans:
    if not seqs:
        return ()
    breaks = [place for place, (seq, following) in enumerate(pairwise(seqs), 1) if following != seq + 1]
    return tuple(Span(seqs[first], seqs[end - 1]) for first, end in pairwise((0, *breaks, len(seqs))))


def followed_by(live: Spans, seq: int) -> Spans:
    """`live` with one more, greater seq at its end."""
    if live and live[-1].last_seq == seq - 1:
        return (*live[:-1], Span(live[-1].first_seq, seq))
    return (*live, Span(seq, seq))


def concatenation(live: Spans, following: Spans) -> Spans:
    if live and following and live[-1].last_seq == following[0].first_seq - 1:
        return (*live[:-1], Span(live[-1].first_seq, following[0].last_seq), *following[1:])
    return live + following


def up_to(live: Spans, seq: int) -> Spans:
    """`live` up to `seq`, included. Raises ValueError: `seq` is not live."""
    place = _place_of(live, seq)
    return (*live[:place], Span(live[place].first_seq, seq))


def since(live: Spans, seq: int) -> Spans:
    """`live` from `seq` on, included. Raises ValueError: `seq` is not live."""
    place = _place_of(live, seq)
    return (Span(seq, live[place].last_seq), *live[place + 1 :])


def rest_behind(live: Spans, seq: int) -> Spans:
    """`live` after `seq`. Raises ValueError: `seq` is not live."""
    first, *others = since(live, seq)
    return (*([Span(seq + 1, first.last_seq)] if first.last_seq > seq else []), *others)


def in_common(a: Spans, b: Spans) -> int:
    """The number of live runs that `a` and `b` share from the start of the lineage on."""
    common = 0
    for mine, theirs in zip(a, b, strict=False):
        if mine.first_seq == theirs.first_seq:
            common += min(mine.last_seq, theirs.last_seq) - mine.first_seq + 1
        if mine != theirs:
            break
    return common


def count_of(live: Spans) -> int:
    return sum(last - first + 1 for first, last in live)


def seq_numbers(live: Spans) -> Longs:
    firsts, lasts = np.array(live, np.int64).reshape(-1, 2).T
    counts = lasts - firsts + 1
    before = np.cumsum(counts) - counts
    seqs: Longs = np.repeat(firsts - before, counts) + np.arange(counts.sum())
    return seqs


def _place_of(live: Spans, seq: int) -> int:
    for place, (first, last) in enumerate(live):
        if first <= seq <= last:
            return place
    raise ValueError(f"{seq} is not live")
