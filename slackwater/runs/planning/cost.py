"""The cost of a plan: the seconds that the command would take and the megabytes of its largest task, from
what earlier runs have recorded.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from slackwater.engine import planner as engines
from slackwater.engine.replaying.task_memory import (
    estimate_mb,
    most_rows_of_range,
    ranges_for,
    rows_in,
    rows_sent,
)
from slackwater.engine.source.files import InputFile
from slackwater.engine.transport.placement import On, Placement, SliceNeeds, Workers, placement_of
from slackwater.pipelines import Pipeline
from slackwater.runs.planning.plan_inputs import PlanInputs
from slackwater.runs.planning.prediction import Prediction, predict
from slackwater.runs.planning.source_reads import SourceReads
from slackwater.runtime.memory import IDLE_MB, VARIABLE, state_memory_mb
from slackwater.runtime.settings import spark_place, tasks_here

# What the megabytes of a plan rest on.
MEMORY_BASIS = "rows of two sums each; what keeps more needs more"


def predicted_seconds(inputs: PlanInputs, engine: str, *, needs_spark: bool) -> Prediction | None:
    """The seconds that slices take by earlier runs of the engine; None where no run is recorded."""
    prediction = predict(inputs.newest_rows(), engine)
    return prediction if prediction is None or needs_spark else replace(prediction, start=0.0)


def warn_of_one_key(pipeline: Pipeline, memory_mb: int) -> list[str]:
    """The sentence on windows of all rows that one task can't hold, because they have one key."""
    limit_mb = IDLE_MB + state_memory_mb()
    if pipeline.keys or memory_mb <= limit_mb:
        return []
    return [
        "the windows are of all rows, which one task takes, whatever the number of ranges: about "
        f"{memory_mb} MB, where {VARIABLE} leaves it {limit_mb}. Key the rows, shorten the slice, or give "
        "tasks more"
    ]


def placements_of(
    inputs: PlanInputs, reads: SourceReads, choice: engines.Choice, parked_rows: int, on: On
) -> tuple[Placement, ...]:
    """Where each slice would be replayed, and why there. Raises SparkNeeded: `on` forbids Spark for a slice
    that only Spark can replay.
    """
    engine = choice.make()
    workers = Workers(tasks_here(), spark_place(), has_processes=find_spec("pyspark") is not None)
    sources = inputs.sources.each
    most_rows = most_rows_of_range(inputs.pipeline, sources, engine, state_memory_mb())

    def needs_of(files: Sequence[InputFile]) -> SliceNeeds:
        rows = rows_sent(inputs.pipeline, sources, files, engine) + parked_rows
        return SliceNeeds(
            size=sum(file.bytes * file.fraction for file in files),
            ranges=ranges_for(inputs.pipeline, rows, most_rows, workers.slots),
            in_threads=engine.in_threads,
            why_not_direct=inputs.sources.why_not_direct,
        )

    return tuple(placement_of(needs_of(files), workers, on) for files in reads.files)


def memory_mb_of(inputs: PlanInputs, reads: SourceReads, choice: engines.Choice, parked_rows: int) -> int:
    """Megabytes of the largest task of any slice, from a snapshot of so many windows and remembered rows."""
    estimates = [
        estimate_mb(
            inputs.pipeline,
            inputs.sources.each,
            files,
            rows_in(files) if item.rows is None else item.rows,
            parked_windows=parked_rows,
            engine=choice.make(),
        )
        for item, files in zip(reads.slices, reads.files, strict=True)
    ]
    return max(estimates, default=0)
