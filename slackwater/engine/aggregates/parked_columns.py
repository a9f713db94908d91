"""Accumulators as columns of `window_state`, and back: the typed columns `<result>__<part>`, and in the
column `contents` the names of results that are unknown in a window.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.arrow_accumulators import ArrowAccumulators
from slackwater.engine.aggregates.bound_aggregate import BoundAggregate
from slackwater.engine.aggregates.unknown import UnknowableAggregate, text_of_unknown, unknown_in
from slackwater.tables.schemas import Columns as NamedColumns
from slackwater.windowing.columnar.arrays.columns import Booleans

Aggregates = Mapping[str, BoundAggregate]


def names_of_parts(aggregates: Aggregates) -> NamedColumns:
    """(name, type) of the columns of all aggregates, by result."""
    return tuple(
        (f"{name}__{suffix}", kind)
        for name, aggregate in aggregates.items()
        for suffix, kind in aggregate.parts
    )


def read_accumulators(
    rows: pa.Table, aggregates: Aggregates, added_results: frozenset[str]
) -> ArrowAccumulators:
    """The accumulators in rows that all have contents; `added_results` are unknown in all of them."""
    columns = []
    for result, aggregate in aggregates.items():
        parts = [rows.column(f"{result}__{suffix}").combine_chunks() for suffix, _ in aggregate.parts]
        if isinstance(aggregate, UnknowableAggregate):
            columns.append(aggregate.decode_unless(_are_unknown(result, rows, added_results), parts))
        else:
            columns.append(aggregate.decode(parts))
    return ArrowAccumulators.of(tuple(aggregates.values()), columns, rows.num_rows)


def _are_unknown(result: str, rows: pa.Table, added_results: frozenset[str]) -> Booleans:
    if result in added_results:
        return np.ones(rows.num_rows, np.bool_)
    texts = rows.column("contents").combine_chunks().dictionary_encode()
    has_unknown = np.array([result in unknown_in(text) for text in texts.dictionary.to_pylist()], np.bool_)
    return np.append(has_unknown, False)[texts.indices.fill_null(len(has_unknown)).to_numpy()]


def parked_parts(accumulators: ArrowAccumulators) -> list[pa.Array]:
    """The typed columns of `names_of_parts`."""
    return [
        part
        for aggregate, columns in zip(accumulators.aggregates, accumulators.columns, strict=True)
        for part in aggregate.encode(columns)
    ]


def texts_of_unknown(accumulators: ArrowAccumulators, aggregates: Aggregates) -> pa.Array:
    """The column `contents`: null where no result is unknown."""
    names, masks = [], []
    for (result, aggregate), columns in zip(aggregates.items(), accumulators.columns, strict=True):
        if isinstance(aggregate, UnknowableAggregate):
            names.append(result)
            masks.append(aggregate.are_unknown(columns))
    if not names or not accumulators.size:
        return pa.nulls(accumulators.size, pa.string())
    sets, places = np.unique(np.column_stack(masks), axis=0, return_inverse=True)
    texts = [text_of_unknown(name for name, is_in in zip(names, row, strict=True) if is_in) for row in sets]
    return pa.array(texts, pa.string()).take(pa.array(places.reshape(-1)))
