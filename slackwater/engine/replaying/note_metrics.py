"""Metrics that merge, of late and quarantined rows; range tasks take them of what they hand over."""

from collections import Counter
from typing import NamedTuple, Self

import pyarrow as pa

from slackwater.tables.sql import query
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline


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
    def of_table(cls, table: pa.Table) -> Self:
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
