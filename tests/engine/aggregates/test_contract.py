"""Every aggregate of the registry keeps the promises of `contract`, over extreme and random elements; and the
suite itself fails for an aggregate that breaks any of them.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.aggregates import AggregatedColumn, AggregateKind, BoundAggregate, Columns, register
from slackwater.engine.aggregates.table import AGGREGATES
from slackwater.pipelines import Aggregate
from slackwater.pipelines.aggregates import KINDS
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, run_numbers
from tests.engine.aggregates import contract
from tests.engine.aggregates.brute_forces import BRUTE_FORCES
from tests.engine.aggregates.contract import Case, cases_of, check_all
from tests.engine.aggregates.elements import TYPES, Element, ValuesOfType, drawn_elements, elements_of
from tests.properties.search import searched

CASES = [case for kind in AGGREGATES for case in cases_of(kind)]
FAMILY_OF = {column: family for family, columns in TYPES.items() for column in columns}


def parameters() -> Iterator[Any]:
    """All cases; the first of each kind and family of types is quick enough for every run."""
    seen_families: set[tuple[str, str]] = set()
    for case in CASES:
        family = (case.aggregate.kind, FAMILY_OF[case.column])
        yield pytest.param(case, id=case.name, marks=[pytest.mark.slow] if family in seen_families else [])
        seen_families.add(family)


def check_extremes(case: Case) -> None:
    """The promises over the extremes of a type: in pairs, and all together with nulls."""
    extremes = case.values.extremes
    lists: list[Sequence[Any]] = [[], [None], *map(list, itertools.pairwise(extremes))]
    lists += [[extremes[0]], [extremes[0]] * 2, [None, *extremes, None, *reversed(extremes)]]
    for values in lists:
        elements = elements_of(values)
        size = len(elements)
        check_all(case, elements, range(size - 1, -1, -1), (size // 3, 2 * size // 3))


@pytest.mark.parametrize("case", list(parameters()))
def test_an_aggregate_keeps_its_promises_at_the_borders_of_its_type(case: Case) -> None:
    check_extremes(case)


@pytest.mark.parametrize("case", list(parameters()))
@given(st.data())
@searched(4, long=30)
def test_an_aggregate_keeps_its_promises(case: Case, data: st.DataObject) -> None:
    elements = data.draw(drawn_elements(case.values))
    shuffled = data.draw(st.permutations(range(len(elements))))
    cut = st.integers(0, len(elements))
    check_all(case, elements, shuffled, (data.draw(cut), data.draw(cut)))


def test_every_registered_kind_has_cases_and_a_brute_force() -> None:
    assert set(AGGREGATES) == set(KINDS) == set(BRUTE_FORCES)
    assert {case.aggregate.kind for case in CASES} == set(AGGREGATES)
    for case in CASES:
        families = AGGREGATES[case.aggregate.kind].families
        assert not families or any(case.column in TYPES[family] for family in families)


class Toy:
    """The sum of an integer column modulo 2^64: a correct aggregate, if a simple one."""

    columns = (("sum", pa.int64()), ("count", pa.int64()))
    parts = columns
    result_type = pa.int64()

    def __init__(self, column: str) -> None:
        self.column = column

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self.column).combine_chunks()
        values = column.cast(pa.int64()).fill_null(0)
        counts = column.is_valid().cast(pa.int64())
        return Toy.combine(self, [values, counts], groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        sums = np.zeros((2, groups.size), np.int64)
        for total, column in zip(sums, accumulators, strict=True):
            np.add.at(total, groups.codes, column.to_numpy())
        return list(map(pa.array, sums))

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        runs = run_numbers(starts, len(accumulators[0]))
        columns = [column.to_numpy() for column in accumulators]
        totals = [np.cumsum(column) for column in columns]
        return [
            pa.array(total - (total - column)[starts][runs] if len(column) else total)
            for total, column in zip(totals, columns, strict=True)
        ]

    def results(self, accumulators: Columns) -> pa.Array:
        sums, counts = (column.to_numpy() for column in accumulators)
        return pa.array(sums, mask=counts == 0)

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)


class LastValueWins(Toy):
    """Depends on the order of the elements."""

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        sums, counts = super().partial(rows, groups)
        values = rows.column(self.column).cast(pa.int64()).fill_null(0).to_pylist()
        return [pa.array([values[-1] if values else total for total in sums.to_pylist()], pa.int64()), counts]


class Halving(Toy):
    """Merges are not associative."""

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        sums, counts = super().combine(accumulators, groups)
        is_merged = groups.counts > 1
        return [pa.array(np.where(is_merged, sums.to_numpy() // 2, sums.to_numpy())), counts]


class Forgetful(Toy):
    """Parks less than it knows."""

    def encode(self, accumulators: Columns) -> Columns:
        return [pa.array(accumulators[0].to_numpy() & 0xFFFF), accumulators[1]]


class Saturating(Toy):
    """Wrong at the end of its range."""

    def results(self, accumulators: Columns) -> pa.Array:
        sums, counts = (column.to_numpy() for column in accumulators)
        return pa.array(np.maximum(sums, -(2**63) + 1), mask=counts == 0)


class ZeroOfNothing(Toy):
    """Has a result where there is none."""

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]


class CountsNulls(Toy):
    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return [super().partial(rows, groups)[0], pa.array(groups.counts)]


class Overrunning(Toy):
    """Its running totals go on over the ends of runs."""

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        return super().running(accumulators, starts[:1])


class Mistyped(Toy):
    def results(self, accumulators: Columns) -> pa.Array:
        return super().results(accumulators).cast(pa.float64())


def _wrapped(aggregate: Aggregate, elements: Sequence[Element], column: str) -> Callable[[Any], bool]:
    values = [element.value for element in elements]
    total = (sum(values) + 2**63) % 2**64 - 2**63 if values else None
    return lambda given: given == total and type(given) is type(total)


@pytest.fixture
def toy_registry() -> Iterator[None]:
    """What a test registers goes with it."""
    with patch.dict(AGGREGATES), patch.dict(KINDS), patch.dict(BRUTE_FORCES):
        yield


def register_toy(toy: Callable[[str], BoundAggregate]) -> None:
    def bind(declared: Aggregate, column: AggregatedColumn) -> BoundAggregate:
        return toy(column.name)

    register("toy", AggregateKind(("integer",), bind))
    BRUTE_FORCES["toy"] = _wrapped


def check_toy() -> None:
    for case in cases_of("toy"):
        check_extremes(case)


def test_the_suite_accepts_a_correct_aggregate(toy_registry: None) -> None:
    register_toy(Toy)
    check_toy()


@pytest.mark.parametrize(
    "toy",
    [LastValueWins, Halving, Forgetful, Saturating, ZeroOfNothing, CountsNulls, Overrunning, Mistyped],
)
def test_the_suite_refuses_an_aggregate_that_breaks_a_promise(
    toy: Callable[[str], BoundAggregate], toy_registry: None
) -> None:
    register_toy(toy)
    with pytest.raises(AssertionError):
        check_toy()


def test_the_suite_refuses_a_registered_aggregate_without_a_brute_force(toy_registry: None) -> None:
    register_toy(Toy)
    del BRUTE_FORCES["toy"]
    with pytest.raises(AssertionError):
        test_every_registered_kind_has_cases_and_a_brute_force()
    with pytest.raises(KeyError):
        check_toy()


def test_the_suite_refuses_a_check_that_nothing_passes(toy_registry: None) -> None:
    """An aggregate of a type without extremes would pass for want of anything to check."""
    assert all(len(values.extremes) > 1 for types in TYPES.values() for values in types.values())
    assert len(contract.CHECKS) == len(set(contract.CHECKS))
    assert all(isinstance(case.values, ValuesOfType) for case in CASES)
