"""The kit for users' own tests: a declared pipeline over rows of the test's own; an operator harness, clocks
that a test moves, and runs that follow each other with a snapshot in between.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slackwater.windowing.testing import *  # noqa: F403 - exactly the names of its __all__
from slackwater.windowing.testing import __all__ as _of_windowing

if TYPE_CHECKING:
    from slackwater.pipelines import Pipeline
    from slackwater.runs.kit import Moment, ReplayResult, Rows

__all__ = [*_of_windowing, "replay"]


def replay(
    pipeline: "Pipeline",
    rows: "Rows | Mapping[str, Rows]",
    slices: "Sequence[Moment]" = (),
    *,
    closes: bool = False,
) -> "ReplayResult":
    """Replay rows through a declared pipeline, slice after slice, as runs would, in this process and without
    a warehouse.

    Args:
        pipeline: as declared; its sources are replaced by `rows`, and nothing goes to its sinks.
        rows: of its source, as dicts or as an Arrow table; of several sources a mapping from the name of each
            (or the last part of its path) to its rows. Times without a zone are of UTC.
        slices: where slices end, by arrival: times, dates or ISO 8601, without a zone in the pipeline's; the
            first begins at its `start`. None: one slice with all rows.
        closes: whether all windows that wait for event time fire in the end.

    Raises:
        SliceRejected: an expectation is broken.
        UsageError: a source lacks rows or a column.
    """
    from slackwater.runs.kit import replay_rows

    return replay_rows(pipeline, rows, slices, closes=closes)
