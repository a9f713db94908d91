"""What Spark's jobs, stages and SQL executions are called in its pages and event logs: the pipeline, the
slice, the phase and the run that has started them. Without it all would be called `toArrow at on_spark.py`.

    jobs_called("departures [2013-01-01, 2013-01-02): replay, run …", run_id)     where the work is known
    naming_jobs(context)                                                          where jobs start
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark import SparkContext


class _JobNames(NamedTuple):
    """The description of jobs, and their group: the id of a run."""

    description: str
    group: str | None


_NAMES: ContextVar[_JobNames | None] = ContextVar("names of Spark's jobs", default=None)


@contextmanager
def jobs_called(description: str, group: str | None = None) -> Iterator[None]:
    token = _NAMES.set(_JobNames(description, group))
    try:
        yield
    finally:
        _NAMES.reset(token)


@contextmanager
def naming_jobs(context: "SparkContext") -> Iterator[None]:
    """Name and group the block's jobs, then restore what the thread had: the session may be the user's."""
    names = _NAMES.get()
    if names is None:
        yield
        return
    properties = {"spark.job.description": names.description, "spark.jobGroup.id": names.group}
    before = {name: context.getLocalProperty(name) for name in properties}
    try:
        for name, value in properties.items():
            _set(context, name, value)
        yield
    finally:
        for name, value in before.items():
            _set(context, name, value)


def _set(context: "SparkContext", name: str, value: str | None) -> None:
    context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None, which PySpark takes, removes it
