"""Deduplication of one key range: of the rows of a key that have equal values in the `distinct_by`
columns, the first in processing order counts, and the others are duplicates for as long as the first is
remembered.

A first row with event time t is remembered while

    watermark < t + bound of the watermarks + allowed lateness

which depends on the data alone: the watermark in force when a row is processed is that of its tick. At the
end of a slice the rows that are still remembered are parked in `keyed_state`, one row for each:

    state_name       distinct_by
    map_key          the values of the `distinct_by` columns, as a JSON array
    namespace_start  the event time of the first row
    namespace_end    the watermark at which it is forgotten

A row with a null in one of the columns has no identity: it always counts, and is not remembered.
Deduplication comes behind the source and before windows: duplicates have moved the watermark already, and a
duplicate that is late is a duplicate. Knows no window and no function of the user.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import conform, counts_table, hand_over, hashes_table
from slackwater.engine.replaying.snapshot_rows import restored_rows
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, KEY_GROUP
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.rows.keys import Keys
from slackwater.pipelines import Pipeline
from slackwater.pipelines.process_functions import REMEMBERED_ROWS
from slackwater.tables.schemas import TIME, table_schemas
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.snapshot import ContentHash

_IDENTITY, _FIRST_MS = "__identity", "__first_ms"


@dataclass(frozen=True)
class FirstRows:
    """The rows of a range after deduplication.

    Attributes:
        rows: the elements that count, in processing order.
        tables: the remembered rows, their hash, and the counts of duplicates, to be handed over.
    """

    rows: pa.Table
    tables: tuple[pa.Table, ...]


def memory_ms(pipeline: Pipeline) -> int:
    """How long after its event time a first row is remembered, in milliseconds of the watermark."""
    return pipeline.watermarks.out_of_orderness_ms + pipeline.allowed_lateness_ms


def without_remembered_rows(keyed_state: pa.Table) -> pa.Table:
    return keyed_state.filter(pc.field("state_name") != REMEMBERED_ROWS)


def parked_rows(
    replay: Replay, schemas: Mapping[str, pa.Schema], table: str, keys: Keys, key_range: KeyRange
) -> pa.Table:
    """The parent's rows of a snapshot table in the range, without `run_id` and what deduplication remembers;
    row groups of other key groups are not read.
    """
    schema = without_run_id(schemas[table])
    rows = restored_rows(replay, table, schema, keys, key_range)
    is_shared = table == "keyed_state" and replay.pipeline.distinct_by is not None
    return without_remembered_rows(rows) if is_shared else rows


def without_run_id(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != "run_id"])


def first_rows(replay: Replay, keys: Keys, number: int, elements: pa.Table) -> FirstRows:
    """Deduplicate range `number`, in processing order, by what the parent's snapshot remembers."""
    schema = table_schemas(replay.shape)["keyed_state"]
    names = [KEY_GROUP, *keys.names, _IDENTITY, _FIRST_MS]
    key_range = keys.range(number, replay.ranges)
    remembered_rows = _read_remembered_rows(replay, keys, key_range, schema).select(names)
    candidates = elements.select([KEY_GROUP, *keys.names])
    candidates = candidates.append_column(_IDENTITY, identities(elements, replay.pipeline.distinct_columns))
    candidates = candidates.append_column(_FIRST_MS, elements.column(EVENT)).select(names)
    every_row = pa.concat_tables([remembered_rows, candidates.cast(remembered_rows.schema)]).combine_chunks()
    clocks = np.maximum(elements.column(ARRIVAL).to_numpy(), replay.scan.from_ms)
    # Whatever the watermark was: a parked row comes first of its identity, so nothing is asked of it.
    watermarks = np.concatenate(
        [np.zeros(remembered_rows.num_rows, np.int64), replay.timeline.at_arrival(clocks)]
    )
    has_identity = np.asarray(every_row.column(_IDENTITY).is_valid())
    places = np.flatnonzero(has_identity)
    counts, firsts, first_times = _firsts(
        _codes(every_row.select([*keys.names, _IDENTITY]).take(pa.array(places))),
        every_row.column(_FIRST_MS).to_numpy()[places],
        watermarks[places],
        memory_ms(replay.pipeline),
    )
    is_counted = np.ones(every_row.num_rows, np.bool_)
    is_counted[places] = counts
    is_counted = is_counted[remembered_rows.num_rows :]
    is_remembered = first_times + memory_ms(replay.pipeline) > replay.timeline.final
    parked_rows = _rows_to_park(
        every_row.take(pa.array(places[firsts[is_remembered]])), first_times[is_remembered], replay, keys
    )
    state = ContentHash()
    state.add("keyed_state", conform(parked_rows, schema), without=())
    is_folded = elements.column(ARRIVAL).to_numpy() < replay.scan.from_ms
    duplicate_count = int(np.count_nonzero(~is_counted))
    duplicates = {
        "rows_read": duplicate_count,
        "rows_duplicate": duplicate_count,
        "rows_folded": int(np.count_nonzero(is_folded & ~is_counted)),
    }
    tables = [hashes_table(ContentHash(), state), counts_table(duplicates)]
    if parked_rows.num_rows:
        part = f"{REMEMBERED_ROWS}{key_range.label}"
        tables += hand_over(replay, number, "keyed_state", parked_rows, schema, part=part)
    return FirstRows(elements.filter(pa.array(is_counted)), tuple(tables))


def identities(rows: pa.Table, names: tuple[str, ...]) -> pa.ChunkedArray:
    """The values of these columns in each row, as a JSON array; null where one of them is null."""
    texts = [_json_texts(rows.column(name)) for name in names]
    values = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, ", ")
    return pc.binary_join_element_wise("[", values, "]", "")


def _json_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = column.cast(pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_date(column.type)):
        return texts
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        json_values = [
            None if text is None else json.dumps(text, ensure_ascii=False) for text in texts.to_pylist()
        ]
        return pa.chunked_array([pa.array(json_values, pa.string())])
    escaped_texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped_texts, '"', "")


def _read_remembered_rows(replay: Replay, keys: Keys, key_range: KeyRange, schema: pa.Schema) -> pa.Table:
    fields = [field for field in schema if field.name != "run_id"]
    rows = restored_rows(replay, "keyed_state", pa.schema(fields), keys, key_range)
    rows = rows.filter(pc.field("state_name") == REMEMBERED_ROWS)
    first_times = rows.column("namespace_start").cast(TIME).cast(pa.int64())
    milliseconds = pa.array(first_times.to_numpy() // 1000, pa.int64())
    return (
        rows.append_column(KEY_GROUP, rows.column("key_group"))
        .append_column(_IDENTITY, rows.column("map_key"))
        .append_column(_FIRST_MS, milliseconds)
    )


def _codes(columns: pa.Table) -> Longs:
    """int64[n]: a number for each row, equal for rows that are equal in all columns."""
    codes = np.zeros(columns.num_rows, np.int64)
    for column in columns.columns:
        values = column.combine_chunks().dictionary_encode()
        if isinstance(values, pa.ChunkedArray):
            values = values.unify_dictionaries().combine_chunks()
        places = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # The product is below 2^62: both factors are at most the number of rows.
        codes = np.unique(codes * (len(values.dictionary) + 1) + places, return_inverse=True)[1]
    return codes.astype(np.int64)


def _firsts(codes: Longs, times: Longs, watermarks: Longs, kept_ms: int) -> tuple[Booleans, Longs, Longs]:
    """(whether each row counts, in processing order; for each identity the place of a row, and the event time
    of the first row that was remembered last).
    """
    order = np.argsort(codes, kind="stable")
    sorted_codes, sorted_times, sorted_watermarks = codes[order], times[order], watermarks[order]
    is_start = np.ones(len(order), np.bool_)
    is_start[1:] = sorted_codes[1:] != sorted_codes[:-1]
    starts, identity = np.flatnonzero(is_start), np.cumsum(is_start) - 1
    first_times = sorted_times[starts]
    is_forgotten = ~is_start & (sorted_watermarks >= first_times[identity] + kept_ms)
    counts = is_start.copy()
    # Few identities have a first row that is forgotten within the slice: their rows are walked one by one.
    forgetting = np.zeros(len(starts), np.bool_)
    forgetting[identity[is_forgotten]] = True
    for place in np.flatnonzero(forgetting[identity] & ~is_start).tolist():
        number = identity[place]
        if sorted_watermarks[place] >= first_times[number] + kept_ms:
            first_times[number] = sorted_times[place]
            counts[place] = True
    is_counted = np.empty(len(order), np.bool_)
    is_counted[order] = counts
    return is_counted, order[starts], first_times


def _rows_to_park(rows: pa.Table, first_times: Longs, replay: Replay, keys: Keys) -> pa.Table:
    count = rows.num_rows
    until = first_times + memory_ms(replay.pipeline)
    parked_rows = pa.table(
        {
            "key_group": rows.column(KEY_GROUP).cast(pa.int32()),
            **{name: rows.column(name) for name in keys.names},
            "state_name": pa.repeat(pa.scalar(REMEMBERED_ROWS), count),
            "namespace_start": pa.array(first_times * 1000, pa.int64()).cast(TIME),
            "namespace_end": pa.array(until * 1000, pa.int64()).cast(TIME),
            "map_key": rows.column(_IDENTITY),
        }
    )
    return parked_rows.sort_by([(name, "ascending") for name in ("key_group", *keys.names, "map_key")])
