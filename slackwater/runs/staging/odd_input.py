"""Warnings of input that looks as if a column were read wrongly from the first row to the last: each row
is well-formed, so no check of single rows notices it.

Looks at the counts of a run, its greatest event time, and the reasons of its rows in `quarantine`.
"""

from collections.abc import Mapping
from datetime import timedelta

from slackwater.engine.replaying.replay import Outcome
from slackwater.engine.rows.progress import Progress
from slackwater.runs.staging.validation import Check, warning
from slackwater.windowing.times import EPOCH

_YEAR_2000_MS = 946_684_800_000
_UNITS = (1_000, 1_000_000, 1_000_000_000)
_NEAR = (0.8, 1.02)  # an event time counts as near an arrival within this share of the time since 1970


def odd_input(outcome: Outcome, after: Progress, clock_ms: int) -> list[Check]:
    """The warnings of one run, whose slice ends at `clock_ms`."""
    counts = outcome.counts
    rows = counts["rows_read"] - counts["rows_filtered"]
    if rows and counts["rows_quarantined"] >= rows:
        return [_nothing_usable(rows, outcome.reason_counts)]
    return (
        _other_unit(int(after.per_partition.max_event_ms.max(initial=0)), clock_ms)
        if counts["rows_accepted"]
        else []
    )


def _nothing_usable(rows: int, reason_counts: Mapping[str, int]) -> Check:
    rows_by_code = ", ".join(f"{code} {count:,}" for code, count in sorted(reason_counts.items()))
    return warning(
        "usable rows",
        f"all {rows:,} rows were quarantined: {rows_by_code}; the table `quarantine` has them",
    )


def _other_unit(newest_ms: int, clock_ms: int) -> list[Check]:
    sentence = other_unit(newest_ms, clock_ms)
    return [] if sentence is None else [warning("unit of event times", sentence)]


def other_unit(newest_ms: int, clock_ms: int) -> str | None:
    """The sentence that seconds or milliseconds were read as a smaller unit: the newest event time lies near
    1970, and its product with the ratio of two units lies near the arrivals. None where it is not so.
    """
    if newest_ms <= 0 or clock_ms < _YEAR_2000_MS:
        return None
    for factor in _UNITS:
        if _NEAR[0] <= newest_ms * factor / clock_ms <= _NEAR[1]:
            newest, product = (EPOCH + timedelta(milliseconds=ms) for ms in (newest_ms, newest_ms * factor))
            return (
                f"the newest event time is {newest:%Y-%m-%dT%H:%M:%SZ}, and {factor:,} times that is "
                f"{product:%Y-%m-%dT%H:%M:%SZ}, near the "
                "arrivals: the source seems to have read seconds or milliseconds as a smaller unit"
            )
    return None
