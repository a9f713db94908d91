"""What a team sets for the DAGs of its pipelines, beside what these declare: values of Airflow's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class DagOptions:
    """Options of the DAGs of a pipeline.

    Args:
        tags: beside `slackwater`.
        by_sources: whether the DAG runs when all its sources' assets have events, instead of on schedule.
        on: where slices are replayed, in place of what the pipeline declares: by Spark's tasks (``spark``),
            without Spark's tasks (``here``), or as their size says (``auto``).
        default_args: of every task, over ours: owner, queue, executor, execution_timeout, callbacks, retries.
        dag_args: other arguments of Airflow's `DAG`: callbacks, deadline, owner_links, access_control.
        on_overdue: Airflow's `SyncCallback` or `AsyncCallback`, called when an unfinished run is as long
            overdue as makes its pipeline red (`Health.overdue`).
        approval: arguments of Airflow's `ApprovalOperator` where the pipeline asks for approval:
            response_timeout, defaults, assigned_users, notifiers.
    """

    tags: Sequence[str] = ()
    by_sources: bool = False
    on: Literal["auto", "here", "spark"] | None = None
    default_args: Mapping[str, Any] = field(default_factory=dict)
    dag_args: Mapping[str, Any] = field(default_factory=dict)
    on_overdue: Any = None
    approval: Mapping[str, Any] = field(default_factory=dict)

    def dag_arguments(self, default_args: Mapping[str, Any]) -> dict[str, Any]:
        """These as arguments of a DAG whose tasks have `default_args` unless they say otherwise."""
        return {
            **self.dag_args,
            "tags": ["slackwater", *self.tags],
            "default_args": {**default_args, **self.default_args},
        }
