"""What every aggregate promises, as checks over some elements: `check_all` raises AssertionError for an
aggregate that keeps one of the promises not.
"""

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import BoundAggregate, Columns, OverflowAtRow, ResultOverflow, bind
from slackwater.engine.aggregates.bound_aggregate import combine_spans
from slackwater.engine.aggregates.table import AGGREGATES
from slackwater.pipelines import Aggregate
from slackwater.pipelines.aggregates import KINDS, OPTIONAL_SETTINGS
from slackwater.windowing import AggregateFunction
from slackwater.windowing.columnar.arrays.groups import Groups, Spans
from tests.engine.aggregates.brute_forces import OVERFLOW, Holds, expected
from tests.engine.aggregates.elements import TYPES, Element, ValuesOfType, rows_of


class HowMany(AggregateFunction):
    """Counts values, whatever their type."""

    def __repr__(self) -> str:
        return "HowMany"

    def create_accumulator(self) -> dict[str, int]:
        return {"n": 0}

    def add(self, value: Any, accumulator: dict[str, int]) -> dict[str, int]:
        return {"n": accumulator["n"] + 1}

    def merge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {"n": a["n"] + b["n"]}

    def get_result(self, accumulator: dict[str, int]) -> int:
        return accumulator["n"]


# Values of each setting that a declaration may need.
SETTINGS: dict[str, Sequence[Any]] = {
    "by": ("event_time", "arrival"),
    "precision": (4,),
    "quantile": (0.3, 1.0),
    "relative_error": (0.2,),
    "other_column": ("o",),
    "limit": (2, 1),
    "separator": (", ",),
    "bounds": ((-1.5, 0, 100.25),),
    "function": (HowMany(),),
    "returns": ("long",),
}


@dataclass(frozen=True)
class Case:
    """An aggregate on a type of columns. `where` is a condition on the elements' column c."""

    aggregate: Aggregate
    column: str
    values: ValuesOfType

    @property
    def name(self) -> str:
        item = self.aggregate
        settings = [
            str(getattr(item, name)) for name in (*SETTINGS, "where") if getattr(item, name) is not None
        ]
        return "-".join([item.kind, self.column, *settings])

    def bind(self) -> BoundAggregate:
        types = {"x": self.values.type, "o": pa.float64(), "c": pa.bool_()}
        bound = bind("r", self.aggregate, types, order_by="o", hashed_columns=("x", "o", "c"))
        copy: BoundAggregate = pickle.loads(pickle.dumps(bound))
        return copy


def cases_of(kind: str) -> Iterator[Case]:
    """The aggregates of a registered kind on each type that it takes; on the first type also with every
    setting, and of some rows.
    """
    families, names = AGGREGATES[kind].families or tuple(TYPES), KINDS[kind]
    types = [(column, values) for family in families for column, values in TYPES[family].items()]
    all_settings = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*map(SETTINGS.__getitem__, names))
    ]
    for column, values_of_type in types:
        yield Case(Aggregate(kind, "x", None, **all_settings[0]), column, values_of_type)
    for settings in all_settings:
        yield Case(Aggregate(kind, "x", "c", **settings), *types[0])
    for name in OPTIONAL_SETTINGS.get(kind, ()):
        for value in SETTINGS[name]:
            yield Case(Aggregate(kind, "x", None, **{**all_settings[0], name: value}), *types[0])
    if kind == "count":
        for where in (None, "c"):
            yield Case(Aggregate(kind, None, where), "byte", TYPES["integer"]["byte"])


class Accumulating:
    """One bound aggregate and some elements."""

    def __init__(self, case: Case, elements: Sequence[Element]) -> None:
        self.case, self.elements = case, elements
        self.bound = case.bind()
        self.rows = rows_of(elements, case.values.type)

    def partial(self, positions: Sequence[int], codes: Sequence[int] | None = None, size: int = 1) -> Columns:
        groups = Groups(np.array(codes or [0] * len(positions), np.int64), size)
        columns = self.bound.partial(self.rows.take(pa.array(positions, pa.int64())), groups)
        assert [column.type for column in columns] == [kind for _, kind in self.bound.columns]
        assert {len(column) for column in columns} == {size}
        return columns

    def each(self) -> Columns:
        return self.bound.partial(self.rows, Groups.singletons(self.rows.num_rows))

    def combine(self, *accumulators: Columns) -> Columns:
        columns = [pa.concat_arrays(pieces) for pieces in zip(*accumulators, strict=True)]
        return self.bound.combine(columns, Groups(np.zeros(len(columns[0]), np.int64), 1))

    def parked(self, accumulators: Columns) -> list[str]:
        """The parts as a reader of `window_state` gets them; floats as they are written."""
        parts = self.bound.encode(accumulators)
        assert [part.type for part in parts] == [kind for _, kind in self.bound.parts]
        return [repr(row) for row in zip(*(part.to_pylist() for part in parts), strict=True)]

    def restored(self, accumulators: Columns) -> Columns:
        return self.bound.decode(self.bound.encode(accumulators))

    def result(self, accumulators: Columns) -> Any:
        try:
            results = self.bound.results(accumulators)
        except OverflowAtRow as failure:
            assert failure.row == 0 and isinstance(failure.error, ResultOverflow)
            return OVERFLOW
        assert results.type == self.bound.result_type
        return results.to_pylist()[0]

    def holds(self, positions: Sequence[int]) -> Holds:
        return expected(self.case.aggregate, [self.elements[place] for place in positions], self.case.column)


def check_brute_force(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    positions = range(len(item.elements))
    accumulator = item.partial(positions)
    for columns in (accumulator, item.restored(accumulator)):
        assert item.holds(positions)(item.result(columns)), item.result(columns)


def check_no_elements(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    """A group without rows has the accumulator of no elements, which adds nothing to others."""
    nothing, everything = item.partial([]), item.partial(shuffled)
    assert item.holds([])(item.result(nothing))
    assert item.parked(item.combine(nothing, everything)) == item.parked(everything)
    two_groups = item.partial(shuffled, [1] * len(shuffled), 2)
    assert item.parked(two_groups) == [*item.parked(nothing), *item.parked(everything)]


def check_order(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    in_order, in_any_order = item.partial(range(len(shuffled))), item.partial(shuffled)
    assert item.parked(in_any_order) == item.parked(in_order)
    assert repr(item.result(in_any_order)) == repr(item.result(in_order))


def check_merges(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    everything = item.partial(shuffled)
    a, b, c = (item.partial(shuffled[slice(*bounds)]) for bounds in _bounds(cuts))
    for merged in (
        item.combine(item.combine(a, b), c),
        item.combine(a, item.combine(b, c)),
        item.combine(c, a, b),
    ):
        assert item.parked(merged) == item.parked(everything)
        assert repr(item.result(merged)) == repr(item.result(everything))


def check_parking(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    """What was parked goes on as if it had not been."""
    everything = item.partial(shuffled)
    a, b, c = (item.partial(shuffled[slice(*bounds)]) for bounds in _bounds(cuts))
    assert item.parked(item.restored(everything)) == item.parked(everything)
    resumed = item.combine(item.restored(item.combine(item.restored(a), b)), c)
    assert item.parked(resumed) == item.parked(everything)
    assert repr(item.result(resumed)) == repr(item.result(everything))


def check_running_totals(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    count = len(item.elements)
    starts = sorted({0, *(cut for cut in cuts if cut < count)}) if count else []
    running = item.bound.running(item.each(), np.array(starts, np.int64))
    for row, parts in enumerate(item.parked(running)):
        begin = max(start for start in starts if start <= row)
        positions = range(begin, row + 1)
        assert [parts] == item.parked(item.partial(positions))
        assert item.holds(positions)(item.result([column[row : row + 1] for column in running]))


def check_groups(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    """Of many groups each is what it is alone, whether rows or accumulators are grouped."""
    count = len(item.elements)
    codes = [place % 3 for place in range(count)]
    alone = [part for code in range(3) for part in item.parked(item.partial(range(code, count, 3)))]
    assert item.parked(item.partial(range(count), codes, 3)) == alone
    combined = item.bound.combine(item.each(), Groups(np.array(codes, np.int64), 3))
    assert item.parked(combined) == alone


def check_overlapping_spans(item: Accumulating, shuffled: Sequence[int], cuts: tuple[int, int]) -> None:
    bounds = np.array([(0, max(cuts)), (min(cuts), len(shuffled)), (0, len(shuffled))], np.int64)
    firsts, ends = bounds[bounds[:, 0] < bounds[:, 1]].T  # none is empty
    spans = combine_spans(item.bound, item.each(), Spans(firsts, ends))
    alone = [item.partial(range(*bounds)) for bounds in zip(firsts.tolist(), ends.tolist(), strict=True)]
    assert item.parked(spans) == [part for columns in alone for part in item.parked(columns)]


Check = Callable[[Accumulating, Sequence[int], tuple[int, int]], None]
CHECKS: tuple[Check, ...] = (
    check_brute_force,
    check_no_elements,
    check_order,
    check_merges,
    check_parking,
    check_running_totals,
    check_groups,
    check_overlapping_spans,
)


def check_all(
    case: Case, elements: Sequence[Element], shuffled: Sequence[int], cuts: tuple[int, int]
) -> None:
    """Every promise, over these elements: `shuffled` are their positions, `cuts` split them into three."""
    item = Accumulating(case, elements)
    for check in CHECKS:
        check(item, shuffled, cuts)


def _bounds(cuts: tuple[int, int]) -> list[tuple[int, int | None]]:
    low, high = sorted(cuts)
    return [(0, low), (low, high), (high, None)]
