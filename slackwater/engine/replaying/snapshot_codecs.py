"""The snapshot codec of a pipeline: what it declares for `slackwater.windowing.snapshot`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slackwater.engine.aggregates import UNKNOWN, Accumulator, text_of_unknown, unknown_in
from slackwater.engine.rows.keys import Keys
from slackwater.engine.rows.python_values import to_arrow, to_python
from slackwater.pipelines import Pipeline
from slackwater.pipelines.process_functions import states_of
from slackwater.pipelines.window_columns import own_window_class_of
from slackwater.tables.schemas import Columns, Shape
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import JsonValues, KeyColumns, SnapshotCodec, SnapshotLayout


class AccumulatorCodec:
    """The accumulators of a `select` as columns `<result>__<part>`, whatever the order of the elements was.

    Args:
        columns: names and types of all parts, in the order of the accumulators.
        accumulators: by result; a window's contents are a list with one item for each.
        added_results: results that the rows to be read lack.
    """

    is_commutative = True

    def __init__(
        self,
        columns: Columns,
        accumulators: Mapping[str, Accumulator],
        added_results: frozenset[str] = frozenset(),
    ) -> None:
        self.columns = columns
        self._results = tuple(accumulators)
        self._accumulators = tuple(accumulators.values())
        self._added_results = added_results
        self._no_parts = (None,) * len(columns)

    def arrays(self, contents: Sequence[Any]) -> list[pa.Array]:
        rows = [self._no_parts if items is None else self._encode(items) for items in contents]
        parts = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        return [to_arrow(values, kind) for (_, kind), values in zip(self.columns, parts, strict=True)]

    def texts(self, contents: Sequence[Any]) -> list[str | None]:
        return [
            None
            if items is None or UNKNOWN not in items
            else text_of_unknown(
                name for name, item in zip(self._results, items, strict=True) if item is UNKNOWN
            )
            for items in contents
        ]

    def values(self, rows: pa.Table) -> list[Any]:
        parts = zip(*(to_python(rows.column(name)) for name, _ in self.columns), strict=True)
        texts = rows.column("contents") if "contents" in rows.column_names else pa.nulls(rows.num_rows)
        if not self._added_results and texts.null_count == len(texts):
            return list(map(self._decode, parts))
        return [
            self._decode(values, self._added_results | unknown_in(text))
            for values, text in zip(parts, texts.to_pylist(), strict=True)
        ]

    def _encode(self, items: list[Any]) -> list[Any]:
        return [
            part
            for accumulator, item in zip(self._accumulators, items, strict=True)
            for part in accumulator.encode(item)
        ]

    def _decode(self, values: Sequence[Any], unknown: frozenset[str] = frozenset()) -> list[Any]:
        contents, position = [], 0
        for name, accumulator in zip(self._results, self._accumulators, strict=True):
            width = len(accumulator.parts)
            parts = values[position : position + width]
            contents.append(UNKNOWN if name in unknown else accumulator.decode(parts))
            position += width
        return contents


def codec_of_windows(
    pipeline: Pipeline,
    keys: Keys,
    shape: Shape,
    accumulators: Mapping[str, Accumulator],
    *,
    config: WindowOperatorConfig,
    element_class: type | None,
    added_results: frozenset[str] = frozenset(),
) -> SnapshotCodec:
    """The codec of a pipeline's window operator. `element_class` is that of its named tuples; None for row
    numbers, which never enter state. The rows to be read lack `added_results`.
    """
    contents = AccumulatorCodec(shape.parts, accumulators, added_results) if shape.parts else None
    layout = SnapshotLayout.for_windows(
        config,
        keys=KeyColumns.of(keys.columns),
        contents=contents,
        json=json_of(pipeline, element_class),
    )
    return SnapshotCodec(layout)


def codec_of_process(pipeline: Pipeline, keys: Keys, element_class: type | None) -> SnapshotCodec:
    """The codec of a pipeline's process function; `element_class` is that of its named tuples."""
    return SnapshotCodec(_process_layout(pipeline, keys, json_of(pipeline, element_class)))


def state_columns(pipeline: Pipeline, keys: Keys) -> Columns:
    """The columns of `keyed_state` for the states that a process function declares with a SQL type."""
    return (
        tuple(_process_layout(pipeline, keys, JsonValues()).value_columns().values())
        if pipeline.keyed_process is not None
        else ()
    )


def _process_layout(pipeline: Pipeline, keys: Keys, json: JsonValues) -> SnapshotLayout:
    assert pipeline.keyed_process is not None
    layout = SnapshotLayout.for_process(
        keys.type,
        keys=KeyColumns.of(keys.columns),
        states=states_of(pipeline.keyed_process),
        json=json,
    )
    return replace(layout, timer_owner=f"the function {type(pipeline.keyed_process).__name__}")


def json_of(pipeline: Pipeline, element_class: type | None) -> JsonValues:
    """How values without a column are written: plain values, elements, windows, declared records."""
    own_window_class = own_window_class_of(pipeline)
    records = (
        *(() if element_class is None else (element_class,)),
        *(() if own_window_class is None else (own_window_class.window_class,)),
    )
    return JsonValues((*records, *pipeline.records), pipeline.pickled_state)
