"""The elements that windows hold for a function, in one range of the operator engine: numbers while windows
are decided, columns and rows when the function is called and when elements are parked.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.calls.element_texts import ElementColumns, ElementTexts, RowMaker, join_lists
from slackwater.engine.calls.function_calls import ElementsOnDemand
from slackwater.engine.operator.element_chains import ElementChains
from slackwater.tables.schemas import Columns
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.snapshot import ContentsColumns


class ElementContents(ContentsColumns):
    """The contents of windows, as the operator's `chains` and, as texts, the codec's `ContentsColumns`.

    Args:
        record: the class of elements, whose fields are columns of `rows`.
        rows: the elements of the range; their positions are their numbers.
    """

    columns: Columns = ()
    is_commutative = False
    no_contents = None

    def __init__(self, record: Any, texts: ElementTexts, rows: pa.Table) -> None:
        self.record = record
        self._element_texts = texts
        self._rows = rows.select(record._fields).combine_chunks()
        self._parked_texts: list[pa.Array] = []
        self.chains = ElementChains()

    @cached_property
    def _all_parked_texts(self) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.string()), *self._parked_texts])

    def columns_of(self, numbers: Longs) -> ElementColumns:
        """The columns of all elements, the parked ones first; of these the ascending `numbers` can be read.
        Only when all are restored.
        """
        columns = ElementColumns(self._element_texts, self._all_parked_texts, self._rows)
        columns.decode(numbers)
        return columns

    def lists(self, contents: Sequence[int]) -> ElementLists:
        """The numbers of the elements of each, as `columns_of` has them."""
        lists = self.chains.lists(np.array(contents, np.int64))
        are_elements = lists.numbers != 0
        places = np.append(0, np.cumsum(are_elements))
        return ElementLists(lists.numbers[are_elements] - 1, places[lists.starts], places[lists.ends])

    def arrays(self, contents: Sequence[int | None]) -> list[pa.Array]:
        return []

    def texts(self, contents: Sequence[int | None]) -> list[str | None]:
        lists = self.lists([number for number in contents if number is not None])
        offsets = pa.array(np.append(0, np.cumsum(lists.lengths)).astype(np.int32))
        texts = pa.ListArray.from_arrays(offsets, self.columns_of(lists.numbers[:0]).texts(lists.explode()))
        joined_texts = iter(join_lists(texts).to_pylist())
        return [None if number is None else f"[{next(joined_texts)}]" for number in contents]

    def values(self, rows: pa.Table) -> list[int]:
        lengths, texts = self._element_texts.read_lists(rows.column("contents").combine_chunks())
        self._parked_texts.append(texts)
        return self.chains.restore(lengths)

    def element_lists(self, contents: Sequence[int]) -> list[Sequence[Any]]:
        lists = self.lists(contents)
        rows = RowMaker(self.record, lambda name: self._readable_columns.column(name))
        bounds = zip(lists.starts.tolist(), lists.ends.tolist(), strict=True)
        return [ElementsOnDemand(lists.numbers[start:end], rows) for start, end in bounds]

    @cached_property
    def _readable_columns(self) -> ElementColumns:
        return self.columns_of(np.arange(len(self._all_parked_texts)))

    def restored_elements(self, elements: Sequence[Any]) -> list[int]:
        self._parked_texts.append(self._element_texts.encode(self._element_texts.rows_of(elements)))
        return self.chains.numbers_of_parked(len(elements))
