"""The elements of one range by their numbers: elements of parked windows, then elements of the slice."""

import numpy as np
import pyarrow as pa

from slackwater.engine.functions.element_texts import ElementTexts
from slackwater.windowing.columnar.arrays.columns import Longs


class ElementColumns:
    """Columns and texts of elements: `parked_texts` of parked windows, and `rows` of the slice. `texts` is
    None where elements are not parked.
    """

    def __init__(
        self, texts: ElementTexts | None, parked_texts: pa.Array, rows: pa.Table, row_times: Longs
    ) -> None:
        self._texts_of_elements = texts
        self._row_times = row_times
        self.parked_texts = parked_texts
        self.rows = rows
        self._parked_rows: pa.Table | None = None
        self._columns: dict[str, pa.Array] = {}

    @property
    def _texts(self) -> ElementTexts:
        assert self._texts_of_elements is not None, "windows keep no elements"
        return self._texts_of_elements

    def of_slice(self) -> "ElementColumns":
        """The elements of the slice alone, numbered from 0."""
        no_texts = pa.array([], pa.string())
        return ElementColumns(self._texts_of_elements, no_texts, self.rows, self._row_times)

    def decode(self, numbers: Longs) -> None:
        """Read the elements of parked windows among the ascending `numbers`, for `column`."""
        parked_count = len(self.parked_texts)
        numbers_to_read = numbers[: np.searchsorted(numbers, parked_count)]
        if not len(numbers_to_read):
            return
        places = np.zeros(parked_count, np.int64)
        is_needed = np.zeros(parked_count, np.bool_)
        is_needed[numbers_to_read], places[numbers_to_read] = True, np.arange(len(numbers_to_read))
        decoded_rows = self._texts.decode(self.parked_texts.take(pa.array(numbers_to_read)))
        self._parked_rows = decoded_rows.take(pa.array(places, mask=~is_needed))

    def times(self) -> Longs:
        """The timestamp of each element; 0 for parked ones without."""
        return np.append(self._texts.times(self.parked_texts), self._row_times)

    def column(self, name: str) -> pa.Array:
        """The values of a field; null for elements of parked windows that were not decoded."""
        column = self._columns.get(name)
        if column is None:
            values = self.rows.column(name)
            if self._parked_rows is not None:
                parked_values = self._parked_rows.column(name)
            else:
                parked_values = pa.chunked_array([pa.nulls(len(self.parked_texts), values.type)])
            both = pa.chunked_array([*parked_values.chunks, *values.chunks], values.type)
            column = self._columns[name] = both.combine_chunks()
        return column

    def texts(self, numbers: Longs) -> pa.Array:
        first = len(self.parked_texts)
        distinct, places = np.unique(numbers, return_inverse=True)
        is_new = distinct >= first
        parked_texts = self.parked_texts.take(pa.array(distinct[~is_new]))
        new = distinct[is_new] - first
        new_texts = self._texts.encode(self.rows.take(pa.array(new)), self._row_times[new])
        return pa.concat_arrays([parked_texts, new_texts]).take(pa.array(places.reshape(-1)))
