"""Which fields of a source could be its key, its source partition and its order, by their names and a sample.
A guess, with its reasons in words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.inspection.sources.disorder import disorder_of
from slackwater.inspection.sources.source_fields import SourceField
from slackwater.inspection.sources.time_roles import words_of
from slackwater.readable import count_text, duration_text, share_text

_KEY = re.compile(
    r"(^|_)(id|key|code|user|customer|client|account|device|sensor|host|station|vehicle|tollgate|product|sku"
    r"|country|city|region|origin|symbol|store|shop|merchant|driver|plate|session|tenant|site|machine|plant"
    r"|line|service|page|url|name)($|_)|id$"
)
_PARTITION = re.compile(r"(^|_)(partition|shard|stream)($|_)")
_ORDER = re.compile(r"(^|_)(offset|seq|sequence|row|rownum|lsn|scn|sequence_number|row_number|position)($|_)")
_MOST_PARTITIONS = 64
_LEAST_GAIN_MS = 60_000
_TEXT_LENGTH = 64
_MANY = 100_000


@dataclass(frozen=True)
class ColumnChoice:
    field: SourceField
    reason: str


@dataclass(frozen=True)
class ColumnRoles:
    """The fields that could be keys, the best first; and the ones chosen, None where none suits."""

    keys: Sequence[ColumnChoice]
    partition: ColumnChoice | None
    order: ColumnChoice | None

    @property
    def key(self) -> ColumnChoice | None:
        return self.keys[0] if self.keys else None


@dataclass(frozen=True)
class RowTimes:
    """The rows that have both times, by their places, and the times in milliseconds."""

    places: npt.NDArray[np.int64]
    event_ms: npt.NDArray[np.int64]
    arrival_ms: npt.NDArray[np.int64]


def column_roles(
    fields: Sequence[SourceField], times: RowTimes | None, other_roles: set[str], *, is_kafka: bool
) -> ColumnRoles:
    """`other_roles` are the names of fields that are times."""
    free = [field for field in fields if field.name not in other_roles and len(field.values)]
    columns = {field.column: field for field in free if field.is_column}
    if is_kafka:
        order: ColumnChoice | None = ColumnChoice(columns["offset"], "the order within a Kafka partition")
        partition: ColumnChoice | None = ColumnChoice(columns["partition"], "the Kafka partition")
    else:
        order = _order(free, times)
        partition = _partition(free, times, order)
    taken_names = {"topic"} if is_kafka else set()
    if order is not None:
        taken_names.add(order.field.name)
    keys = _keys([field for field in free if field.name not in taken_names])
    if partition is not None:  # a key that is another column than the source partition says more
        keys.sort(key=lambda choice: choice.field.name == partition.field.name)
    return ColumnRoles(keys, partition, order)


def _order(fields: Sequence[SourceField], times: RowTimes | None) -> ColumnChoice | None:
    for field in fields:
        if not field.is_column or not field.is_integer or field.null_share or field.distinct is None:
            continue
        is_unique = field.distinct == len(field.values)
        is_named = bool(_ORDER.search(words_of(field.word)))
        if is_named and is_unique:
            return ColumnChoice(field, "by its name; no two rows of the sample have the same")
        if is_unique and times is not None and len(times.places) > 1 and _grows(field, times):
            return ColumnChoice(field, "it grows with the arrival; no two rows of the sample have the same")
    return None


def _grows(field: SourceField, times: RowTimes) -> bool:
    numbers = field.values.combine_chunks()
    numbers = pa.chunked_array([numbers]).cast(pa.float64()).to_numpy()[times.places]
    numbers_by_arrival = numbers[np.lexsort((numbers, times.arrival_ms))]
    return bool(np.mean(np.diff(numbers_by_arrival) > 0) > 0.999)


def _partition(
    fields: Sequence[SourceField], times: RowTimes | None, order: ColumnChoice | None
) -> ColumnChoice | None:
    possible = [
        field
        for field in fields
        if (field.is_integer or field.is_text)
        and not field.null_share
        and field.distinct is not None
        and (order is None or field.name != order.field.name)
    ]
    for field in possible:
        if field.is_column and _PARTITION.search(words_of(field.word)):
            return ColumnChoice(field, "by its name")
    overall = None if times is None else disorder_of(times.event_ms, times.arrival_ms)
    if overall is None or times is None:
        return None
    best: tuple[int, SourceField] | None = None
    for field in possible:
        if not 2 <= (field.distinct or 0) <= _MOST_PARTITIONS:
            continue
        codes = field.codes[times.places]
        bound_ms = _bound_within(times, codes)
        gain_ms = overall.bound_99_ms - bound_ms
        is_better = gain_ms >= max(_LEAST_GAIN_MS, bound_ms)
        # Rows that are further apart than they come late are in order, whatever the column means.
        is_dense = _gap_within(times, codes) * 4 <= overall.bound_99_ms
        if is_better and is_dense and (best is None or bound_ms < best[0]):
            best = (bound_ms, field)
    if best is None:
        return None
    return ColumnChoice(
        best[1],
        f"within each of its {best[1].distinct} values 99 % of the rows are at most "
        f"{duration_text(best[0])} behind, and {duration_text(overall.bound_99_ms)} without it",
    )


def _bound_within(times: RowTimes, codes: npt.NDArray[np.int64]) -> int:
    disorder = disorder_of(times.event_ms, times.arrival_ms, codes)
    assert disorder is not None, "there are rows"
    return disorder.bound_99_ms


def _gap_within(times: RowTimes, codes: npt.NDArray[np.int64]) -> float:
    """The median time from an event to the next one of the same code."""
    order = np.lexsort((times.event_ms, codes))
    gaps = np.diff(times.event_ms[order])[np.diff(codes[order]) == 0]
    return float(np.median(gaps)) if len(gaps) else np.inf


def _keys(fields: Sequence[SourceField]) -> list[ColumnChoice]:
    choices = [(field, _likelihood(field)) for field in fields if _could_be_key(field)]
    choices.sort(key=lambda item: -item[1])
    return [ColumnChoice(field, _reason(field)) for field, _ in choices]


def _could_be_key(field: SourceField) -> bool:
    kind = field.values.type
    if not (pa.types.is_signed_integer(kind) or field.is_text) or field.holds_json or field.times:
        return False
    if field.null_share > 0.5 or field.distinct is None or field.distinct < 2:
        return False
    example = field.example
    if isinstance(example, str) and len(example) >= _TEXT_LENGTH - 8:
        return False
    return field.distinct * 2 <= len(field.values) or bool(_KEY.search(words_of(field.word)))


def _likelihood(field: SourceField) -> float:
    """Higher for a likelier key; of equal ones the first counts."""
    words, distinct = words_of(field.word), field.distinct or 0
    score = 2.0 * bool(_KEY.search(words)) - 3 * (field.null_share > 0.01)
    repeats = distinct * 2 <= len(field.values)
    score += repeats and distinct <= _MANY
    score -= 2 * (not repeats)
    score -= 2 * (field.path[:1] in (("before",), ("source",)) or words == "op")
    return score + field.is_text * 0.25


def _reason(field: SourceField) -> str:
    name_part = "by its name; " if _KEY.search(words_of(field.word)) else ""
    nulls = f", {share_text(field.null_share)} null" if field.null_share else ""
    values, rows = count_text(field.distinct or 0, "value"), count_text(len(field.values), "row")
    return f"{name_part}{values} in {rows}{nulls}"
