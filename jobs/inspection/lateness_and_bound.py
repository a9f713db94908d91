"""The whole advice on lateness and bound for a pipeline, read in one go: verb and page show the same."""

from slackwater.jobs.inspection.completeness import BoundAdvice, advise_on_bound, bounds, lateness_of_bound
from slackwater.jobs.inspection.lateness import LateRowCounts
from slackwater.jobs.inspection.lateness_advice import LatenessAdvice, advise, latenesses
from slackwater.jobs.inspection.lateness_settings import LatenessSettings
from slackwater.jobs.inspection.recorded_assignments import RecordedAssignments
from slackwater.jobs.inspection.views import LineageViews


def advice_of(
    pipeline: str, warehouse: str | None, *, lateness_ms: int | None = None, bound_ms: int | None = None
) -> tuple[LatenessAdvice, BoundAdvice | None]:
    """The advice for main; `lateness_ms` and `bound_ms` have a price in any case.

    Raises:
        NoRuns, UsageError: there is no run.
        NoLateness: no row can be too late here.
    """
    with LineageViews.of(pipeline, warehouse) as views:
        settings = LatenessSettings.of(views.inspection, views.row)
        assignments = RecordedAssignments.of(views, settings)
        steps = [lateness_of_bound(settings, bound) for bound in bounds(settings, bound_ms)]
        late_rows = LateRowCounts.of(
            views.query, [*latenesses(settings, lateness_ms), *steps], settings.of_runs
        )
        return (
            advise(views, settings, assignments, late_rows, lateness_ms),
            advise_on_bound(settings, assignments, late_rows, bound_ms),
        )
