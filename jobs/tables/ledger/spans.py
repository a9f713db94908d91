"""The arithmetic of the ledger's column `live`: the seqs of the live runs in slice order, written as spans.

A restatement puts runs with greater seqs before runs with smaller ones: the live seqs 1 2 7 8 4 are the spans
1-2, 7-8, 4-4. Pure functions on tuples of spans; what a seq stands for is the ledger's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Consecutive seqs, both ends included, all of which are live."""

    first_seq: int
    last_seq: int


Spans = tuple[Span, ...]


def seqs_of(live: Spans) -> tuple[int, ...]:
    """Every live seq, in slice order."""
    return tuple(seq for span in live for seq in range(span.first_seq, span.last_seq + 1))


def spans_of(seqs: Sequence[int]) -> Spans:
    """The inverse of `seqs_of`: seqs in slice order as the fewest spans."""
    spans: list[Span] = []
    for seq in seqs:
        if spans and spans[-1].last_seq == seq - 1:
            spans[-1] = Span(spans[-1].first_seq, seq)
        else:
            spans.append(Span(seq, seq))
    return tuple(spans)


def up_to(live: Spans, seq: int) -> Spans:
    """`live` up to `seq`, included.

    Raises:
        ValueError: `seq` is not live.
    """
    seqs = seqs_of(live)
    return spans_of(seqs[: seqs.index(seq) + 1])


def since(live: Spans, seq: int) -> Spans:
    """`live` from `seq` on, included.

    Raises:
        ValueError: `seq` is not live.
    """
    seqs = seqs_of(live)
    return spans_of(seqs[seqs.index(seq) :])


def in_common(a: Spans, b: Spans) -> int:
    """How many live runs `a` and `b` have in common, counted from the start of the lineage to the first that
    differs.
    """
    common = 0
    for mine, theirs in zip(seqs_of(a), seqs_of(b), strict=False):
        if mine != theirs:
            break
        common += 1
    return common
