"""The judge of source rows: which become elements, and why others go to `quarantine`. Times are in ms."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.expressions import values_of
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, columns_judged
from slackwater.engine.rows.derived_columns import (
    add_derived_columns,
    expressions_of_select,
    failures_of_conditions,
)
from slackwater.engine.rows.python_values import as_json
from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.computed_columns import ExpressionFailure
from slackwater.engine.source.overrides import Overrides
from slackwater.engine.source.scan import SliceScan
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Roles
from slackwater.readable import exact_duration_text
from slackwater.tables import schemas
from slackwater.windowing.times import EARLIEST_MS, LATEST_MS, PER_SECOND, floor_to_ms

Int64s = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class JudgedBatch:
    """The elements and the unusable rows of one batch of the source.

    Attributes:
        elements: usable rows of the slice and folded ones: the batch's and derived columns and, as int64,
            `__arrival_ms`, `__event_ms`.
        filtered_folded_count: how many filtered rows had arrived before the slice.
        exploded_count: of how many rows of the source these are the items.
        positions: the position of each element in the batch; None when every row is one.
        unusable_positions: of each row that breaks a rule, also where the rows are dropped.
    """

    elements: pa.Table
    quarantine_rows: pa.Table
    filtered_count: int = 0
    filtered_folded_count: int = 0
    exploded_count: int = 0
    positions: Int64s | None = None
    unusable_positions: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def rows_read(self) -> int:
        return self.elements.num_rows + self.quarantine_rows.num_rows + self.filtered_count


class BatchTimes(NamedTuple):
    """The times of a batch's rows, in milliseconds; the number of a missing one means nothing.

    Attributes:
        no_arrival: whether the row has no arrival that a slice can hold.
        is_beyond: whether it has one after the year 9999.
    """

    arrival: Int64s
    event: Int64s
    no_arrival: Booleans
    no_event: Booleans
    is_beyond: Booleans

    @classmethod
    def of(cls, rows: pa.Table, roles: Roles) -> "BatchTimes":
        arrival, is_null = in_milliseconds(rows.column(roles.arrival_time))
        event, no_event = in_milliseconds(rows.column(roles.event_time))
        is_beyond = ~is_null & (arrival > LATEST_MS)
        return cls(arrival, event, is_null | is_beyond, no_event, is_beyond)


@dataclass(frozen=True)
class Judge:
    """Judges the rows of one pipeline and one slice [from_ms, to_ms) of arrival time.

    A row that arrived before the slice is folded into it, if it arrived since the lineage's start
    (`start_ms`; None: the slice's own start) and is in a file that no earlier run has read; a pipeline
    with stragglers="restate" folds none. A row whose arrival `overrides` change is this run's if its new
    arrival lies in the slice; whether it is usable depends on its true arrival.
    """

    pipeline: Pipeline
    from_ms: int
    to_ms: int
    start_ms: int | None = None
    overrides: Overrides = field(default_factory=Overrides)

    @classmethod
    def of(cls, pipeline: Pipeline, scan: SliceScan) -> "Judge":
        return cls(pipeline, scan.from_ms, scan.to_ms, scan.start_ms, scan.overrides)

    def judge_batch(self, batch: SourceBatch, quarantine: bool = True) -> JudgedBatch:
        """Judge every row. One that does not meet the condition is left out, whatever else is wrong with it.
        A row that breaks several rules is quarantined for the first of: arrival, a failing expression, key,
        event time, range, ahead, behind. Without `quarantine` unusable rows are dropped.
        """
        rows, times = batch.rows, BatchTimes.of(batch.rows, self.pipeline.roles)
        if self.takes_all(batch):
            elements = _with_times(rows, times.arrival, times.event)
            return JudgedBatch(
                elements, self._quarantine(batch, np.zeros(0, np.int64), np.zeros(0, np.int16))
            )
        rows, failures, passes_filter = self._evaluate(rows, self._failures(batch))
        if batch.item_numbers is not None:
            passes_filter = passes_filter & _has_item(batch.item_numbers, failures)
        moved_to, is_moved = self.overrides.apply(
            self.pipeline, rows, times.arrival, times.event, ~times.no_arrival & ~times.no_event
        )
        in_slice = (
            ~times.no_arrival
            & (moved_to >= np.where(is_moved, self.from_ms, self._first_arrival_ms(batch)))
            & (moved_to < self._end_ms(batch))
        )
        reason = self._reasons(batch, rows, times, failures)
        is_of_run = in_slice | (times.no_arrival & (batch.may_hold_unread and batch.read_to_ms is None))
        usable = in_slice & (reason == 0) & passes_filter
        elements = _with_times(rows.filter(pa.array(usable)), moved_to[usable], times.event[usable])
        unusable = np.flatnonzero(is_of_run & (reason != 0) & passes_filter)
        is_filtered = is_of_run & ~passes_filter
        filtered_folded_count = np.count_nonzero(is_filtered & ~times.no_arrival & (moved_to < self.from_ms))
        is_first_item = np.ones(0, np.bool_) if batch.item_numbers is None else batch.item_numbers <= 1
        return JudgedBatch(
            elements,
            quarantine_rows=self._quarantine(
                batch, unusable if quarantine else unusable[:0], reason, failures
            ),
            filtered_count=int(np.count_nonzero(is_filtered)),
            filtered_folded_count=int(filtered_folded_count),
            exploded_count=int(np.count_nonzero(is_of_run & is_first_item)) if len(is_first_item) else 0,
            positions=np.flatnonzero(usable),
            unusable_positions=unusable,
        )

    def takes_all(self, batch: SourceBatch) -> bool:
        """Whether the least and greatest times show that every row is an element, as in most batches."""
        arrival, event = self.pipeline.roles.arrival_time, self.pipeline.roles.event_time
        if not batch.rows.num_rows or self.overrides.moved_arrivals or self.pipeline.condition is not None:
            return False
        if self._computes or batch.item_numbers is not None or self._failures(batch):
            return False
        if not all(batch.is_complete(name) for name in (arrival, event, *self.pipeline.keys)):
            return False
        (first, last), (earliest, latest) = (
            _bounds_in_milliseconds(batch, name) for name in (arrival, event)
        )
        back, forth = _reach(self.pipeline)
        is_in_slice = self._first_arrival_ms(batch) <= first and last < self._end_ms(batch)
        is_in_range = EARLIEST_MS + back <= earliest and latest <= LATEST_MS - forth
        if not (is_in_slice and is_in_range):
            return False
        ahead_ms, behind_ms = self.pipeline.max_ahead_ms, self.pipeline.max_behind_ms
        are_near = latest - first <= ahead_ms and (behind_ms is None or last - earliest <= behind_ms)
        return are_near or self._all_are_near(batch)

    def _all_are_near(self, batch: SourceBatch) -> bool:
        """Whether all event times are within `max_ahead` and `max_behind` of their arrivals."""
        source, behind_ms = self.pipeline.roles, self.pipeline.max_behind_ms
        (arrival, _), (event, _) = (
            in_milliseconds(batch.rows.column(name)) for name in (source.arrival_time, source.event_time)
        )
        ahead = event - arrival
        return int(ahead.max()) <= self.pipeline.max_ahead_ms and (
            behind_ms is None or int(ahead.min()) >= -behind_ms
        )

    def folded_count(self, batch: SourceBatch, elements: pa.Table) -> int:
        if self._first_arrival_ms(batch) >= self.from_ms:
            return 0
        return int(np.count_nonzero(elements.column(ARRIVAL).to_numpy() < self.from_ms))

    def with_derived_columns(self, rows: pa.Table) -> pa.Table:
        return add_derived_columns(self.pipeline, rows)[0] if self.pipeline.derivations else rows

    @property
    def _computes(self) -> bool:
        return bool(self.pipeline.derivations) or bool(expressions_of_select(self.pipeline))

    def _failures(self, batch: SourceBatch) -> list[ExpressionFailure]:
        """The failures of those computed columns of the source that the pipeline reads."""
        if not batch.failures:
            return []
        names_read = columns_judged(self.pipeline, batch.rows.column_names)
        return [
            failure
            for failure in batch.failures
            if failure.column in names_read or failure.declaration == "explode"
        ]

    def _evaluate(
        self, rows: pa.Table, source_failures: list[ExpressionFailure]
    ) -> tuple[pa.Table, list[ExpressionFailure], Booleans]:
        """(the rows with derived columns, the failures of expressions, where the condition is true). Where it
        fails, or is unknown and reads a column that fails, the row counts as part of the pipeline, and goes
        to quarantine.
        """
        rows, failures = add_derived_columns(self.pipeline, rows, source_failures)
        passes_filter = np.ones(rows.num_rows, np.bool_)
        if self.pipeline.condition is not None:
            is_met, is_failed = values_of(self.pipeline.condition, rows)
            if is_failed is not None:
                failures.append(ExpressionFailure("where", None, is_failed))
            passes_filter, is_unknown = np.asarray(is_met.fill_null(False)), np.asarray(is_met.is_null())
            for failure in failures:
                if failure.column is None or failure.column in self.pipeline.condition.columns:
                    passes_filter = passes_filter | (is_unknown & failure.rows)
        return rows, [*failures, *failures_of_conditions(self.pipeline, rows)], passes_filter

    def _first_arrival_ms(self, batch: SourceBatch) -> int:
        if self.start_ms is None or not batch.may_hold_unread or self.pipeline.stragglers == "restate":
            return self.from_ms
        return self.start_ms if batch.read_to_ms is None else max(self.start_ms, batch.read_to_ms)

    def _end_ms(self, batch: SourceBatch) -> int:
        return self.from_ms if batch.is_part else self.to_ms

    def _reasons(
        self, batch: SourceBatch, rows: pa.Table, times: BatchTimes, failures: Sequence[ExpressionFailure]
    ) -> npt.NDArray[np.int16]:
        """Why each row is unusable, for the first rule that it breaks: a number of _REASONS from 1, then of
        `failures`; 0 where it is usable.
        """
        reason = np.zeros(rows.num_rows, np.int16)
        rules_broken = self._rules_broken(batch, rows, times)
        for number, breaks_rule in reversed(list(enumerate(rules_broken, 1))):
            reason[breaks_rule] = number
        for number, failure in reversed(list(enumerate(failures, len(_REASONS) + 1))):
            reason[failure.rows] = number
        reason[times.no_arrival] = _REASON_NUMBERS["null_arrival"]
        reason[times.is_beyond] = _REASON_NUMBERS["arrival_out_of_range"]
        for number, failure in enumerate(failures, len(_REASONS) + 1):
            if failure.column == self.pipeline.roles.arrival_time:
                reason[failure.rows] = number
        return reason

    def _rules_broken(self, batch: SourceBatch, rows: pa.Table, times: BatchTimes) -> list[Booleans]:
        """For each rule of _REASONS but those on arrivals, whether each of the batch's `rows` breaks it."""
        no_key = np.zeros(rows.num_rows, np.bool_)
        for name in self.pipeline.keys:
            if name in self.pipeline.derive or not batch.is_complete(name):
                no_key |= np.asarray(rows.column(name).is_null())
        arrival, event, has_event = times.arrival, times.event, ~times.no_event
        back, forth = _reach(self.pipeline)
        beyond = has_event & ((event > LATEST_MS - forth) | (event < EARLIEST_MS + back))
        ahead = has_event & (event > arrival + self.pipeline.max_ahead_ms)
        is_behind = np.zeros(rows.num_rows, np.bool_)
        if self.pipeline.max_behind_ms is not None:
            is_behind = has_event & (event < arrival - self.pipeline.max_behind_ms)
        return [no_key, times.no_event, beyond, ahead, is_behind]

    def _quarantine(
        self,
        batch: SourceBatch,
        positions: Int64s,
        reason: npt.NDArray[np.int16],
        failures: Sequence[ExpressionFailure] = (),
    ) -> pa.Table:
        """Rows of `quarantine` at `positions`; `reason` numbers _REASONS from 1, then `failures`."""
        source = self.pipeline.roles
        rows = batch.full_rows(positions) if len(positions) else batch.rows.slice(0, 0)
        bounds = {
            "ahead": exact_duration_text(self.pipeline.max_ahead),
            "behind": exact_duration_text(self.pipeline.max_behind),
        }
        reasons = [(code, text.format(**bounds)) for code, text in _REASONS]
        reasons += [(EXPRESSION_FAILED, failure.reason) for failure in failures]
        numbers = reason[positions].tolist()
        codes = [reasons[number - 1][0] for number in numbers]
        texts = [reasons[number - 1][1] for number in numbers]
        arrival_codes = ("null_arrival", "arrival_out_of_range")
        columns_by_code = {**dict.fromkeys(arrival_codes, source.arrival_time), "null_key": ""}
        arrivals = rows.column(source.arrival_time)
        if "arrival_out_of_range" in codes:
            is_beyond = pa.array([code == "arrival_out_of_range" for code in codes])
            arrivals = pc.if_else(is_beyond, pa.scalar(None, arrivals.type), arrivals)
        rows_with_keys = self.with_derived_columns(rows) if "null_key" in codes else rows
        columns = [
            failures[number - len(_REASONS) - 1].column
            if code == EXPRESSION_FAILED
            else columns_by_code.get(code, source.event_time) or self._null_key(rows_with_keys, place)
            for place, (number, code) in enumerate(zip(numbers, codes, strict=True))
        ]
        return pa.table(
            {
                **_source_of(rows, source),
                "reason_code": pa.array(codes, pa.string()),
                "reason": pa.array(texts, pa.string()),
                "row_json": pa.array(as_json(rows), pa.string()),
                "source_file": pa.array([batch.path] * rows.num_rows, pa.string()),
                "arrival_time": arrivals.cast(schemas.TIME, safe=False),
                "column_name": pa.array(columns, pa.string()),
            }
        )

    def _null_key(self, rows: pa.Table, number: int) -> str:
        return next(name for name in self.pipeline.keys if not rows.column(name)[number].is_valid)


def _with_times(rows: pa.Table, arrival: Int64s, event: Int64s) -> pa.Table:
    return rows.append_column(ARRIVAL, pa.array(arrival)).append_column(EVENT, pa.array(event))


def _has_item(item_numbers: Int64s, failures: Iterable[ExpressionFailure]) -> Booleans:
    """Whether each row of an exploded source is an item, or one whose list can't be computed."""
    has_item = item_numbers > 0
    for failure in failures:
        if failure.declaration == "explode":
            has_item = has_item | failure.rows
    return has_item


def _source_of(rows: pa.Table, roles: Roles) -> dict[str, pa.ChunkedArray | pa.Array]:
    """The column that names the source of quarantine rows of several sources."""
    if roles.source is None:
        return {}
    has_source = rows.num_rows or roles.source in rows.column_names
    return {roles.source: rows.column(roles.source) if has_source else pa.array([], pa.string())}


EXPRESSION_FAILED = "expression_failed"
_REASONS = (
    ("null_key", "a key column is null"),
    ("null_event_time", "the event time is null"),
    ("time_out_of_range", "the window of this event time would leave the range of timestamps"),
    ("ahead_of_arrival", "the event time is more than {ahead} after the arrival"),
    ("behind_arrival", "the event time is more than {behind} before the arrival"),
    ("null_arrival", "the arrival time is null"),
    ("arrival_out_of_range", "the arrival time is after the year 9999, and no slice lies there"),
)
_REASON_NUMBERS = {code: number for number, (code, _) in enumerate(_REASONS, 1)}


def _reach(pipeline: Pipeline) -> tuple[int, int]:
    """How many ms before and after an element's time its windows, timers, watermark and memory may lie."""
    bound_ms = pipeline.watermarks.out_of_orderness_ms
    after_ms = pipeline.window_ms if pipeline.distinct_by is None else max(pipeline.window_ms, bound_ms)
    return max(pipeline.window_ms, bound_ms + 1), after_ms + pipeline.allowed_lateness_ms


def _bounds_in_milliseconds(batch: SourceBatch, name: str) -> tuple[int, int]:
    least, greatest = batch.bounds(name)
    unit = batch.rows.column(name).type.unit
    return floor_to_ms(least, unit), floor_to_ms(greatest, unit)


def in_milliseconds(column: pa.ChunkedArray) -> tuple[Int64s, Booleans]:
    """(a timestamp column as floored milliseconds, whether each is null); a null's number means nothing."""
    per_second = PER_SECOND[column.type.unit]
    missing = np.asarray(column.is_null()) if column.null_count else np.zeros(len(column), np.bool_)
    numbers = column.cast(pa.int64())
    numbers_or_zero = np.asarray(numbers.fill_null(0) if column.null_count else numbers)
    return numbers_or_zero * 1000 if per_second == 1 else numbers_or_zero // (per_second // 1000), missing
