"""The rows that a batch of corrections leaves in a target with one row per identity, and what it withdraws.

Corrections of one identity follow each other in a batch; the last one decides.
"""

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.pipelines.sinks import SinkContext

_NUMBER = "__number"


class StandingRows(NamedTuple):
    """The rows that a batch of corrections leaves.

    Attributes:
        rows: the rows that are published after it, with the columns of `columns_of`.
        replaced_identities: changed and withdrawn identities, as far as the corrections say.
        places, replaced_places: for each of both, the number of its last correction in the batch.
    """

    rows: pa.Table
    replaced_identities: pa.Table
    places: pa.ChunkedArray
    replaced_places: pa.ChunkedArray


def columns_of(context: SinkContext) -> tuple[tuple[str, pa.DataType], ...]:
    """The columns of a target's rows: keys, window, what else tells rows apart, results."""
    types = {
        **dict(context.windows),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "firing": pa.int64(),
        "ordinal": pa.int64(),
        "run_id": pa.string(),
    }
    keys = [name for name, _ in context.keys]
    others = [name for name in (*dict(context.windows), *context.identity) if name not in keys]
    return (
        *context.keys,
        *((name, types[name]) for name in dict.fromkeys(others)),
        *context.results,
    )


def standing_rows(changes: pa.Table, context: SinkContext) -> StandingRows:
    results = {name for name, _ in context.results}
    names = [name for name, _ in columns_of(context)]
    new = changes.column("new")
    columns = {
        name: pc.struct_field(new, name) if name in results else changes.column(name) for name in names
    }
    table, op = pa.table(columns), changes.column("op")
    identities = table.select(list(context.identity))
    newest = _newest(identities)
    places = newest.filter(pc.not_equal(op, "withdraw").take(newest))
    numbers = pa.chunked_array([pa.array(np.arange(changes.num_rows))])
    changing_numbers = numbers.filter(pc.not_equal(op, "insert"))
    replaced_places = changing_numbers.take(_newest(identities.take(changing_numbers)))
    return StandingRows(table.take(places), identities.take(replaced_places), places, replaced_places)


def keys_as_json(identities: pa.Table) -> list[str]:
    """Each identity as a JSON object of texts, ``{"page": "home", "window_start": "2024-05-02 …Z"}``, with
    times of any year, and without characters that a database would refuse.
    """
    names = identities.column_names
    columns = [_texts(identities.column(name)) for name in names]
    return [
        json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)
        for values in zip(*columns, strict=True)
    ]


def digests_of(identities: pa.Table) -> list[str]:
    """A SHA-256 of each identity."""
    return [hashlib.sha256(key.encode()).hexdigest() for key in keys_as_json(identities)]


def _texts(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_binary(column.type):
        return [value.hex() for value in column.to_pylist()]
    return list(column.cast(pa.string()).to_pylist())


def _newest(identities: pa.Table) -> pa.ChunkedArray:
    """The number of the last row of each identity, in ascending order."""
    numbers = pa.array(np.arange(identities.num_rows))
    last = (
        identities.append_column(_NUMBER, numbers)
        .group_by(identities.column_names)
        .aggregate([(_NUMBER, "max")])
    )
    return last.column(f"{_NUMBER}_max").sort()
