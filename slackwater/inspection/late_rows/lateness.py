"""How much allowed lateness the late rows of a lineage would have needed: which of them another lateness, or
another bound of out-of-orderness, would have saved, and what to restate to take them in.

Allowed lateness does not move watermarks, so the recorded ones apply, and for windows that do not merge the
answer is exact. For a session only the row's own window is considered: a session that the row could have
joined might end later, and take the row with less lateness.

    ├── window ──┤               ▼ the watermark when a row of 12:40 arrives
    12:00    13:00             14:10

The last millisecond of this window is 12:59:59.999. It takes the row if 12:59:59.999 + lateness > 14:10, that
is with a lateness of 1 h 10 min and 2 ms.

A bound that is longer by d moves every watermark back by d, and nothing else. So it saves the rows that a
lateness longer by d would have saved.

Rows are read in SQL from the view `late_live` (`slackwater.inspection.sql.views`), and only counts come
back.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa

from slackwater.windowing.times import MILLISECOND, duration_ms, to_datetime

# Latenesses as people declare them; the report goes up in these steps until every row is saved.
STEPS = (
    *(timedelta(minutes=number) for number in (1, 5, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 4, 6, 9, 12, 18)),
    *(timedelta(days=number) for number in (1, 2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)),
)
# SQL for the end of the window of a late row that ends last; most rows have one window.
_LAST_END = """
    CASE WHEN len(windows) = 1 THEN windows[1]."end"
    ELSE list_max(list_transform(windows, lambda __missed: __missed."end")) END
"""


class Query(Protocol):
    def __call__(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table: ...


# SQL for which late rows count, and the values of its question marks.
RowCondition = tuple[str, Sequence[Any]]
_ANY_ROW: RowCondition = ("true", ())


@dataclass(frozen=True)
class SavedRows:
    """The late rows that one allowed lateness would have saved, and their share of all.

    Attributes:
        restate_from, restate_to: the range of arrivals to restate with that lateness to get these rows in;
            None where no row is saved. Without a restatement they stay lost: their windows are cleaned up.
    """

    lateness: timedelta
    rows: int
    share: float
    restate_from: datetime | None
    restate_to: datetime | None


@dataclass(frozen=True)
class LateRowCounts:
    """The late rows of a lineage by the lateness that they needed.

    Attributes:
        steps_ms: latenesses in milliseconds, ascending.
        rows: for each step how many rows it is the least one to save; one more entry for rows that none
            saves.
        needed_ms: the least and the greatest lateness that a row needed; None where no row was late.
        first_instants, last_arrivals: for each entry of `rows` the least last millisecond of a window that
            takes one, and the greatest arrival; in milliseconds, None where there are no rows.
    """

    steps_ms: Sequence[int]
    rows: Sequence[int]
    needed_ms: tuple[int, int] | None
    first_instants: Sequence[int | None]
    last_arrivals: Sequence[int | None]

    @classmethod
    def of(
        cls,
        query: Query,
        steps_ms: Iterable[int],
        where: RowCondition = _ANY_ROW,
        bound_longer_by_ms: int = 0,
    ) -> "LateRowCounts":
        """The late rows for which `where` is true, as if the bound of out-of-orderness were longer by
        `bound_longer_by_ms` than the recorded one.
        """
        steps, (condition, parameters) = sorted(set(steps_ms)), where
        # Of each row microseconds, which the times are stored as: to convert millions of times takes longer
        # than to read them.
        need = f"greatest(epoch_us(watermark) - epoch_us(last_end) + {1000 * (2 - bound_longer_by_ms)}, 0)"
        counts = query(
            f"""
            SELECT {_place("needed", [1000 * step for step in steps])} AS step, count(*) AS "rows",
                min(needed) // 1000 AS least, max(needed) // 1000 AS greatest,
                epoch_ms(min(last_end)) - 1 AS first_instant, epoch_ms(max(arrival_time)) AS last_arrival
            FROM (
                SELECT last_end, {need} AS needed, arrival_time
                FROM (
                    SELECT {_LAST_END} AS last_end, watermark, arrival_time
                    FROM late_live
                    WHERE len(windows) > 0 AND watermark IS NOT NULL AND {condition}
                )
            )
            GROUP BY step
            """,
            parameters,
        ).to_pylist()
        by_step = {row["step"]: row for row in counts}
        entries = [by_step.get(number, {}) for number in range(len(steps) + 1)]
        return cls(
            steps_ms=steps,
            rows=[entry.get("rows", 0) for entry in entries],
            needed_ms=(min(row["least"] for row in counts), max(row["greatest"] for row in counts))
            if counts
            else None,
            first_instants=[entry.get("first_instant") for entry in entries],
            last_arrivals=[entry.get("last_arrival") for entry in entries],
        )

    @property
    def total(self) -> int:
        return sum(self.rows)

    def rows_saved(self, lateness_ms: int) -> int:
        """How many rows a lateness saves, which is a step, or saves all."""
        return sum(self.rows[: self._entries(lateness_ms)])

    def first_instant(self, lateness_ms: int) -> int:
        instants = self.first_instants[: self._entries(lateness_ms)]
        return min(instant for instant in instants if instant is not None)

    def last_arrival(self, lateness_ms: int) -> int:
        arrivals = self.last_arrivals[: self._entries(lateness_ms)]
        return max(arrival for arrival in arrivals if arrival is not None)

    def _entries(self, lateness_ms: int) -> int:
        if self.needed_ms is None or lateness_ms >= self.needed_ms[1]:
            return len(self.rows)
        return self.steps_ms.index(lateness_ms) + 1


def _place(value: str, steps: Sequence[int], first: int = 0) -> str:
    """SQL for the position of the least of `steps` that is not below a value, counted from `first`; a binary
    search, so that each row is compared with few steps.
    """
    if not steps:
        return str(first)
    middle = len(steps) // 2
    below = _place(value, steps[:middle], first)
    above = _place(value, steps[middle + 1 :], first + middle + 1)
    is_least = f"{value} > {steps[middle - 1]}" if middle else "true"
    up_to_middle = f"CASE WHEN {is_least} THEN {first + middle} ELSE {below} END"
    return f"CASE WHEN {value} <= {steps[middle]} THEN {up_to_middle} ELSE {above} END"


def report(
    query: Query,
    reopened_from: Callable[[datetime], datetime],
    where: RowCondition = _ANY_ROW,
    latenesses: Sequence[timedelta] = (),
    bound_longer_by_ms: int = 0,
) -> list[SavedRows]:
    """The rows saved by each lateness, in rising order: from the greatest step that saves none to the least
    lateness that saves all. Empty where no row is late.

    Args:
        reopened_from: last millisecond of a window → where a restatement must begin to take rows for it.
        where: which late rows count.
        latenesses: report these instead of steps.
        bound_longer_by_ms: by how much the bound of out-of-orderness is longer than the recorded one.
    """
    steps = [duration_ms(step) for step in latenesses or STEPS]
    late_rows = LateRowCounts.of(query, steps, where, bound_longer_by_ms)
    if late_rows.needed_ms is None:
        return []
    if not latenesses:
        least, most = late_rows.needed_ms
        saving_none = [step for step in steps if step < least][-1:]
        steps = [*saving_none, *(step for step in steps if least <= step < most), most]
    return [_saved_rows(step, late_rows, reopened_from) for step in sorted(steps)]


def _saved_rows(
    lateness_ms: int, late_rows: LateRowCounts, reopened_from: Callable[[datetime], datetime]
) -> SavedRows:
    rows = late_rows.rows_saved(lateness_ms)
    return SavedRows(
        lateness=lateness_ms * MILLISECOND,
        rows=rows,
        share=rows / late_rows.total,
        restate_from=reopened_from(to_datetime(late_rows.first_instant(lateness_ms))) if rows else None,
        restate_to=to_datetime(late_rows.last_arrival(lateness_ms)) + MILLISECOND if rows else None,
    )
