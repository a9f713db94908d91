"""How late rows came, as a histogram by the allowed lateness that each needed, whether taken or not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.inspection.late_rows.recorded_assignments import RecordedAssignments

# Widths of bars that people can read off an axis.
_WIDTHS_MS = (
    *(number * 1000 for number in (1, 2, 5, 10, 15, 30)),
    *(number * 60_000 for number in (1, 2, 5, 10, 15, 30)),
    *(number * 3_600_000 for number in (1, 2, 3, 6, 12)),
    *(number * 86_400_000 for number in (1, 2, 5, 10, 30)),
)
_MOST_BARS = 40
# The latest rows beyond this share are in the last bar, so that a few of them do not squeeze all others.
_SHARE_ON_AXIS = 0.999


@dataclass(frozen=True)
class LatenessDistribution:
    """Rows that came after their window's end, by the least lateness with which it takes them; a row counts
    once for each window. Bar n holds the needs above n · width up to (n + 1) · width, the last one all above
    it.
    """

    width_ms: int
    taken_rows: Sequence[int]
    late_rows: Sequence[int]

    @classmethod
    def of(cls, assignments: RecordedAssignments, lateness_ms: int) -> "LatenessDistribution":
        """The histogram of what was recorded; the axis reaches `lateness_ms` in any case."""
        is_late = assignments.firings >= 0
        needed_ms, rows = assignments.needed_ms[is_late], assignments.rows[is_late]
        is_taken = assignments.is_taken[is_late]
        most = max(lateness_ms, int(np.quantile(needed_ms, _SHARE_ON_AXIS)) if len(needed_ms) else 1)
        width = next((width for width in _WIDTHS_MS if most <= width * _MOST_BARS), _WIDTHS_MS[-1])
        bars = min(-(-most // width), 10 * _MOST_BARS)
        places = np.clip((needed_ms - 1) // width, 0, bars - 1)
        taken_rows, late_rows = (
            np.bincount(places[mask], rows[mask], minlength=bars).astype(np.int64)
            for mask in (is_taken, ~is_taken)
        )
        return cls(
            width,
            [assignments.count_of_all(count) for count in taken_rows],
            [assignments.count_of_all(count) for count in late_rows],
        )
