"""Elements as the texts in which a snapshot has them, and back, column by column.

    {"$record":["Element",{"row":7,"x":null,"event_time":{"$datetime":"2024-05-01T00:00:00+00:00"}}]}

The form is that of `JsonValues`, in which the operator engine parks elements; only columns of plain types
have one here. `ElementColumns` has the elements of one range by their numbers: elements of parked windows,
then elements of the slice.
"""

import io
import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from slackwater.engine.rows.python_values import to_user_values
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.snapshot import JsonValues

_VALUE: Final = (
    r'(?:-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|"(?:[^"\\]|\\.)*"|\{"\$[a-z]+":"[^"\\]*"\})'
)
_STARTS: Final = '{"$record":'
_PARSED_AT_ONCE: Final = 1 << 16
_TIME: Final = pa.timestamp("us", tz="UTC")


def has_text(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_date32,
        pa.types.is_timestamp,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_binary,
    )
    return any(test(kind) for test in tests)


class ElementTexts:
    """The texts of elements of one class with fields of `schema`."""

    def __init__(self, record: type, schema: pa.Schema) -> None:
        self._json = JsonValues((record,))
        self._schema = schema
        name = json.dumps(record.__name__)
        self._begin = f"{_STARTS}[{name},{{{json.dumps(schema.names[0])}:"
        self._between = [f",{json.dumps(field)}:" for field in schema.names[1:]]
        labels = [self._begin, *self._between]
        pattern = f"{''.join(re.escape(label) + _VALUE for label in labels)}\\}}\\]\\}}"
        self._pattern = f"^{pattern}$"
        self._prefix_length = len(f"{_STARTS}[{name},")

    def encode(self, rows: pa.Table) -> pa.Array:
        pieces: list[Any] = []
        for label, name in zip([self._begin, *self._between], self._schema.names, strict=True):
            pieces += [label, _texts(rows.column(name), self._json)]
        pieces.append("}]}")
        texts = pc.binary_join_element_wise(*pieces, "")
        return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts

    def read_lists(self, contents: pa.Array) -> tuple[Longs, pa.Array]:
        """(how many elements each list of `contents` has, 0 for null; their texts, list by list). Elements
        with the fields of earlier declarations get today's, null where they lack one.
        """
        # In texts each quotation mark follows a backslash, no line ends.
        lines = pc.replace_substring(pc.utf8_slice_codeunits(contents, 1, -1), f",{_STARTS}", f"\n{_STARTS}")
        lists = pc.split_pattern(lines, "\n")
        texts, lengths = lists.flatten(), lists.value_lengths().fill_null(0)
        if pc.all(pc.match_substring_regex(texts, self._pattern)).as_py() is False:
            parked_lists = [[] if text is None else self._json.loads(text) for text in contents.to_pylist()]
            texts = self.encode(self.rows_of(list(chain.from_iterable(parked_lists))))
            lengths = pa.array(map(len, parked_lists), pa.int64())
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64), texts

    def rows_of(self, elements: Sequence[Any]) -> pa.Table:
        """The columns of elements that are objects."""
        return pa.table(
            [
                pa.array([getattr(element, field.name) for element in elements], field.type)
                for field in self._schema
            ],
            schema=self._schema,
        )

    def decode(self, texts: pa.Array) -> pa.Table:
        """The inverse of `encode`, for texts of this form."""
        pieces = [
            self._decode_piece(texts.slice(first, _PARSED_AT_ONCE))
            for first in range(0, len(texts), _PARSED_AT_ONCE)
        ]
        return pa.concat_tables([self._schema.empty_table(), *pieces])

    def _decode_piece(self, texts: pa.Array) -> pa.Table:
        if any(pa.types.is_binary(kind) for kind in self._schema.types) or _holds(texts, '{"$float":'):
            return self.rows_of([self._json.loads(text) for text in texts.to_pylist()])
        lines = pc.utf8_slice_codeunits(texts, self._prefix_length)
        lines = pc.utf8_slice_codeunits(lines, 0, -2)
        text = "\n".join(lines.to_pylist()).encode()
        values_by_field = pa_json.read_json(
            io.BytesIO(text),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=pa.schema([(field.name, _parsed_type(field.type)) for field in self._schema]),
                unexpected_field_behavior="error",
            ),
        )
        return pa.table(
            [_without_tags(values_by_field.column(field.name), field.type) for field in self._schema],
            schema=self._schema,
        )


def join_lists(texts: Sequence[pa.Array] | pa.Array) -> pa.Array:
    """The text of each list of texts, without its brackets."""
    return pc.binary_join(texts, ",")


def _holds(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring(texts, pattern)).as_py())


def _texts(column: pa.ChunkedArray, json_values: JsonValues) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_date32(kind):
        texts = pc.binary_join_element_wise('{"$date":"', column.cast(pa.string()), '"}', "")
    elif pa.types.is_timestamp(kind):
        moments = column.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(_TIME)
        texts = pa.chunked_array([_moment_texts(moments.combine_chunks())])
    elif pa.types.is_string(kind) and not pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        texts = pc.binary_join_element_wise('"', column, '"', "")
    else:
        dictionary_column = column.combine_chunks().dictionary_encode()
        values = to_user_values(pa.chunked_array([dictionary_column.dictionary]))
        distinct_texts = pa.array(map(json_values.dumps, values), pa.string())
        texts = pa.chunked_array([distinct_texts.take(dictionary_column.indices)])
    return pc.fill_null(texts, "null")


def _moment_texts(moments: pa.Array) -> pa.Array:
    """The text of each moment: that of its second and, unless it is zero, its fraction. Both repeat often."""
    microseconds = moments.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, second_codes = np.unique(microseconds // 1_000_000, return_inverse=True)
    fractions, fraction_codes = np.unique(microseconds % 1_000_000, return_inverse=True)
    second_texts = pa.array(seconds).cast(pa.timestamp("s")).cast(pa.string())
    second_texts = pc.binary_join_element_wise(
        '{"$datetime":"', pc.replace_substring(second_texts, " ", "T"), ""
    )
    fraction_texts = pc.utf8_lpad(pa.array(fractions).cast(pa.string()), 6, "0")
    fraction_texts = pc.if_else(
        pa.array(fractions == 0), "", pc.binary_join_element_wise(".", fraction_texts, "")
    )
    texts = pc.binary_join_element_wise(
        second_texts.take(pa.array(second_codes)),
        fraction_texts.take(pa.array(fraction_codes)),
        '+00:00"}',
        "",
    )
    return pc.if_else(moments.is_valid(), texts, pa.scalar(None, pa.string()))


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    for test, tag in (
        (pa.types.is_timestamp, "$datetime"),
        (pa.types.is_date32, "$date"),
        (pa.types.is_decimal, "$decimal"),
    ):
        if test(kind):
            return pa.struct([(tag, pa.string())])
    return kind


def _without_tags(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_struct(column.type):
        return column
    texts = pa.chunked_array([pc.struct_field(chunk, 0) for chunk in column.chunks], pa.string())
    if pa.types.is_timestamp(kind):
        return texts.cast(_TIME).cast(pa.timestamp("us", kind.tz)).cast(kind)
    return texts.cast(kind)


class RowMaker(NamedTuple):
    """Makes elements, named tuples of the class `record`, from columns."""

    record: Any
    column_of: Callable[[str], pa.Array]

    def rows(self, numbers: Longs) -> list[Any]:
        """The elements of these numbers."""
        places = pa.array(numbers)
        columns = [
            to_user_values(pa.chunked_array([self.column_of(name).take(places)]))
            for name in self.record._fields
        ]
        return list(map(self.record._make, zip(*columns, strict=True)))


class ElementColumns:
    """Columns and texts of elements: `parked_texts` of parked windows, and `rows` of the slice."""

    def __init__(self, texts: ElementTexts, parked_texts: pa.Array, rows: pa.Table) -> None:
        self._texts = texts
        self.parked_texts = parked_texts
        self.rows = rows
        self._parked_rows: pa.Table | None = None
        self._columns: dict[str, pa.Array] = {}

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
        new_texts = self._texts.encode(self.rows.take(pa.array(distinct[is_new] - first)))
        return pa.concat_arrays([parked_texts, new_texts]).take(pa.array(places.reshape(-1)))
