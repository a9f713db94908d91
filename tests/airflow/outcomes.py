"""The outcome of a replay, and the operator that gives it, for the tests of tasks."""

from pathlib import Path

from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.job import JobOperator
from slackwater.args import Manifest
from slackwater.pipelines.registry import load

STAGED_MANIFEST = Manifest(
    pipeline="departures",
    outcome="staged",
    exit_code=0,
    run_id="b2",
    run_ids=("a1", "b2"),
    verdict="passed",
    message="2 slices staged",
    failures=(),
    slices=(
        ("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00"),
        ("2013-01-02T00:00:00+00:00", "2013-01-03T00:00:00+00:00"),
    ),
    stale=(),
    counts={
        "rows_read": 1454,
        "windows_fired": 85,
        "windows_refired": 202,
        "rows_late": 2,
        "rows_quarantined": 12,
    },
    seconds=2.47,
)


def job_operator(settings: Settings, manifest: Path) -> JobOperator:
    arguments = ["run", "departures", "--manifest", str(manifest), "--warehouse", "w"]
    pipeline = load(examples=True)["departures"]
    return JobOperator(task_id="replay", pipeline=pipeline, arguments=arguments, settings=settings)
