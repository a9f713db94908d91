"""The contents of windows while they are walked: lists of element numbers, or the values of a user's fold.

The walk knows neither. Both kinds have the same methods, on the contents of one window:

    restored_contents   the contents of a parked window, from the numbers of its list
    add                 the contents with one more element; None: there have been none
    merge               the contents of a session that absorbs others; `target` is under its state window
    fire                the number of what a firing shows
    park                the number of what is parked
    contents_shown      what a firing shows: the numbers of its elements, or the result of the fold
    lists               the element numbers of everything shown or parked; of a fold, the newest of each
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.functions.folds import WindowFold
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.window_columns import NO_CONTENTS, Firings, OpenWindows
from slackwater.windowing.snapshot import JsonValues

_IMMUTABLE: Final = (type(None), bool, int, float, str, bytes)


class ListContents:
    """Lists of numbers, which `add` appends to. Those of refires begin alike, and are parts of one column."""

    def __init__(self) -> None:
        self._picks: list[tuple[list[int], int]] = []  # (list, length): its first numbers

    def restored_contents(self, numbers: list[int]) -> list[int]:
        return numbers

    def add(self, contents: list[int] | None, number: int) -> list[int]:
        if contents is None:
            return [number]
        contents.append(number)
        return contents

    def merge(self, target: list[int] | None, sources: Sequence[list[int]]) -> list[int]:
        merged_numbers = [] if target is None else target
        for numbers in sources:
            merged_numbers += numbers
        return merged_numbers

    def fire(self, contents: list[int]) -> int:
        self._picks.append((contents, len(contents)))
        return len(self._picks) - 1

    park = fire

    def contents_shown(self, number: int) -> list[int]:
        numbers, length = self._picks[number]
        return numbers[:length]

    def lists(self) -> ElementLists:
        begins: dict[int, int] = {}
        numbers: list[int] = []
        starts, ends = [], []
        for picked_list, length in self._picks:
            if id(picked_list) not in begins:
                begins[id(picked_list)] = len(numbers)
                numbers += picked_list
            starts.append(begins[id(picked_list)])
            ends.append(starts[-1] + length)
        return ElementLists(*(np.array(column, np.int64) for column in (numbers, starts, ends)))


class FoldContents:
    """Values of a fold, each with the number of its newest element. Merging folds the sources into one value,
    which is then merged with the target's.

    Args:
        merges_target_first: whether the target's value comes first and null is skipped, as in Flink's heap
            state; else as in its RocksDB state.

    Attributes:
        results: what each firing hands on, or the text of what is parked, by its number.
    """

    def __init__(
        self,
        fold: WindowFold,
        parked_texts: pa.Array,
        json: JsonValues,
        elements: dict[int, Any],
        *,
        merges_target_first: bool,
    ) -> None:
        self._fold = fold
        self._merges_target_first = merges_target_first
        self._parked_texts = parked_texts
        self._json = json
        self._elements = elements
        self._newest: list[int] = []
        self.results: list[Any] = []

    def restored_contents(self, numbers: list[int]) -> tuple[Any, int]:
        [number] = numbers
        return self._json.loads(self._parked_texts[number].as_py()), number

    def add(self, contents: tuple[Any, int] | None, number: int) -> tuple[Any, int]:
        value = None if contents is None else contents[0]
        return self._fold.add(value, [self._elements[number]]), number

    def merge(self, target: tuple[Any, int] | None, sources: Sequence[tuple[Any, int]]) -> tuple[Any, int]:
        value, number = sources[0]
        for source, newest in sources[1:]:
            if value is None:
                value = source
            elif source is not None or not self._merges_target_first:
                value = self._fold.merge(value, source)
            number = newest
        if target is None:
            return value, number
        if value is None:
            return target
        if not self._merges_target_first:
            value = self._fold.merge(value, target[0])
        elif target[0] is not None:
            value = self._fold.merge(target[0], value)
        return value, number

    def fire(self, contents: tuple[Any, int]) -> int:
        result = self._fold.result(contents[0])
        # The function is called after the walk, and the user's code may change a value in its place.
        return self._note(contents, result if type(result) in _IMMUTABLE else copy.deepcopy(result))

    def park(self, contents: tuple[Any, int]) -> int:
        return self._note(contents, self._json.dumps(contents[0]))

    def _note(self, contents: tuple[Any, int], result: Any) -> int:
        self.results.append(result)
        self._newest.append(contents[1])
        return len(self._newest) - 1

    def contents_shown(self, number: int) -> Any:
        return self.results[number]

    def lists(self) -> ElementLists:
        places = np.arange(len(self._newest))
        return ElementLists(np.array(self._newest, np.int64), places, places + 1)


WindowContents = ListContents | FoldContents


@dataclass(frozen=True)
class WalkedFolds:
    """The values of folds after the walk, as `Folding` gives them."""

    folds: FoldContents
    firings: Firings
    windows: OpenWindows

    def results(self) -> Iterator[Any]:
        return (self.folds.results[number] for number in self.firings.contents.tolist())

    def texts(self) -> list[str | None]:
        return [
            None if number == NO_CONTENTS else self.folds.results[number]
            for number in self.windows.contents.tolist()
        ]
