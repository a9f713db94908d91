"""What validation knows of the panes of a run: metrics that merge. A range task takes them of the panes that
it hands over, and the driver merges what all tasks have taken:

    metrics(a ∪ b) = merge(metrics(a), metrics(b))

So they are the same however the panes are divided, and no pane is read a second time. The metrics of n
expectations are a table of one row; expectation i has these columns:

    checked_i     how many values it looks at: those that are not null, of `not_null` all
    unexpected_i  how many of them break it
    low_i, high_i the least and the greatest value
    sample_i      the least values that break it, SAMPLES at most, in order; not of `not_null`

Values have the types of their columns. Nothing here decides whether an expectation is met.

Metrics of late and quarantined rows merge in the same way.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import pyarrow as pa

from slackwater.pipelines import Expectation
from slackwater.tables.sql import query, quoted
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline

SAMPLES = 5


def columns_measured(expectations: Sequence[Expectation]) -> list[str]:
    return list(dict.fromkeys(["kind", *(item.column for item in expectations)]))


def pane_metrics(expectations: Sequence[Expectation], panes: pa.Table) -> pa.Table:
    """The metrics of the panes that are not withdrawn: one row.

    Args:
        expectations: at least one; their bounds and values can be compared with their columns.
        panes: their columns, see `columns_measured`, in the types of the table `panes` or dictionaries of
            these.
    """
    parameters: list[Any] = []

    def terms(number: int, item: Expectation) -> list[str]:
        column, kind = quoted(item.column), panes.schema.field(item.column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        condition, values = broken_condition(item, column, kind)
        value = _unsigned_zero(column, kind)
        is_of_nulls = item.kind == "not_null"
        parameters.extend(values if is_of_nulls else values * 2)
        least = f"min({value}, {SAMPLES}) FILTER (WHERE {condition})"
        return [
            f"count({'*' if is_of_nulls else column}) AS checked_{number}",
            f"count(*) FILTER (WHERE {condition}) AS unexpected_{number}",
            f"min({value}) AS low_{number}",
            f"max({value}) AS high_{number}",
            *([] if is_of_nulls else [f"{least} AS sample_{number}"]),
        ]

    selection = _selection_of_each(expectations, terms)
    return query(f"SELECT {selection} FROM panes WHERE kind <> 'withdrawn'", parameters, panes=panes)


def merge_metrics(expectations: Sequence[Expectation], parts: Sequence[pa.Table]) -> pa.Table:
    """The metrics of several sets of panes together, from the metrics of each set; at least one."""

    def terms(number: int, item: Expectation) -> list[str]:
        samples = f"list(sample_{number}) FILTER (WHERE sample_{number} IS NOT NULL)"
        least = f"list_slice(list_sort(flatten({samples})), 1, {SAMPLES})"
        return [
            *(f"sum({name}_{number})::BIGINT AS {name}_{number}" for name in ("checked", "unexpected")),
            f"min(low_{number}) AS low_{number}",
            f"max(high_{number}) AS high_{number}",
            *([] if item.kind == "not_null" else [f"{least} AS sample_{number}"]),
        ]

    return query(
        f"SELECT {_selection_of_each(expectations, terms)} FROM parts", parts=pa.concat_tables(parts)
    )


def _selection_of_each(
    expectations: Sequence[Expectation], terms: Callable[[int, Expectation], list[str]]
) -> str:
    return ", ".join(term for number, item in enumerate(expectations) for term in terms(number, item))


def broken_condition(item: Expectation, column: str, kind: pa.DataType) -> tuple[str, list[Any]]:
    """The SQL condition under which a value breaks the expectation, and its parameters; NaN is greatest."""
    if item.kind == "not_null":
        return f"{column} IS NULL", []
    if item.kind == "in_set":
        return f"{column} NOT IN ({', '.join('?' for _ in item.values)})", [
            _comparable(value, kind) for value in item.values
        ]
    sides = [(f"{column} < ?", item.minimum), (f"{column} > ?", item.maximum)]
    present = [(condition, _comparable(bound, kind)) for condition, bound in sides if bound is not None]
    return f"({' OR '.join(condition for condition, _ in present)})", [bound for _, bound in present]


def _unsigned_zero(column: str, kind: pa.DataType) -> str:
    """SQL for the values of a column, -0.0 as 0.0: the order of the panes would decide which is the least."""
    if not pa.types.is_floating(kind):
        return column
    return f"({column} + 0::{'DOUBLE' if pa.types.is_float64(kind) else 'FLOAT'})"


def _comparable(value: Any, kind: pa.DataType) -> Any:
    """`value` as DuckDB can compare it: as a double where a decimal column could not hold it."""
    return (
        float(value)
        if pa.types.is_decimal(kind) and abs(value) >= 10 ** (kind.precision - kind.scale)
        else value
    )


class RowsLateByMark(NamedTuple):
    """Rows, at least one, that only the collected mark makes late; see `collected_mark`. In milliseconds the
    least last instant of a window that would have taken one, and the greatest arrival.
    """

    rows: int
    last_instant: int
    arrival: int

    @classmethod
    def of(cls, late: pa.Table, lateness_ms: int) -> Self | None:
        """Those among rows of `late_events`; None where there are none."""
        last = """epoch_ms(list_max(list_transform(windows, lambda missed: missed."end"))) - 1"""
        sql = f"""
            SELECT count(*) AS rows, min(last) AS last, max(arrival) AS arrival
            FROM (SELECT {last} AS last, epoch_ms(arrival_time) AS arrival, epoch_ms(watermark) AS watermark
                FROM late)
            WHERE last + {lateness_ms} > watermark
        """
        [bounds] = query(sql, late=late.select(["windows", "arrival_time", "watermark"])).to_pylist()
        return cls(bounds["rows"], bounds["last"], bounds["arrival"]) if bounds["rows"] else None

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        return cls(*table.to_pylist()[0].values())

    def to_table(self) -> pa.Table:
        return pa.Table.from_pylist([self._asdict()])

    def merge(self, other: "RowsLateByMark | None") -> "RowsLateByMark":
        if other is None:
            return self
        return RowsLateByMark(
            self.rows + other.rows,
            min(self.last_instant, other.last_instant),
            max(self.arrival, other.arrival),
        )


def is_mark_ahead(timeline: Timeline, lateness_ms: int) -> bool:
    """Whether the collected mark may make rows late that the watermark and the allowed lateness would not."""
    mark = timeline.collected_mark
    return mark != INITIAL_WATERMARK and mark > timeline.initial - lateness_ms


def reason_counts(quarantine_rows: pa.Table) -> pa.Table:
    """Reason codes and how many rows of `quarantine` have each: the columns values and counts."""
    return pa.Table.from_struct_array(quarantine_rows.column("reason_code").value_counts())


def as_counter(counts: pa.Table) -> Counter[str]:
    return Counter(
        dict(zip(counts.column("values").to_pylist(), counts.column("counts").to_pylist(), strict=True))
    )
