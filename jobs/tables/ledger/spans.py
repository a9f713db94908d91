"""Live runs as spans of seqs: the arithmetic of `live`, which neighbours it joins and where it is cut.

Pure functions on tuples of spans. What a seq stands for is the ledger's business.
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
