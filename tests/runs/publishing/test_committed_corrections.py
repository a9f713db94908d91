"""Numbers of corrections in a ledger row of which some were erased: they stay what they were."""

import random

import numpy as np
import pytest

from slackwater.runs.publishing.committed_corrections import numbers_with_gaps, runs_without_gap
from slackwater.tables.ledger.erasures import Gap


@pytest.mark.parametrize("seed", range(20))
def test_corrections_keep_their_numbers_whatever_was_erased_around_them(seed: int) -> None:
    """Erased one after the other, each time counted with the numbers that the erasures before have left."""
    chance = random.Random(seed)
    groups = np.sort(np.array([chance.randrange(4) for _ in range(30)]))
    in_group = np.arange(30) - np.searchsorted(groups, groups)
    left, gaps = np.arange(30), list[Gap]()
    for _ in range(4):
        _, numbers = numbers_with_gaps(groups[left], sorted(gaps))
        assert numbers.tolist() == in_group[left].tolist()
        erased = np.array(sorted(chance.sample(range(len(left)), min(len(left), chance.randint(0, 9)))), int)
        for piece in runs_without_gap(left[erased], groups[left[erased]]):
            place = erased[piece.start]
            gaps.append(Gap(1, int(groups[left][place]), int(numbers[place]), len(piece)))
        left = np.delete(left, erased)
    before_group, numbers = numbers_with_gaps(groups[left], sorted(gaps))
    rows_before = np.searchsorted(groups, groups)[left]
    assert before_group.tolist() == rows_before.tolist()
    assert numbers.tolist() == in_group[left].tolist()
