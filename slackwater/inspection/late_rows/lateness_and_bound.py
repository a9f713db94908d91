"""The whole advice on lateness and bound for a pipeline, for verb and page."""

from dataclasses import dataclass

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.late_rows import lateness_sentences
from slackwater.inspection.late_rows.completeness import (
    BoundAdvice,
    advise_on_bound,
    bounds,
    lateness_of_bound,
)
from slackwater.inspection.late_rows.lateness import LateRowCounts
from slackwater.inspection.late_rows.lateness_advice import LatenessAdvice, advise, latenesses
from slackwater.inspection.late_rows.lateness_distribution import LatenessDistribution
from slackwater.inspection.late_rows.lateness_settings import LatenessSettings
from slackwater.inspection.late_rows.recorded_assignments import RecordedAssignments
from slackwater.inspection.sql.views import LineageViews
from slackwater.pipelines import Pipeline
from slackwater.tables.warehouse import Warehouse

# So many firings and late rows are read, unless more runs are asked for.
MOST_ROWS = 3_000_000


@dataclass(frozen=True)
class LateRowAdvice:
    """The prices of latenesses, the prices of bounds (None where none is known), and how late rows came."""

    lateness: LatenessAdvice
    bound: BoundAdvice | None
    distribution: LatenessDistribution

    @property
    def settings(self) -> LatenessSettings:
        return self.lateness.settings

    @property
    def summary(self) -> str:
        return lateness_sentences.summary(self.lateness)

    @property
    def suggestions(self) -> list[str]:
        """The suggested lateness, and the suggested bound where one has a price, each with its price."""
        bounds = [] if self.bound is None else [lateness_sentences.bound_suggestion(self.bound)]
        return [lateness_sentences.lateness_suggestion(self.lateness), *bounds]

    @property
    def notes(self) -> list[str]:
        return lateness_sentences.exactness(self.lateness)


def advice_of(
    inspection: Inspection,
    *,
    lateness_ms: int | None = None,
    bound_ms: int | None = None,
    last_runs: int | None = None,
    reading: tuple[Pipeline, Warehouse] | None = None,
) -> LateRowAdvice:
    """The advice for main.

    Args:
        lateness_ms, bound_ms: get a price in any case; a bound only if it is longer than the declared one.
        last_runs: look at so many of the newest runs; None: at as many as can be read in a moment.
        reading: the pipeline and the warehouse of its source, to read the rows from there: then shorter
            bounds have a price, too, and for windows that overlap every number is exact.

    Raises:
        UsageError, NoLateness: there is no run, or no row can be too late here.
        NotFromSource, NeedsSpark, CannotRepeat, SnapshotGone: see `assignments_of_source`.
    """
    head = inspection.run(None)
    settings = LatenessSettings.of(inspection, head).of_newest(last_runs, MOST_ROWS)
    with LineageViews.over(inspection, settings.row_of_runs(head)) as views:
        if reading is None:
            assignments = RecordedAssignments.of(views, settings)
        else:
            from slackwater.inspection.late_rows.source_assignments import assignments_of_source

            assignments = assignments_of_source(inspection, *reading, settings)
        steps = [lateness_of_bound(settings, bound) for bound in bounds(settings, bound_ms)]
        late_rows = LateRowCounts.of(views.query, [*latenesses(settings, lateness_ms), *steps])
    return LateRowAdvice(
        advise(inspection, settings, assignments, late_rows, lateness_ms),
        advise_on_bound(settings, assignments, late_rows, bound_ms),
        LatenessDistribution.of(assignments, settings.lateness_ms),
    )
