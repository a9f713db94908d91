"""Warnings of input that looks as if a whole column were read wrongly. Each row of it is well-formed, so
nothing else would say so.

Knows what a run has counted, and its rows in `quarantine`.
"""

from collections.abc import Mapping
from datetime import timedelta

import pyarrow.dataset as pads

from slackwater.jobs.engines.rows.progress import Progress
from slackwater.jobs.protocol.staging.validation import Check, warning
from slackwater.windowing.times import EPOCH

_YEAR_2000_MS = 946_684_800_000
_UNITS = (1_000, 1_000_000, 1_000_000_000)
_ALIKE = (0.8, 1.02)  # of the time since 1970: events may be some years old


def odd_input(
    counts: Mapping[str, int], after: Progress, clock_ms: int, quarantined: pads.Dataset
) -> list[Check]:
    """The warnings of one run.

    Args:
        counts: of its rows.
        after: what it knows of its source.
        clock_ms: where its slice ends.
        quarantined: its rows in `quarantine`; read only where there are no others.
    """
    rows = counts["rows_read"] - counts["rows_filtered"]
    if rows and counts["rows_quarantined"] >= rows:
        return [_nothing_usable(rows, quarantined)]
    return (
        _other_unit(int(after.per_partition.max_event_ms.max(initial=0)), clock_ms)
        if counts["rows_accepted"]
        else []
    )


def _nothing_usable(rows: int, quarantined: pads.Dataset) -> Check:
    codes = quarantined.to_table(columns=["reason_code"]).column("reason_code").value_counts().to_pylist()
    listed = ", ".join(f"{code['values']} {code['counts']:,}" for code in codes)
    return warning(
        "some rows are usable",
        f"all {rows:,} rows were quarantined: {listed}; the table `quarantine` has them",
    )


def _other_unit(newest_ms: int, clock_ms: int) -> list[Check]:
    """Where the newest event time, in milliseconds, would be one of the arrivals' time if it were multiplied,
    the source has read seconds or milliseconds as a smaller unit."""
    if newest_ms <= 0 or clock_ms < _YEAR_2000_MS:
        return []
    for factor in _UNITS:
        if _ALIKE[0] <= newest_ms * factor / clock_ms <= _ALIKE[1]:
            newest, intended = (EPOCH + timedelta(milliseconds=ms) for ms in (newest_ms, newest_ms * factor))
            observed = (
                f"the newest event time is {newest:%Y-%m-%dT%H:%M:%SZ}, and {factor:,} times that is "
                f"{intended:%Y-%m-%dT%H:%M:%SZ}, near the "
                "arrivals: the source seems to have read seconds or milliseconds as a smaller unit"
            )
            return [warning("event times are in their column's unit", observed)]
    return []
